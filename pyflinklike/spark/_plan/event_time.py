# SPDX-License-Identifier: Apache-2.0
"""The column of event time, of the records and of the result; and the end of a stream.

Spark distinguishes two things.  A node of the plan, `withWatermark`, makes the *watermark* of a
query.  Only one such node may stand on the way to a stateful operator: Spark refuses a second one,
or never moves its watermark.  A *mark* in the metadata of a column says to Spark's own operators
(windows, deduplication, joins) that the column holds the event time.  Every Python stage loses the
mark, ours as well as the user's.  So we search the plan for a watermark, and mark the event-time
column of the result again.

We also search the plan for operators of ours with event time: an operator behind one must know which
records came before the watermark (`_api.results`).

Spark's streams have no end, and only records move the watermark.  So `with_ending_watermark` unites
a stream with a second source, a folder of files.  `end_input` writes a single row there, with a time
after all others.  The row passes the watermark's node and is dropped behind it.  Then the watermark
goes to the maximum, so every window closes and every timer fires.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import threading
from collections.abc import Mapping
from typing import Any, TextIO

import attrs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._deprecation import warn_once
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._plan.process_options import check_column
from pyflinklike.spark._wire.system_columns import END_OF_INPUT, KEY_GROUP, quote

WATERMARK_MARK = "spark.watermarkDelayMs"
"""The metadata that marks the column of event time; its value is the watermark's delay in ms."""
_NODE = re.compile(r"^((?:[ :]*[:+]- )?)[^\w\n]*(\w+)(?= |$)(.*)", re.MULTILINE)
_LINE = re.compile(r"^((?:[ :]*[:+]- )?)[^\w\n]*(\w.*)$")
_ALIAS = "SubqueryAlias "
_WATERMARK = "EventTimeWatermark"
_WATERMARK_COLUMN = re.compile(r"^ (?:[0-9a-f-]{36}, )?(.*?)#\d+")
_NO_WAY = (
    "event time cannot follow an operator through which Spark passes no watermark (one that uses "
    "processing-time timers, or any on PySpark 3.5), got such an operator with a watermark before "
    "it; put it last, or make two queries"
)
_NO_PHASE = (
    "an operator with event time behind another one must know which records came before the "
    "watermark, got a DataFrame that does not say so; pass "
    'output_before_watermark="<new column>" to the other process(), keep the column in between, and '
    'pass before_watermark="<column>" here'
)
_UNITS = {
    "millisecond": 1,
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 604_800_000,
}
_DELAY = re.compile(rf"(\d+)\s*({'|'.join(_UNITS)})s?\b", re.IGNORECASE)
_MONOTONOUS = "1 millisecond"
"""The delay of Flink's for_monotonous_timestamps, so a record at the latest time seen is not late."""
_STOPS = "FlatMapGroupsInPandasWithState"
"""The name of `applyInPandasWithState` in Spark's plans."""
_explaining = threading.Lock()


def with_event_time(
    df: DataFrame,
    event_time: str,
    before_watermark: str | None = None,
    watermark_delay: str | None = None,
) -> DataFrame:
    """Declare a watermark on a stream without one; return a batch unchanged.

    Args:
        df: The stream or batch that an operator reads.
        event_time: Name of its event-time column.
        before_watermark: Name of the column that is true for records before the watermark, or None.
        watermark_delay: How late records may be, as `withWatermark` takes it; None for monotonous
            times.

    Raises:
        DeclarationTypeError, DeclarationValueError: There is no such column, it does not hold
            instants, the watermark is declared on another column, or the column that says which
            records came before the watermark is missing.
    """
    check_event_time(df, event_time)
    if not df.isStreaming:
        return df
    way = _way_of(df)
    if way.advances and before_watermark is None:
        raise DeclarationValueError(_NO_PHASE)
    if not way.has_watermark:
        return df.withWatermark(event_time, watermark_delay or _MONOTONOUS)
    _check_watermarks(df, event_time, way)
    if watermark_delay is not None:
        msg = (
            "watermark_delay declares a watermark, got it for a stream that has one already; "
            "declare it once, before the first operator"
        )
        raise DeclarationValueError(msg)
    return df


def _check_watermarks(df: DataFrame, event_time: str, way: _Way) -> None:
    """Check that the watermark of a stream is declared on its event time, if the plan shows this.

    Raises:
        DeclarationValueError: It is declared on another column.
    """
    marked = [each.name for each in df.schema.fields if WATERMARK_MARK in (each.metadata or {})]
    if event_time in marked:
        return
    remedy = (
        f'call withWatermark("{event_time}", ...), pass the other column as event_time, or behind '
        f'another process() pass output_event_time="{event_time}" to that one'
    )
    if marked:
        msg = (
            "timers and TTL go by the watermark, so it must be declared on the event time, got "
            f"event_time={event_time!r} and a watermark on {marked[0]!r}; {remedy}"
        )
        raise DeclarationValueError(msg)
    if way.columns and event_time not in way.columns:
        # Python stages and expressions lose the mark, so the column may hold the right times after
        # all: a warning must do.
        warn_once(
            "timers and TTL go by the watermark, got "
            f"event_time={event_time!r} and a watermark on {way.columns[0]!r}; unless both hold "
            f"the same times, {remedy}"
        )


def delay_of(watermark_delay: str | None) -> int:
    """Return how late records may be, in ms.

    Args:
        watermark_delay: A text such as "10 minutes", as `withWatermark` takes it; None for
            monotonous times.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is not such a text.
    """
    if watermark_delay is None:
        return 1
    if not isinstance(watermark_delay, str):
        msg = f'watermark_delay is a text such as "10 minutes", got {short_repr(watermark_delay)}'
        raise DeclarationTypeError(msg)
    parts = _DELAY.findall(watermark_delay)
    if not parts or _DELAY.sub("", watermark_delay).strip():
        units = ", ".join(_UNITS)
        msg = (
            f'watermark_delay is a text such as "10 minutes", got {short_repr(watermark_delay)}; '
            f"give numbers of {units}"
        )
        raise DeclarationValueError(msg)
    return sum(int(number) * _UNITS[unit.lower()] for number, unit in parts)


def find_delay(df: DataFrame, event_time: str | None) -> int | None:
    """Return the delay in ms of the watermark of a stream; None if the stream does not show it."""
    marks = [field.metadata or {} for field in df.schema.fields if field.name == event_time]
    found = marks[0].get(WATERMARK_MARK) if marks else None
    return None if found is None else int(found)


def check_event_time(df: DataFrame, event_time: str) -> None:
    """Check that a column holds instants.

    Raises:
        DeclarationTypeError, DeclarationValueError: It does not, or there is no such column.
    """
    check_column(df, event_time, "event_time")
    kind = df.schema[event_time].dataType
    if isinstance(kind, st.TimestampNTZType):
        msg = (
            f"event_time must name a column of instants, got {event_time!r} of type timestamp_ntz, "
            "which means another instant in every time zone; cast it to timestamp, so that Spark "
            "reads it in the session's time zone (spark.sql.session.timeZone)"
        )
        raise DeclarationTypeError(msg)
    if not isinstance(kind, st.TimestampType):
        msg = (
            f"event_time must name a timestamp column, got {event_time!r} of type "
            f"{kind.simpleString()}; convert it, for example with F.timestamp_millis()"
        )
        raise DeclarationTypeError(msg)


def has_watermark(df: DataFrame) -> bool:
    """Return whether a watermark is declared anywhere before a stream.

    Raises:
        DeclarationValueError: One is declared behind another, or an operator stops it.
    """
    return _way_of(df).has_watermark


@attrs.define
class _Way:
    """The findings of a search from the sources to a stream.

    Args:
        has_watermark: Whether a watermark is declared.
        advances: Whether an operator of ours emits while the watermark moves.
        columns: The columns of the watermarks, by their names at that point of the plan.
    """

    has_watermark: bool = False
    advances: bool = False
    columns: list[str] = attrs.field(factory=list)


def _way_of(df: DataFrame) -> _Way:
    """Search the plan of a stream from its sources on.

    Raises:
        DeclarationValueError: A watermark is declared behind another, or an operator stops it.
    """
    plan = _explain(df).partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    way: list[tuple[int, str]] = []
    found = _Way()
    # `way` holds the nodes above the present one, by their indentation in the printed tree.
    for indent, name, rest in _NODE.findall(plan):
        while way and way[-1][0] >= len(indent):
            way.pop()
        if name.startswith("TransformWithState"):
            found.advances |= ", EventTime, " in rest and KEY_GROUP in rest
            name = _NO_WAY if ", ProcessingTime, " in rest else name
        elif name == _STOPS:
            name = _NO_WAY
        if name == _WATERMARK:
            found.has_watermark = True
            found.columns += _WATERMARK_COLUMN.findall(rest)
            if _NO_WAY in [each for _, each in way]:
                raise DeclarationValueError(_NO_WAY)
            if _WATERMARK in [each for _, each in way]:
                msg = (
                    "Spark takes one watermark on the way to a stateful operator, got a "
                    "withWatermark behind another one; leave out the later one, because the "
                    "watermark passes through process() and every other operator"
                )
                raise DeclarationValueError(msg)
        way.append((len(indent), name))
    return found


@attrs.frozen
class Leaf:
    """A source of a DataFrame, as its plan shows it.

    Args:
        text: The line of the plan.
        names: The aliases between it and the DataFrame.
    """

    text: str
    names: tuple[str, ...]

    @property
    def is_streaming(self) -> bool:
        """Whether it is the source of a stream."""
        return self.text.startswith("Streaming")


def leaves_of(df: DataFrame) -> list[Leaf]:
    """Return the sources of a DataFrame."""
    plan = _explain(df).partition("== Analyzed Logical Plan ==")[2].partition("\n== ")[0]
    # The first line has the columns; a node with a long text may take several lines.
    _, _, tree = plan.strip("\n").partition("\n")
    nodes = [
        (len(found[1]), found[2])
        for at, line in enumerate(tree.split("\n"))
        if (found := _LINE.match(line)) and (found[1] or at == 0)
    ]
    way: list[tuple[int, str]] = []
    leaves = []
    for at, (indent, text) in enumerate(nodes):
        while way and way[-1][0] >= indent:
            way.pop()
        way.append((indent, text))
        if at + 1 == len(nodes) or nodes[at + 1][0] <= indent:
            aliases = [
                each.partition(" ")[2].split(" ")[0] for _, each in way if each.startswith(_ALIAS)
            ]
            leaves.append(Leaf(text, tuple(aliases)))
    return leaves


def _explain(df: DataFrame) -> str:
    # Spark prints the plan, and offers no other way to get it.  Standard output belongs to the whole
    # process, so only one thread at a time takes it over, and it collects only its own prints.
    with _explaining:
        own = _OwnPrints(sys.stdout)
        with contextlib.redirect_stdout(own):
            df.explain(mode="extended")
    return own.text()


class _OwnPrints(io.TextIOBase):
    """A standard output that collects the prints of one thread and passes on all others.

    Args:
        stdout: The real standard output.
    """

    def __init__(self, stdout: TextIO) -> None:
        self._stdout = stdout
        self._thread = threading.get_ident()
        self._kept: list[str] = []

    def write(self, text: str) -> int:
        """Collect a text or pass it on."""
        if threading.get_ident() == self._thread:
            self._kept.append(text)
            return len(text)
        return self._stdout.write(text)

    def flush(self) -> None:
        """Flush the real standard output."""
        self._stdout.flush()

    def text(self) -> str:
        """Return the collected text."""
        return "".join(self._kept)


class EventTimeMark:
    """The mark of the event-time column of an output.

    Args:
        column: Name of the column; an output without it stays unmarked.
        delay: The delay of the watermark in ms.  Spark only shows it in its plans.
    """

    def __init__(self, column: str | None, delay: int = 0) -> None:
        self._column = column
        self._delay = delay

    def on(self, schema: st.StructType) -> st.StructType:
        """Mark a schema, and remove other marks: Spark accepts one event time per stream."""
        if self._column is None:
            return schema
        return st.StructType([self._mark(field) for field in schema.fields])

    def _mark(self, field: st.StructField) -> st.StructField:
        metadata = {
            name: each for name, each in (field.metadata or {}).items() if name != WATERMARK_MARK
        }
        if field.name == self._column and isinstance(field.dataType, st.TimestampType):
            metadata[WATERMARK_MARK] = self._delay
        return st.StructField(field.name, field.dataType, field.nullable, metadata)


def event_time_mark(
    df: DataFrame,
    event_time: str | None,
    output_event_time: str | None,
    outputs: Mapping[str, st.StructType],
    *,
    passes: bool,
) -> EventTimeMark:
    """Return the mark for the outputs of an operator.

    Args:
        df: The input of the operator, with its watermark.
        event_time: Name of the event-time column of the records, or None.
        output_event_time: The column of the outputs that the user named; None takes the name of
            `event_time`, if an output has a timestamp of that name.
        outputs: The schema of each output, by the name of the output in messages.
        passes: Whether the watermark passes through the operator.

    Raises:
        DeclarationTypeError, DeclarationValueError: No output has the column that the user
            named, it does not hold instants, or the stream has no watermark.
    """
    if output_event_time is not None:
        _check_output_column(output_event_time, outputs)
        if event_time is None and df.isStreaming and not has_watermark(df):
            msg = (
                f"output_event_time needs a watermark, got {output_event_time!r} for a stream "
                'without one; pass event_time="<column>", or call withWatermark before key_by'
            )
            raise DeclarationValueError(msg)
        if df.isStreaming and not passes:
            raise DeclarationValueError(_NO_WAY)
    if not df.isStreaming or not passes:
        return EventTimeMark(None)
    known = [field.metadata or {} for field in df.schema.fields if field.name == event_time]
    delay = known[0].get(WATERMARK_MARK, 0) if known else 0
    return EventTimeMark(output_event_time or event_time, delay)


def _check_output_column(column: Any, outputs: Mapping[str, st.StructType]) -> None:
    if not isinstance(column, str):
        msg = f"output_event_time takes the name of a column of an output, got {column!r}"
        raise DeclarationTypeError(msg)
    kinds = {
        what: field.dataType
        for what, schema in outputs.items()
        for field in schema.fields
        if field.name == column
    }
    if not kinds:
        names = {what: schema.names for what, schema in outputs.items()}
        msg = f"output_event_time takes a column of an output, got {column!r}; choose from {names}"
        raise DeclarationValueError(msg)
    for what, kind in kinds.items():
        if not isinstance(kind, st.TimestampType):
            msg = (
                f"output_event_time must name a column of type timestamp, got {column!r} of type "
                f"{kind.simpleString()} in {what}; declare it timestamp"
            )
            raise DeclarationTypeError(msg)


# The end of a stream


_END_TYPE = "milliseconds long"


def with_ending_watermark(
    df: DataFrame, event_time: str, delay: str, *, end_marker: str | os.PathLike[str]
) -> DataFrame:
    """Declare a watermark on a stream as `withWatermark` does, so that `end_input` can end it.

    Args:
        df: A stream without a watermark; a batch, which ends by itself, is returned as it is.
        event_time: Name of the timestamp column.
        delay: How late records may be, as `withWatermark` takes it, such as "10 minutes".
        end_marker: The folder for the end of this stream alone, as durable as the checkpoint of its
            query; it is made if it does not exist.

    Raises:
        DeclarationTypeError, DeclarationValueError: There is no such column, it does not hold
            instants, or the stream has a watermark.
    """
    check_event_time(df, event_time)
    if not df.isStreaming:
        return df
    if has_watermark(df):
        msg = (
            "with_ending_watermark declares a watermark, got a stream that has one already; leave "
            "out its withWatermark"
        )
        raise DeclarationValueError(msg)
    # The row must pass the watermark's node before it is dropped.  Spark moves conditions on other
    # columns before that node, so this one is on the event time.
    time = F.col(quote(event_time))
    is_record = time.isNull() | (time < F.timestamp_millis(F.lit(END_OF_INPUT)))
    ending = df.union(_ends(df, event_time, _path(end_marker)))
    return ending.withWatermark(event_time, delay).where(is_record)


def end_input(spark: SparkSession, end_marker: str | os.PathLike[str]) -> None:
    """End a stream that was made by `with_ending_watermark`.

    The end comes with the next micro-batch of its query, and all event timers fire in the one after
    it, under the watermark `MAX_WATERMARK`.  So call it after all records were processed: records
    that come later are late.  A second call has no effect.

    Args:
        spark: Any session that reaches the folder.
        end_marker: The folder that you gave to `with_ending_watermark`.
    """
    row = spark.createDataFrame([(END_OF_INPUT,)], _END_TYPE)
    row.coalesce(1).write.mode("append").parquet(_path(end_marker))


def _ends(df: DataFrame, event_time: str, path: str) -> DataFrame:
    """Read the rows that end a stream, with its columns."""
    spark = df.sparkSession
    spark.createDataFrame([], _END_TYPE).write.mode("ignore").parquet(path)
    ends = spark.readStream.schema(_END_TYPE).parquet(path)
    time = F.timestamp_millis("milliseconds")
    return ends.select(
        [
            (time if field.name == event_time else F.lit(None).cast(field.dataType)).alias(
                field.name
            )
            for field in df.schema.fields
        ]
    )


def _path(end_marker: str | os.PathLike[str]) -> str:
    if not isinstance(end_marker, (str, os.PathLike)) or not os.fspath(end_marker):
        msg = f"end_marker must be the path of a folder, got {short_repr(end_marker)}"
        raise DeclarationTypeError(msg)
    return os.fspath(end_marker)
