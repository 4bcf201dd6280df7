# SPDX-License-Identifier: Apache-2.0
"""Folds by a field: `key_by(df, "user").sum("amount")`, and the same within windows.

Folds of keys give the columns of the input.  On a stream each record emits the fold so far; in a
batch each key emits its fold once, as in Flink's two modes.  Flink's Java API has folds of windows;
PyFlink does not have them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._type_vars import Unpack
from pyflinklike.aggregations._element_types import element_type
from pyflinklike.aggregations.fold import FieldFold, Fold, Max, MaxBy, Min, MinBy, Sum
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.spark._plan.process_options import ElementOptions, KeyedOptions
from pyflinklike.state.fold_functions import ReduceFunction

_NOT_COMPARED = (st.ArrayType, st.MapType, st.StructType)


class Folds:
    """The folds of a `KeyedDataFrame`; each takes the options of `process` by keyword.

    Name a field by its name or by its position, from 0.  None in a field raises, as in Flink:
    filter such records out, or `F.coalesce` them, before `key_by`.
    """

    _df: DataFrame
    _time_zone: str

    def process(
        self, function: KeyedProcessFunction, output_type: Any, **options: Unpack[ElementOptions]
    ) -> DataFrame:
        """Apply a function to every record: `KeyedDataFrame.process`."""
        raise NotImplementedError

    def reduce(
        self,
        func: ReduceFunction[Any] | Callable[[Any, Any], Any],
        *,
        running: bool | None = None,
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Fold the records of each key with a function of two of them.

        Args:
            func: Gets the fold so far and a record, both `Row`s of the columns of the DataFrame,
                and returns such a row, or a tuple or dict.  It may be a `ReduceFunction` with
                `open`, `close` and keyed state.
            running: Whether every record emits the fold so far; by default True for a stream and
                False for a batch.  If False, each key emits its last fold once: in a batch at the
                end, on a stream with `event_time` when `end_input` ends it.
            **options: The options of `process`.

        Returns:
            The folds, with the columns of the DataFrame.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._fold(func, "Reduce", running, options)

    def sum(
        self,
        position_to_sum: int | str = 0,
        *,
        running: bool | None = None,
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Add up a field; the other fields come from the key's first record.

        A sum that the type of the column cannot hold raises: cast it to a larger type before.

        Args:
            position_to_sum: Name or position of the field, which holds numbers.
            running: Whether every record emits the fold so far, as in `reduce`.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Sum(position_to_sum), running, options)

    def min(
        self,
        position_to_min: int | str = 0,
        *,
        running: bool | None = None,
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Keep the least value of a field; the other fields come from the key's first record.

        Args:
            position_to_min: Name or position of the field.
            running: Whether every record emits the fold so far, as in `reduce`.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Min(position_to_min), running, options)

    def max(
        self,
        position_to_max: int | str = 0,
        *,
        running: bool | None = None,
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Keep the greatest value of a field; the other fields come from the key's first record.

        Args:
            position_to_max: Name or position of the field.
            running: Whether every record emits the fold so far, as in `reduce`.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Max(position_to_max), running, options)

    def min_by(
        self,
        position_to_min_by: int | str = 0,
        *,
        running: bool | None = None,
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Keep the record with the least value of a field, the earliest one if several are equal.

        Args:
            position_to_min_by: Name or position of the field.
            running: Whether every record emits the fold so far, as in `reduce`.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(MinBy(position_to_min_by), running, options)

    def max_by(
        self,
        position_to_max_by: int | str = 0,
        *,
        running: bool | None = None,
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Keep the record with the greatest value of a field, the earliest one if several are equal.

        Args:
            position_to_max_by: Name or position of the field.
            running: Whether every record emits the fold so far, as in `reduce`.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(MaxBy(position_to_max_by), running, options)

    def _by_field(
        self, fold: FieldFold, running: bool | None, options: ElementOptions
    ) -> DataFrame:
        check_field(self._df.schema, fold)
        return self._fold(fold, type(fold).__name__, running, options)

    def _fold(
        self, func: Any, name: str, running: bool | None, options: ElementOptions
    ) -> DataFrame:
        is_streaming = self._df.isStreaming
        if running is False and is_streaming and options.get("event_time") is None:
            msg = (
                "a stream emits its last folds at its end, which it knows by event time, got "
                "running=False without event_time; leave it out, fold within windows, or end the "
                "stream: with_ending_watermark, event_time and end_input"
            )
            raise DeclarationValueError(msg)
        schema = self._df.schema
        fold = Fold(
            func,
            element_type(schema, self._time_zone),
            running=is_streaming if running is None else running,
        )
        named: ElementOptions = {**options, "uid": options.get("uid") or name}
        return self.process(fold, schema, **named)


def check_field(schema: st.StructType, fold: FieldFold) -> None:
    """Check that rows have the field of a fold, and that it can be folded.

    Raises:
        DeclarationTypeError, DeclarationValueError: The field does not exist, or cannot be folded.
    """
    position = fold.position
    known = range(len(schema.fields)) if isinstance(position, int) else schema.names
    if position not in known:
        msg = (
            f"{fold.what} takes the name or the position of a column, got {position!r}; choose "
            f"from {schema.names}"
        )
        raise DeclarationValueError(msg)
    kind = schema[position].dataType
    if isinstance(fold, Sum) and not isinstance(kind, st.NumericType):
        msg = (
            f"sum takes a column of numbers, got {schema[position].name!r} of type "
            f"{kind.simpleString()}; name another one, or cast it"
        )
        raise DeclarationTypeError(msg)
    if isinstance(kind, _NOT_COMPARED):
        msg = (
            f"{fold.what} takes a column whose values can be compared, got "
            f"{schema[position].name!r} of type {kind.simpleString()}; select a part of it"
        )
        raise DeclarationTypeError(msg)


class WindowFolds:
    """The folds of a `WindowedDataFrame`; each is a `reduce` and takes its options.

    Name a field by its name or by its position, from 0.
    """

    _schema: st.StructType

    def reduce(self, reduce_function: Any, **options: Any) -> DataFrame:
        """Reduce the records of a window: `WindowedDataFrame.reduce`."""
        raise NotImplementedError

    def sum(self, position_to_sum: int | str = 0, **options: Unpack[KeyedOptions]) -> DataFrame:
        """Add up a field; the other columns come from the window's first record.

        Args:
            position_to_sum: Name or position of the field, which holds numbers.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Sum(position_to_sum), options)

    def min(self, position_to_min: int | str = 0, **options: Unpack[KeyedOptions]) -> DataFrame:
        """Keep the least value of a field; the other columns come from the window's first record.

        Args:
            position_to_min: Name or position of the field.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Min(position_to_min), options)

    def max(self, position_to_max: int | str = 0, **options: Unpack[KeyedOptions]) -> DataFrame:
        """Keep the greatest value of a field; the other columns come from the window's first record.

        Args:
            position_to_max: Name or position of the field.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(Max(position_to_max), options)

    def min_by(
        self, position_to_min_by: int | str = 0, **options: Unpack[KeyedOptions]
    ) -> DataFrame:
        """Keep a window's record with the least value of a field, the earliest one if several are equal.

        Args:
            position_to_min_by: Name or position of the field.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(MinBy(position_to_min_by), options)

    def max_by(
        self, position_to_max_by: int | str = 0, **options: Unpack[KeyedOptions]
    ) -> DataFrame:
        """Keep a window's record with the greatest value of a field, the earliest one if several are equal.

        Args:
            position_to_max_by: Name or position of the field.
            **options: The options of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._by_field(MaxBy(position_to_max_by), options)

    def _by_field(self, fold: FieldFold, options: KeyedOptions) -> DataFrame:
        check_field(self._schema, fold)
        return self.reduce(fold, **options)
