# SPDX-License-Identifier: Apache-2.0
"""DataFrames without a JVM, over which the real builders make the plans of a simulated query.

    query = SimulatedQuery(partitions=2)
    clicks = query.source(schema)
    counts = key_by(clicks, "user").process(Count(), output, event_time="at")
    query.operators    # what Spark would have been told

Such a frame says of itself what a plan needs: schema, session, watermark, and the way to its
sources as Spark explains it.  It has no columns to select and no rows: DataFrame code between two
operators is not simulated.  Without a JVM nobody parses DDL, so that is done here (`parse_ddl`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._api.inputs import Input, OneInput
from pyflinklike.spark._api.query import apply_plan
from pyflinklike.spark._api.results import keep_phases
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._plan.process_options import SavepointLike
from pyflinklike.spark._wire.schema import arrow_schema
from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, KEY_GROUP
from simulated.program import OperatorInput, SimulatedOperator, Source

__all__ = ["SimulatedFrame", "SimulatedQuery", "parse_ddl"]


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

    def createDataFrame(self, _: Sequence[Any], schema: str) -> _Typed:
        """Return what has the schema of DDL: more is not asked of a session."""
        return _Typed(parse_ddl(schema))


@attrs.frozen
class _Typed:
    schema: st.StructType


class SimulatedQuery:
    """A query that is being written: its sources, then operators over them.

    Args:
        partitions: Of Spark's shuffles.
        has_parts: As of its operators.
        has_stamps: As of its operators.
    """

    def __init__(
        self, partitions: int, *, has_parts: bool = False, has_stamps: bool = True
    ) -> None:
        self.partitions = partitions
        self._has_parts, self._has_stamps = has_parts, has_stamps
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
        self._operators.append(
            SimulatedOperator(
                plan,
                reads,
                savepoint=savepoint,
                has_parts=self._has_parts,
                has_stamps=self._has_stamps,
            )
        )
        number = len(self._operators) - 1
        result = SimulatedFrame(self, plan.layout.result_type(), number, frames, plan)
        if plan.reports_phases():
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

    def __repr__(self) -> str:
        return f"SimulatedFrame({', '.join(self.columns)})"

    @property
    def schema(self) -> st.StructType:
        """The columns of the DataFrame with their types."""
        return self._columns

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return list(self._columns.names)

    @property
    def isStreaming(self) -> bool:
        """True: the simulator runs streams."""
        return True

    @property
    def sparkSession(self) -> Any:
        """The session."""
        return self.query.session

    def withWatermark(self, eventTime: str, delayThreshold: str) -> SimulatedFrame:
        """Declare the watermark of a source.

        Args:
            eventTime: The column of event times.
            delayThreshold: A number and a unit from millisecond to day, as "5 seconds".
        """
        found = re.fullmatch(r"(\d+) (millisecond|second|minute|hour|day)s?", delayThreshold)
        if found is None or not self.is_source:
            msg = (
                "a simulated source takes a watermark such as '10 seconds', got "
                f"{delayThreshold!r} on {'a source' if self.is_source else 'a result'}"
            )
            raise DeclarationTypeError(msg)
        self.query.set_watermark(self.number, eventTime, int(found[1]) * _UNITS[found[2]])
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


_UNITS = {"millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}


@apply_plan.register
def _(
    df: SimulatedFrame,
    source: Input,
    plan: Plan,
    savepoint: SavepointLike | None,
    savepoint_to: Any = None,
) -> DataFrame:
    if savepoint_to is not None:
        msg = f"a simulated query is a stream, got savepoint_to={savepoint_to!r}; leave it out"
        raise DeclarationTypeError(msg)
    if savepoint is not None and not isinstance(savepoint, bytes):
        msg = f"a simulated query begins with the bytes of a savepoint, got {savepoint!r}"
        raise DeclarationTypeError(msg)
    return df.query.apply(list(source.inputs()), plan, savepoint)


# DDL

_SIMPLE: Final[dict[str, st.DataType]] = {
    "boolean": st.BooleanType(),
    "byte": st.ByteType(),
    "tinyint": st.ByteType(),
    "short": st.ShortType(),
    "smallint": st.ShortType(),
    "int": st.IntegerType(),
    "integer": st.IntegerType(),
    "long": st.LongType(),
    "bigint": st.LongType(),
    "float": st.FloatType(),
    "real": st.FloatType(),
    "double": st.DoubleType(),
    "string": st.StringType(),
    "binary": st.BinaryType(),
    "date": st.DateType(),
    "timestamp": st.TimestampType(),
    "timestamp_ltz": st.TimestampType(),
    "timestamp_ntz": st.TimestampNTZType(),
    "void": st.NullType(),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|\w+|[<>():,])")


def parse_ddl(ddl: str) -> st.StructType:
    """Return the columns that DDL declares; a single type is that of a column `value`.

    Args:
        ddl: As Spark takes it, without comments and defaults.

    Raises:
        DeclarationValueError: It does not parse.
    """
    return _Ddl(ddl).parse()


class _Ddl:
    def __init__(self, ddl: str) -> None:
        self._ddl = ddl
        self._tokens: list[str] = []
        at, end = 0, len(ddl.rstrip())
        while at < end:
            found = _TOKEN.match(ddl, at)
            if found is None:
                raise self._refusal(ddl[at:].strip())
            self._tokens.append(found[1])
            at = found.end()

    def parse(self) -> st.StructType:
        if len(self._tokens) == 1 or self._tokens[1:2] in (["<"], ["("]):
            schema = st.StructType([st.StructField("value", self._type())])
        else:
            schema = self._fields("")
        if self._tokens:
            raise self._refusal(self._tokens[0])
        return schema

    def _fields(self, end: str) -> st.StructType:
        fields = []
        while True:
            name = self._next()
            self._skip(":")
            fields.append(st.StructField(name.strip("`").replace("``", "`"), self._type()))
            if [each.lower() for each in self._tokens[:2]] == ["not", "null"]:
                del self._tokens[:2]
            if not self._skip(","):
                break
        if end:
            self._expect(end)
        return st.StructType(fields)

    def _type(self) -> st.DataType:
        word = self._next()
        name = word.lower()
        if name in _SIMPLE:
            return _SIMPLE[name]
        if name in ("decimal", "dec", "numeric"):
            return st.DecimalType(*(self._numbers() or [10, 0]))
        if name in ("varchar", "char"):
            self._numbers()
            return st.StringType()
        if name not in ("array", "map", "struct"):
            raise self._refusal(word)
        self._expect("<")
        if name == "struct":
            return self._fields(">")
        kind: st.DataType = self._type()
        if name == "map":
            self._expect(",")
            kind = st.MapType(kind, self._type())
        else:
            kind = st.ArrayType(kind)
        self._expect(">")
        return kind

    def _numbers(self) -> list[int]:
        found: list[int] = []
        if self._skip("("):
            found.append(int(self._next()))
            while self._skip(","):
                found.append(int(self._next()))
            self._expect(")")
        return found if len(found) != 1 else [*found, 0]

    def _next(self) -> str:
        if not self._tokens:
            raise self._refusal("the end")
        return self._tokens.pop(0)

    def _skip(self, token: str) -> bool:
        is_there = self._tokens[:1] == [token]
        del self._tokens[: int(is_there)]
        return is_there

    def _expect(self, token: str) -> None:
        if not self._skip(token):
            raise self._refusal((self._tokens or ["the end"])[0])

    def _refusal(self, at: str) -> DeclarationValueError:
        return DeclarationValueError(
            f'a type must be DDL such as "user string, total long", got {short_repr(self._ddl)}: '
            f"it does not parse at {at!r}; a simulated query takes a StructType, too"
        )
