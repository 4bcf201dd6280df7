# SPDX-License-Identifier: Apache-2.0
"""`key_by(df, "user").map(...)`, `flat_map` and `filter`: what is done with each record alone.

What needs no state of its key is less to write, and faster, as Spark's own `select` and `where`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from pyflinklike.api.map_functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    as_filter_function,
    as_flat_map_function,
    as_map_function,
)
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.functions import Function
from pyflinklike.spark.inputs import OneInput
from pyflinklike.spark.operators import applied

if TYPE_CHECKING:
    from pyflinklike.spark.setup.options import KeyedOptions
    from pyflinklike.type_vars import Unpack

__all__ = ["Maps"]

SideOutputs = Iterable[OutputTag] | Mapping[OutputTag, Any]


class Maps:
    """What a `KeyedStream` can do with each record; all take the options of `process` by keyword.

    A function is a callable of a record, or an object whose `open` obtains state of keys.
    """

    _df: DataFrame
    _input: Callable[..., OneInput]

    def map(
        self,
        func: MapFunction | Callable[[Any], Any],
        output_type: Any,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """One row for each record.

        Args:
            func: Is given a record, a `Row` of the columns of the DataFrame.
            output_type: Of the rows: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._each(as_map_function(func), "Map", output_type, side_outputs, options)

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: Any,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """Any number of rows for each record.

        Args:
            func: Is given a record, and gives an iterable of rows, or None for none.
            output_type: Of the rows: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        function = as_flat_map_function(func)
        return self._each(function, "FlatMap", output_type, side_outputs, options)

    def filter(
        self,
        func: FilterFunction | Callable[[Any], Any],
        **options: Unpack[KeyedOptions],
    ) -> DataFrame:
        """The records of which a function is true, as they are.

        Args:
            func: Is given a record.
            **options: Of `process`.

        Returns:
            Records, with the columns of the DataFrame.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._each(as_filter_function(func), "Filter", self._df.schema, (), options)

    def _each(
        self,
        function: Function,
        name: str,
        output_type: Any,
        side_outputs: SideOutputs,
        options: KeyedOptions,
    ) -> DataFrame:
        source = self._input(
            options.pop("event_time", None),
            before_watermark=options.pop("before_watermark", None),
            arrival_order=options.pop("arrival_order", False),
        )
        named: Any = {**options, "uid": options.get("uid") or name}
        return applied(
            function,
            source,
            output_type,
            side_outputs=side_outputs,
            processing_time_timers=False,
            **named,
        )
