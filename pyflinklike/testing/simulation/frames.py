# SPDX-License-Identifier: Apache-2.0
"""DataFrames without a JVM, over which the real builders make the plans of a simulated query.

    query = SimulatedQuery(partitions=2)
    clicks = query.source(schema)
    counts = key_by(clicks, "user").process(Count(), output, event_time="at")
    query.operators    # what Spark would have been told

Such a frame says of itself what a plan needs: schema, session, watermark, and the way to its
sources as Spark explains it.  It has no columns to select and no rows: DataFrame code between two
operators is not simulated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark.api.broadcast_streams import WithBroadcast
from pyflinklike.spark.api.inputs import Input, OneInput, TwoInputs
from pyflinklike.spark.api.query import apply_plan
from pyflinklike.spark.plan.operator_chain import keep_phases
from pyflinklike.spark.plan.operator_plan import Plan
from pyflinklike.spark.plan.process_options import SavepointLike
from pyflinklike.spark.wire.own_columns import BEFORE_WATERMARK, KEY_GROUP
from pyflinklike.spark.wire.schema import arrow_schema
from pyflinklike.testing.simulation.program import OperatorInput, SimulatedOperator, Source

__all__ = ["SimulatedFrame", "SimulatedQuery"]


class _Settings:
    """The settings of a session.

    Args:
        values: By name.
    """

    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return a setting, or the default."""
        return self._values.get(name, default)


class _Session:
    """A session of Spark, as far as plans ask for one.

    Args:
        settings: By name.
    """

    def __init__(self, settings: dict[str, str]) -> None:
        self.conf = _Settings(settings)


class SimulatedQuery:
    """A query that is being written: its sources, then operators over them.

    Args:
        partitions: Of Spark's shuffles.
    """

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        settings = {
            "spark.sql.shuffle.partitions": str(partitions),
            "spark.sql.session.timeZone": "UTC",
        }
        self.session = _Session(settings)
        self._sources: list[Source] = []
        self._operators: list[SimulatedOperator] = []

    @property
    def sources(self) -> tuple[Source, ...]:
        """Its streams, with the watermarks that operators were found to need."""
        return tuple(self._sources)

    @property
    def operators(self) -> tuple[SimulatedOperator, ...]:
        """The operators of the query, in the order in which they were applied."""
        return tuple(self._operators)

    def source(self, schema: st.StructType) -> SimulatedFrame:
        """Return a stream of records.

        Args:
            schema: Their columns.
        """
        self._sources.append(Source(schema))
        return SimulatedFrame(self, schema, len(self._sources) - 1, is_source=True)

    def set_watermark(self, number: int, column: str, delay: int) -> None:
        """Give a source a watermark.

        Args:
            number: The number of the source, from 0.
            column: Its column of event times.
            delay: In ms.
        """
        self._sources[number] = attrs.evolve(self._sources[number], event_time=column, delay=delay)

    def apply(self, inputs: Sequence[OneInput], plan: Plan, savepoint: bytes | None) -> DataFrame:
        """Put an operator behind what it reads, and return its result."""
        frames: list[Any] = [each.df for each in inputs]
        for frame in frames:
            if frame.has_phases:
                former = self._operators[frame.number]
                self._operators[frame.number] = attrs.evolve(former, is_read_on=True)
        reads = tuple(
            OperatorInput(
                frame.number, frame.is_source, arrow_schema(frame.schema), tuple(each.columns)
            )
            for frame, each in zip(frames, inputs)
        )
        self._operators.append(SimulatedOperator(plan, reads, savepoint=savepoint))
        number = len(self._operators) - 1
        result = SimulatedFrame(self, plan.layout.result_type(), number, frames, plan)
        if plan.tells_phases():
            layout = attrs.evolve(plan.layout, before_watermark=BEFORE_WATERMARK)
            phases = SimulatedFrame(self, layout.result_type(), number, frames, plan)
            phases.has_phases = True
            keep_phases(result, phases)
        return result


class SimulatedFrame(DataFrame):
    """A stream, or the result of an operator.

    Args:
        query: The query that it is part of.
        schema: The columns of the DataFrame with their types.
        number: Of the source, or of the operator.
        before: What the operator reads.
        plan: Of the operator.
        is_source: Whether it is a source.
    """

    def __new__(cls, *_: Any, **__: Any) -> SimulatedFrame:
        """Make a frame without Spark's part of it."""
        return object.__new__(cls)

    def __init__(
        self,
        query: SimulatedQuery,
        schema: st.StructType,
        number: int,
        before: Sequence[SimulatedFrame] = (),
        plan: Plan | None = None,
        *,
        is_source: bool = False,
    ) -> None:
        self.query, self.number, self.is_source = query, number, is_source
        self.has_phases = False
        self._columns, self._before, self._plan = schema, tuple(before), plan
        self._has_watermark = False

    @property
    def schema(self) -> st.StructType:
        """The columns of the DataFrame with their types."""
        return self._columns

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self._columns.names)

    @property
    def isStreaming(self) -> bool:  # noqa: N802
        """True: the simulator runs streams."""
        return True

    @property
    def sparkSession(self) -> Any:  # noqa: N802
        """The session."""
        return self.query.session

    def withWatermark(self, eventTime: str, delayThreshold: str) -> SimulatedFrame:  # noqa: N802, N803
        """Declare the watermark of a source.

        Args:
            eventTime: The column of event times.
            delayThreshold: A number of milliseconds or seconds, as "5 seconds".
        """
        found = re.fullmatch(r"(\d+) (milli)?seconds?", delayThreshold)
        if found is None or not self.is_source:
            msg = (
                "a simulated source takes a watermark of some milliseconds or seconds, got "
                f"{delayThreshold!r} on {'a source' if self.is_source else 'a result'}"
            )
            raise DeclarationTypeError(msg)
        self.query.set_watermark(self.number, eventTime, int(found[1]) * (1 if found[2] else 1000))
        marked = SimulatedFrame(self.query, self._columns, self.number, is_source=True)
        marked._has_watermark = True
        return marked

    def explain(self, *_: Any, **__: Any) -> None:
        """Print the way to its sources as Spark does."""
        lines = "\n".join(self._lines(""))
        print(f"== Analyzed Logical Plan ==\n{lines}\n== Physical Plan ==")  # noqa: T201

    def _lines(self, indent: str) -> list[str]:
        if self._plan is None:
            name = "EventTimeWatermark" if self._has_watermark else "StreamingRelation"
            return [f"{indent}{name} {self.columns}"]
        mode = {"None": "NoTime"}.get(self._plan.time_mode.value, self._plan.time_mode.value)
        lines = [f"{indent}TransformWithState [{KEY_GROUP}], {mode}, Append"]
        deeper = indent.replace("+- ", "   ") + "+- "
        for each in self._before:
            lines += each._lines(deeper)
        return lines


@apply_plan.register
def _(df: SimulatedFrame, source: Input, plan: Plan, savepoint: SavepointLike | None) -> DataFrame:
    if savepoint is not None and not isinstance(savepoint, bytes):
        msg = f"a simulated query begins with the bytes of a savepoint, got {savepoint!r}"
        raise DeclarationTypeError(msg)
    if isinstance(source, OneInput):
        inputs: list[OneInput] = [source]
    elif isinstance(source, TwoInputs):
        inputs = [source.first, source.second]
    else:
        assert isinstance(source, WithBroadcast)
        inputs = [source.main, source.rules]
    return df.query.apply(inputs, plan, savepoint)
