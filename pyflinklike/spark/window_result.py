# SPDX-License-Identifier: Apache-2.0
"""What windows over a DataFrame give, as columns, and how that becomes a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.errors import DeclarationValueError
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark.inputs import OneInput, TwoInputs
from pyflinklike.spark.operators import applied
from pyflinklike.spark.setup.timer_use import uses_processing_timers
from pyflinklike.spark.wire.columns import OutputEncoder
from pyflinklike.spark.wire.schema import arrow_schema, output_schema
from pyflinklike.spark.wire.window_rows import WINDOW_TIME, WindowRows, window_fields
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.operator import WindowOperator

if TYPE_CHECKING:
    from pyflinklike.spark.setup.options import KeyedOptions

__all__ = ["WindowResult"]


@attrs.frozen
class WindowResult:
    """What windows give.

    Args:
        operator: Gives rows of the schema.
        schema: The key columns, those of the window, and those of the result.
        name: Of the operator.
    """

    operator: WindowOperator
    schema: st.StructType
    name: str

    @classmethod
    def of(
        cls,
        source: OneInput | TwoInputs,
        operator: WindowOperator,
        output_type: Any,
        name: str | None = None,
        *,
        is_record: bool = False,
    ) -> WindowResult:
        """The result of windows over keyed records.

        Args:
            source: The records.
            operator: The windows, as the user declared them.
            output_type: Of what they give.
            name: Of the operator; by default that of the assigner's class, so that no windows go
                on with those of another kind.
            is_record: Whether that is a record, of which the result has the key already.

        Raises:
            DeclarationTypeError, DeclarationValueError: The type cannot become columns, two
                columns have one name, or there is no event time where windows need one.
        """
        assigner = operator.declared.assigner
        _check_event_time(assigner, source)
        name = name or type(assigner).__name__
        result = output_schema(source.df, output_type)
        windows = assigner.get_window_serializer()
        first = [*source.key_fields(), *window_fields(windows)]
        names = [field.name for field in first]
        taken = [at for at, each in enumerate(result.names) if not (is_record and each in names)]
        double = sorted({result.names[at] for at in taken} & set(names))
        if double:
            msg = (
                f"the result of windows has the columns {names} of itself, got {double} in "
                "output_type, too; leave them out, or rename them"
            )
            raise DeclarationValueError(msg)
        zone = source.reader.time_zone
        encoder = OutputEncoder(arrow_schema(result), zone, f"{name} output", _same)
        rows = WindowRows(
            len(source.columns), windows, encoder, tuple(taken) if is_record else None
        )
        schema = st.StructType([*first, *(result.fields[at] for at in taken)])
        return cls(operator.collecting(rows), schema, name)

    def over(
        self,
        source: OneInput | TwoInputs,
        side_outputs: Iterable[OutputTag] | Mapping[OutputTag, Any],
        late_schema: st.StructType,
        options: KeyedOptions,
    ) -> DataFrame:
        """The windows over keyed records.

        Args:
            source: The records.
            side_outputs: The tags whose outputs are wanted.
            late_schema: Of the records, for those that are late.
            options: The others of `KeyedStream.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        uses_clock = self.operator.uses_processing_timers(uses_processing_timers)
        passes = HAS_TRANSFORM_WITH_STATE or not source.df.isStreaming
        has_time = self.operator.declared.assigner.is_event_time() and passes and not uses_clock
        named: Any = {**options, "uid": options.get("uid") or self.name}
        return applied(
            self.operator,
            source,
            self.schema,
            side_outputs=self._with_late(side_outputs, late_schema),
            processing_time_timers=uses_clock,
            output_event_time=WINDOW_TIME if has_time else None,
            **named,
        )

    def _with_late(
        self,
        declared: Iterable[OutputTag] | Mapping[OutputTag, Any],
        late_schema: st.StructType,
    ) -> dict[OutputTag, Any]:
        tags = dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared)
        late = self.operator.declared.late_data_tag
        if late is not None:
            tags[late] = late_schema
        return tags


def _same(key: Any) -> Any:
    return key


def _check_event_time(assigner: WindowAssigner[Any, Any], source: OneInput | TwoInputs) -> None:
    """See that records have times where windows need them.

    Raises:
        DeclarationValueError: They have none.
    """
    if assigner.is_event_time() and source.event_time is None:
        msg = (
            f"{assigner!r} needs the time of the records, got no event_time; name the column "
            'with event_time="..."'
        )
        raise DeclarationValueError(msg)
