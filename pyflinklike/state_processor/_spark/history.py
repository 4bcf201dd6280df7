# SPDX-License-Identifier: Apache-2.0
"""History first: a batch reads a source up to now, and a stream goes on from the batch's end.

    history = history_of(spark, format="kafka", options={"subscribe": "clicks", ...})
    result = key_by(history.batch(), "user").process(..., savepoint_to=path)
    later = key_by(history.stream(path), "user").process(..., from_savepoint=path)

The end of a source is pinned before the batch reads, and is in the savepoint.  A DataFrame does not
name its sources, but an alias stays in its plan through all later operations.  So a batch, a result
and a stream have aliases, and the plan of an operator's input shows which sources are before it.  A
source without an alias is refused.

The driver notes which batch writes to which directory when an operator is applied.  The executors
write when Spark runs the batch (`_savepoints.history_parts`).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Protocol

import attrs
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._messages import short_repr
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._api.inputs import Input
from pyflinklike.spark._host.batch_host import run_batch
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._plan.event_time import Leaf, leaves_of
from pyflinklike.spark._plan.operator_plan import Initial, Plan
from pyflinklike.spark._plan.process_options import SavepointLike
from pyflinklike.spark._wire.record_readers import BroadcastReader
from pyflinklike.spark._wire.system_columns import KEY_GROUP, LAST_WATERMARK, with_batch_time
from pyflinklike.state_processor._checkpoints.checkpoint import savepoint_location_in
from pyflinklike.state_processor._savepoints.history_parts import (
    HistoryPlan,
    begin_history,
    read_manifest,
)
from pyflinklike.state_processor._savepoints.manifest import (
    Manifest,
    Position,
    SavedHistory,
    SavedSource,
)
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)
from pyflinklike.state_processor._spark.initial_state import begin_query

# Sources


class SourceKind(Protocol):
    """How the end of a source is pinned, and how a stream goes on from there."""

    def pin(self, options: Mapping[str, str]) -> tuple[str, dict[str, str], Position]:
        """Ask for the present end of the source.

        Returns:
            The name of the source's data, the options of a batch up to that end, and the end.
        """

    def go_on(self, options: Mapping[str, str], position: Position) -> dict[str, str]:
        """Return the options of a stream that begins at a position."""


_KINDS: dict[str, Callable[[], SourceKind]] = {}
_FILES = ("avro", "csv", "json", "orc", "parquet", "text", "xml")
_BATCH, _RUN, _STREAM = "pyflinklike_history_", "pyflinklike_run_", "pyflinklike_after_"
_SOURCES: dict[str, SavedSource] = {}
"""The sources of this program, by alias."""


def add_kind(name: str, kind: Callable[[], SourceKind]) -> None:
    """Make a kind of source known to `history_of`; connectors call this.

    Args:
        name: The argument `format` of `history_of`.
        kind: Makes the kind of source; it is called when a program first uses the format.
    """
    _KINDS[name] = kind


@attrs.frozen(eq=False)
class History:
    """A source whose present records a batch reads, and whose later records a stream reads.

    `history_of` makes it.

    Args:
        spark: The session that reads the source.
        format: The format, as `spark.read.format` takes it.
        schema: The columns of files; None for a source that has its own.
        options: The options that the user gave.
        path: The path of files; None for another source.
        source: The source, with its end when this was made.
        pinned: The options of the batch, which ends there.
    """

    spark: SparkSession
    format: str
    schema: st.StructType | None
    options: Mapping[str, str]
    path: str | None
    source: SavedSource
    pinned: Mapping[str, str]

    def batch(self) -> DataFrame:
        """Return a batch of the records that the source had when `history_of` was called."""
        reader = self.spark.read.format(self.format).options(**self.pinned)
        if self.path is None:
            return _name(reader.load(), self.source)
        assert self.schema is not None
        assert self.source.position is not None
        # If Spark skipped a file, its records would be lost: the stream does not read it, either.
        strict = reader.options(ignoreMissingFiles="false", ignoreCorruptFiles="false")
        files = strict.schema(self.schema).load(self.path)
        if gone := set(self.source.position["found"]).difference(files.inputFiles()):
            msg = (
                f"a batch must read all files that history_of found, got {len(gone)} removed files, "
                f"such as {min(gone)!r}; restore them, or call history_of again"
            )
            raise DeclarationValueError(msg)
        return _name(files.where(_is_of(self.source.position)), self.source)

    def stream(self, savepoint: str | os.PathLike[str]) -> DataFrame:
        """Return a stream of the records that came after the batch that wrote a savepoint.

        The position comes from the savepoint, not from this call of `history_of`, so a program can
        be started again.

        Args:
            savepoint: The directory of `process(..., savepoint_to=...)`.

        Raises:
            CorruptStateError: The savepoint is damaged, or the batch was not read to its end.
            DeclarationValueError: The savepoint is not of a batch of this source.
        """
        location = savepoint_location_in(self.spark, savepoint)
        history, where = read_manifest(location).history, location.where
        sources = () if history is None else history.sources
        found = next((each for each in sources if each.is_same(self.source)), None)
        if history is None or found is None or found.position is None:
            msg = (
                f"{where}: must be written by a batch of {self.source}, got a savepoint with the sources "
                f"{list(map(str, sources))}"
            )
            raise DeclarationValueError(
                f"{msg}; write it with savepoint_to of history_of(...).batch()"
            )
        _STREAMS.setdefault(history.run, _Going(location, set()))
        return self._after(found.position).alias(f"{_STREAM}{history.run}")

    def _after(self, position: Position) -> DataFrame:
        reader = self.spark.readStream.format(self.format)
        if self.path is None:
            return reader.options(**_kind_of(self.format).go_on(self.options, position)).load()
        assert self.schema is not None
        files = reader.options(**self.options).schema(self.schema).load(self.path)
        return files.where(~_is_of(position))


def _is_of(position: Position) -> Column:
    """Return whether a record comes from one of the files that were found."""
    # Spark gives the path of a local file in two forms: "file:///a" and "file:/a".
    path = F.replace(F.col("_metadata.file_path"), F.lit("file:///"), F.lit("file:/"))
    return path.isin([each.replace("file:///", "file:/") for each in position["found"]])


def history_of(
    spark: SparkSession,
    *,
    format: str,  # noqa: A002 - Spark's name
    schema: st.StructType | str | None = None,
    path: str | None = None,
    options: Mapping[str, str] | None = None,
) -> History:
    """Pin the end of a source, for a batch that reads up to there and a stream that goes on.

    Args:
        spark: The session that reads the source.
        format: "json", "parquet" or another format of files; "kafka", or "pyflinklike_kafka" once
            it is registered.
        schema: The columns of files; by default Spark infers them.
        path: The path of files, as a stream takes it.
        options: The options of the batch and of the stream; each gets the options that it knows.  A
            batch ends at `endingOffsets`; by default at the present end of the topics.

    Raises:
        DeclarationValueError: The position after a batch of this format is not known.
    """
    given = {name: str(value) for name, value in (options or {}).items()}
    if format in _FILES:
        return _history_of_files(spark, format, schema, path, given)
    kind = _kind_of(format)
    if path is not None or schema is not None:
        msg = f"path and schema are for files, got format {format!r}; leave them out"
        raise DeclarationValueError(msg)
    what, pinned, position = kind.pin(given)
    source = SavedSource(None, format, what, is_bounded=True, position=position)
    return History(spark, format, None, given, None, source, pinned)


def _kind_of(name: str) -> SourceKind:
    if name not in _KINDS:
        known = sorted({*_FILES, *_KINDS, "kafka", "pyflinklike_kafka"})
        msg = (
            f"history_of takes one of the formats {known}, got {name!r}; for Kafka import "
            "pyflinklike.kafka; for another source read the batch and the stream yourself, and say "
            "how far the batch reads with history_at(df, position)"
        )
        raise DeclarationValueError(msg)
    return _KINDS[name]()


def _history_of_files(
    spark: SparkSession,
    kind: str,
    schema: st.StructType | str | None,
    path: Any,
    options: dict[str, str],
) -> History:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        msg = f"a source of files needs a path, got {short_repr(path)}; pass path=..."
        raise DeclarationTypeError(msg)
    reader = spark.read.format(kind).options(**options)
    there = (reader if schema is None else reader.schema(schema)).load(os.fspath(path))
    position = {"found": sorted(there.inputFiles())}
    what = os.fspath(path).rstrip("/")
    source = SavedSource(None, kind, what, is_bounded=True, position=position)
    return History(spark, kind, there.schema, options, os.fspath(path), source, options)


def history_at(df: DataFrame, position: str) -> DataFrame:
    """Say how far a batch reads its source, for a source that `history_of` does not know.

    The user makes the stream that goes on, and must begin it exactly there.

    Args:
        df: A batch, not a stream.
        position: A text for the savepoint, such as "version 12 of the table", or "static" for a
            table that the stream does not read.

    Raises:
        DeclarationTypeError, DeclarationValueError: `df` is not a batch, or `position` is empty.
    """
    if not isinstance(df, DataFrame) or not isinstance(position, str):
        msg = f"history_at takes a DataFrame and a text, got {short_repr(df)} and {short_repr(position)}"
        raise DeclarationTypeError(msg)
    if df.isStreaming:
        msg = "history_at takes a batch, got a stream; give it the batch, and begin the stream at its end"
        raise DeclarationValueError(msg)
    if not position:
        msg = (
            'history_at takes the position that the batch reads to, got ""; write "version 12", say'
        )
        raise DeclarationValueError(msg)
    said = SavedSource(None, "DataFrame", position, is_bounded=True, position={"said": position})
    return _name(df, said)


def _name(df: DataFrame, source: SavedSource) -> DataFrame:
    name = f"{_BATCH}{uuid.uuid4().hex}"
    _SOURCES[name] = source
    return df.alias(name)


# The batch


@attrs.frozen(eq=False)
class _Writing:
    """A batch at whose end an operator writes its state.

    Args:
        location: The directory of the savepoint.
        history: The batch and its sources.
        watermark: A row with the watermark after all records; None without event time.
    """

    location: SavepointLocation
    history: SavedHistory
    watermark: DataFrame | None

    def add_last_rows(self, keyed: DataFrame, max_parallelism: int) -> DataFrame:
        """Add a row with the watermark to each key group, so that Spark processes empty groups, too."""
        spark = keyed.sparkSession
        groups = spark.range(max_parallelism).select(F.col("id").cast("int").alias(KEY_GROUP))
        if self.watermark is None:
            last = groups.withColumn(LAST_WATERMARK, F.lit(0).cast("long"))
        else:
            last = groups.crossJoin(F.broadcast(self.watermark))
        records = keyed.withColumn(LAST_WATERMARK, F.lit(None).cast("long"))
        return records.unionByName(last, allowMissingColumns=True)


_RUNS: dict[str, _Writing] = {}
"""The batches of this program, by id."""

Times = Sequence[tuple[DataFrame, Column, int]]
"""For each input with event time its DataFrame, the time in ms, and how late records may be, in ms."""


def save_batch(source: Input, plan: Plan, savepoint_to: str | os.PathLike[str]) -> DataFrame:
    """Apply a plan to a batch, at whose end the operator writes its state.

    Args:
        source: The records of the batch.
        plan: The plan of the operator.
        savepoint_to: The directory, as the user gave it.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path cannot be used, or the position after
            the batch is not known for one of the sources.
    """
    inputs, groups = source.inputs(), plan.task.max_parallelism
    timed = [each for each in inputs if each.event_time is not None]
    times = [(each.df, each.time(), each.delay or 0) for each in timed]
    # The watermark of two inputs is the slower one's, so it is known at the end only.  A broadcast
    # input comes first as a whole, and delays no watermark if it has no times.
    is_alone = len(inputs) == 1 or isinstance(plan.reader, BroadcastReader)
    writing = _begin_batch(savepoint_to, plan.task, [each.df for each in inputs], times)
    run = writing.history.run
    delay = writing.history.delay if is_alone and len(timed) == 1 else None
    plan = attrs.evolve(plan, history=HistoryPlan(writing.location.uri, run, delay))
    arrived = with_batch_time(writing.add_last_rows(source.key_batch(groups), groups))
    # Records have null in this column, and Spark sorts nulls first: the row with the watermark is last.
    order: list[str | Column] = [KEY_GROUP, LAST_WATERMARK, *source.order()]
    grouped = arrived.repartition(KEY_GROUP).sortWithinPartitions(*order)
    records = grouped.drop(*source.name_sorting_columns())
    running = in_worker(run_batch(plan))
    result = records.mapInArrow(running, plan.layout.result_type())
    # By the alias an operator behind this one is known to belong to the same batch.
    return result.alias(f"{_RUN}{run}")


def _begin_batch(
    savepoint_to: str | os.PathLike[str], task: TaskInfo, frames: Sequence[DataFrame], times: Times
) -> _Writing:
    location = savepoint_location_of(savepoint_to)
    leaves = [leaf for frame in frames for leaf in leaves_of(frame)]
    sources = _sources_of(leaves)
    runs = [
        _RUNS[name.removeprefix(_RUN)]
        for leaf in leaves
        for name in leaf.names
        if name.startswith(_RUN) and name.removeprefix(_RUN) in _RUNS
    ]
    # Operators behind another one share the query's watermark, as in a stream.
    before = next((each for each in runs if each.watermark is not None), None)
    watermark = _last_watermark(times) if before is None else before.watermark
    delay = None if before is None else before.history.delay
    if before is None and times:
        delay = times[0][2]
    same = next((each for each in runs if each.location.uri == location.uri), None)
    if same is None:
        history = SavedHistory(uuid.uuid4().hex, sources, delay)
    else:
        more = [each for each in sources if each not in same.history.sources]
        every = (*same.history.sources, *more)
        history = SavedHistory(same.history.run, every, delay)
    begin_history(location, history, task.name, task.max_parallelism)
    writing = _Writing(location, history, watermark)
    _RUNS[history.run] = writing
    return writing


def _sources_of(leaves: Sequence[Leaf]) -> tuple[SavedSource, ...]:
    found: list[SavedSource] = []
    for leaf in leaves:
        known = [_SOURCES[name] for name in leaf.names if name in _SOURCES]
        is_of_run = any(name.removeprefix(_RUN) in _RUNS for name in leaf.names)
        if not known and not is_of_run:  # the sources before another operator are known already
            msg = (
                "a batch with savepoint_to must know how far it reads each source, got "
                f"{leaf.text:.120}; read it with history_of(...).batch(), or say how far it is read with "
                'history_at(df, "<position>")'
            )
            raise DeclarationValueError(msg)
        found += [each for each in known if each not in found]
    return tuple(found)


def _last_watermark(times: Times) -> DataFrame | None:
    """Return a row with Spark's watermark after all records: 0 before the first event."""
    if not times:
        return None
    each = [
        frame.agg((F.max(time) - F.lit(delay)).alias(LAST_WATERMARK))
        for frame, time, delay in times
    ]
    least = reduce(DataFrame.unionAll, each).agg(
        F.min(F.coalesce(LAST_WATERMARK, F.lit(0).cast("long"))).alias(LAST_WATERMARK)
    )
    return least.select(F.greatest(LAST_WATERMARK, F.lit(0).cast("long")).alias(LAST_WATERMARK))


# The stream that goes on


@attrs.frozen(eq=False)
class _Going:
    """The streams of this program that go on with a batch.

    Args:
        location: The savepoint of the batch.
        begun: The uids of the operators that have begun with it.
    """

    location: SavepointLocation
    begun: set[str]


_STREAMS: dict[str, _Going] = {}
"""By the id of the batch."""


def begin_stream(
    source: Input, plan: Plan, savepoint: SavepointLike | None
) -> tuple[Initial, Plan]:
    """Return the state with which an operator of a stream begins, and its plan.

    Args:
        source: The records of the stream.
        plan: The plan of the operator.
        savepoint: The savepoint as the user gave it; None begins without state.

    Raises:
        DeclarationTypeError, DeclarationValueError: The argument is not a savepoint; or the stream
            needs one, or does not begin at the end of the savepoint's batch.
        CorruptStateError, IncompatibleStateError, SparkSetupError: As `begin_query` raises them.
    """
    uid, inputs = plan.task.name, source.inputs()
    frames = [each.df for each in inputs]
    if savepoint is None:
        _refuse_without_savepoint(uid, frames)
        return None, plan
    begun = begin_query(source.df, plan, savepoint)
    # An operator behind another one may not know the delay; the first operator's is the query's.
    delay = inputs[0].delay if inputs[0].before_watermark is None else None
    least = _go_on(uid, begun.manifest, frames, delay)
    return begun.rows, attrs.evolve(plan, saved=begun.saved, least_watermark=least)


def _refuse_without_savepoint(uid: str, frames: Sequence[DataFrame]) -> None:
    """Check that an operator without a savepoint does not miss the history of its stream.

    A new operator may stand behind another one that has begun with the savepoint.

    Args:
        uid: The name of the operator.
        frames: The inputs of the operator.

    Raises:
        DeclarationValueError: The operator would begin without the history.
    """
    if not _STREAMS:
        return  # analyzing a plan takes some 100 ms, and most programs have no history
    names = [name for frame in frames for leaf in leaves_of(frame) for name in leaf.names]
    for run in (each.removeprefix(_STREAM) for each in names if each.startswith(_STREAM)):
        going = _STREAMS.get(run)
        if going is None:
            continue
        known = [each.uid for each in read_manifest(going.location).operators]
        if uid in known or not going.begun:
            msg = (
                f"a stream that goes on with a batch begins with its savepoint, got operator {uid!r} "
                f"without from_savepoint; pass from_savepoint={going.location.address!r}, also if the "
                "checkpoint exists already"
            )
            raise DeclarationValueError(msg)


def _go_on(
    uid: str, manifest: Manifest | None, frames: Sequence[DataFrame], delay: int | None
) -> int:
    """Check that a stream begins at the end of a savepoint's batch, and return its first watermark.

    Args:
        uid: The name of the operator.
        manifest: The manifest of the savepoint with which the stream begins; a batch may have
            written it.  None for a savepoint in bytes.
        frames: The inputs of the operator.
        delay: How late records of the first input may be, in ms; None if that is not known.

    Returns:
        The watermark in ms; `MIN_WATERMARK` if no batch has written the savepoint.

    Raises:
        DeclarationValueError: A source begins at another position, or the lateness differs.
    """
    if manifest is None or manifest.history is None:
        return MIN_WATERMARK
    history, is_said = manifest.history, False
    for source in history.sources:
        is_said |= source.position is not None and "said" in source.position
    mark = f"{_STREAM}{history.run}"
    for leaf in (each for frame in frames for each in leaves_of(frame)):
        if leaf.is_streaming and mark not in leaf.names and not is_said:
            msg = (
                "a stream that begins with a batch's savepoint must begin at the end of the batch, got "
                f"{leaf.text:.120}; read it with history_of(...).stream(<the savepoint>)"
            )
            raise DeclarationValueError(msg)
    if None not in (delay, history.delay) and delay != history.delay:
        msg = (
            "a stream must have the lateness of its batch, got "
            f"{history.delay} ms for the batch and {delay} ms for the stream; pass the same "
            "watermark_delay to both, instead of withWatermark"
        )
        raise DeclarationValueError(msg)
    if history.run in _STREAMS:
        _STREAMS[history.run].begun.add(uid)
    return MIN_WATERMARK if manifest.watermark is None else manifest.watermark
