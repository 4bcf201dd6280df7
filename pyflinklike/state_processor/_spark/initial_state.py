# SPDX-License-Identifier: Apache-2.0
"""Makes the state with which a stream begins from a savepoint.

The state of a savepoint directory or a `Savepoint` never passes through the driver: executors make
a snapshot of each key group.

    rows of a state -> key group by the stream's own hash -> sections -> segments of a key group

The rows of each state are shuffled by key group and become sections.  The sections of all states
are shuffled again and become segments.  The driver splits a savepoint in bytes by key group.  The
host gives each key group its segments in the first micro-batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial, reduce
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segment_chain import snapshots
from pyflinklike._changelog.segments import Declaration, Section, read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot, timer_domains
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    IncompatibleStateError,
    SparkSetupError,
)
from pyflinklike.spark._plan.operator_plan import Initial, Plan
from pyflinklike.spark._plan.process_options import SavepointLike
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.key_groups import (
    REGISTRY_KEY,
    group_ids,
    index_of,
    key_group,
    operator_index_of,
    registry_key_of,
    registry_payload,
)
from pyflinklike.spark._wire.payloads import INITIAL_SCHEMA, is_home
from pyflinklike.spark._wire.schema import WireSchema
from pyflinklike.spark._wire.system_columns import KEY_GROUP, quote
from pyflinklike.state_processor._checkpoints.checkpoint import (
    checkpoint_states,
    location_of,
    refuse_errors,
    savepoint_location_in,
)
from pyflinklike.state_processor._checkpoints.group_job import Batches, map_frame
from pyflinklike.state_processor._checkpoints.savepoint_frames import Frames, read_saved_frames
from pyflinklike.state_processor._checkpoints.state_frames import KeyGroupFinder
from pyflinklike.state_processor._logs.checkpoint_logs import (
    check_groups,
    check_log,
    merge,
    record_and_registry,
    refuse_pickles,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.manifest import Manifest
from pyflinklike.state_processor._savepoints.savepoint_directory import (
    SavepointDirectory,
    check_fit,
)
from pyflinklike.state_processor._savepoints.stored_sections import (
    SECTION_BYTES,
    sections_of_rows,
    sections_of_timers,
)
from pyflinklike.state_processor._spark.savepoint import Savepoint
from pyflinklike.types.pickled_type import pickle_allowed

_SECTION_SCHEMA = WireSchema(
    pa.schema([(KEY_GROUP, pa.int32()), ("declaration", pa.binary()), ("payload", pa.binary())])
)
Saved = Mapping[str, Mapping[str, Any]]


@attrs.frozen
class Beginning:
    """The state with which a stream begins.

    Args:
        rows: The rows for the host.
        saved: The stored declarations by the name of the state; empty for a savepoint in
            bytes.
        manifest: The manifest of the savepoint; None for a savepoint in bytes.
    """

    rows: Initial
    saved: Saved = attrs.field(factory=dict)
    manifest: Manifest | None = None


def begin_query(df: DataFrame, plan: Plan, savepoint: SavepointLike) -> Beginning:
    """Return the state with which a stream begins.

    Args:
        df: The stream of records.
        plan: The plan of the query.
        savepoint: A savepoint with this operator, or with only one.

    Raises:
        DeclarationTypeError: The argument is not a savepoint.
        CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys do not
            have the key columns' types.
        StateValueError: An edit of a `Savepoint` has no result for a value or key.
        UnknownStateError: The savepoint has several operators, but none with this uid.
        SparkSetupError: The savepoint holds timers that the query could not fire; or PySpark is 3.5
            and the savepoint was not written.
    """
    if isinstance(savepoint, bytes):
        return Beginning(_initial_rows(df, plan, savepoint))
    if isinstance(savepoint, Savepoint):
        return _of_savepoint(df, plan, savepoint)
    if not isinstance(savepoint, (str, os.PathLike)):
        msg = (
            "from_savepoint takes the directory or the bytes of a savepoint, or a Savepoint, got "
            f"{short_repr(savepoint)}; take_savepoint() and read_savepoint() give them"
        )
        raise DeclarationTypeError(msg)
    directory = SavepointDirectory.at(savepoint_location_in(df.sparkSession, savepoint))
    uid = plan.task.name if plan.task.name in directory.operators() else None
    operator = directory.manifest.operator(uid, directory.location.where)
    _check_fit(operator.record, operator.domains, plan)
    if not HAS_TRANSFORM_WITH_STATE:
        # On PySpark 3.5 the driver sends the state among the records.
        rows = _initial_rows(df, plan, directory.segment(uid).to_bytes())
        return Beginning(rows, operator.record.states, directory.manifest)
    frames = read_saved_frames(df.sparkSession, directory, uid)
    return _of_frames(df, plan, frames, directory.manifest)


def _check_fit(record: OperatorRecord | None, timers: Mapping[str, int], plan: Plan) -> None:
    check_fit(record, timers, plan.task.max_parallelism, plan.timer_refusals())


def _of_savepoint(df: DataFrame, plan: Plan, savepoint: Savepoint) -> Beginning:
    if not HAS_TRANSFORM_WITH_STATE:
        msg = "on PySpark 3.5 a stream begins with a savepoint that is written, got a Savepoint"
        raise SparkSetupError(f"{msg}; write() it, and pass its path")
    savepoint.check()
    uid = plan.task.name
    frames = savepoint.operators[uid] if uid in savepoint.operators else savepoint.only()
    counted = frames.timers.groupBy("domain").count().collect()
    _check_fit(frames.record, {row["domain"]: row["count"] for row in counted}, plan)
    return _of_frames(df, plan, frames, savepoint.manifest)


def _of_frames(df: DataFrame, plan: Plan, frames: Frames, manifest: Manifest) -> Beginning:
    rows = initial_frame(frames, _Keys.of(df, plan, frames.record))
    return Beginning(rows, frames.record.states, manifest)


def read_savepoint(
    spark: SparkSession,
    checkpoint_location: str | os.PathLike[str],
    *,
    batch_id: int | None = None,
    operator_id: int = 0,
    allow_pickle: bool = True,
) -> bytes:
    """Read the state of a streaming query, in the form of `KeyedProcessHarness.snapshot`.

    The query may be running.  The checkpoint does not change.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint_location: The checkpointLocation of the query.
        batch_id: The micro-batch after which the state is read, as long as Spark retains it
            (`spark.sql.streaming.minBatchesToRetain`); by default the last committed one.
        operator_id: The number of the query's stateful operator, counted from its sources;
            0 if there is only one.
        allow_pickle: Whether the savepoint may hold pickles.  This call unpickles no value, but a
            program that restores the savepoint and declares such a state will do so.

    Returns:
        The savepoint, for `process(..., from_savepoint=...)` or for the `restore` of a harness.

    Raises:
        CorruptStateError: A key group's log is damaged, incomplete, or not the one that the
            operator's record names; or a key group is missing.
        IncompatibleStateError: A state is pickled, and `allow_pickle` is False.
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator, or `process` did not make it.
        SparkSetupError: Spark cannot read the checkpoint, no batch is committed yet, or the savepoint
            would be larger than 2 GiB.
    """
    allow_pickle = pickle_allowed(allow_pickle)
    location = location_of(checkpoint_location, spark)
    (state,) = checkpoint_states(spark, location, operator_id, batch_id)
    blobs: dict[int, dict[int, bytes]] = {}
    with refuse_errors(state.where):
        rows = state.blobs().toArrow()
    for row in rows.to_pylist():
        blobs.setdefault(row[KEY_GROUP], {})[row["sequence"]] = row["blob"]
    return savepoint_of(blobs, state.where, allow_pickle=allow_pickle)


def savepoint_of(
    blobs: Mapping[int, Mapping[int, bytes]], where: str, *, allow_pickle: bool = True
) -> bytes:
    """Merge everything that an operator has stored into a savepoint.

    Args:
        blobs: The blobs by grouping key, then by sequence number.
        where: Names the operator, for messages.
        allow_pickle: Whether the savepoint may hold pickled state.

    Raises:
        CorruptStateError: A blob is damaged, missing, or does not belong to the operator.
        IncompatibleStateError: A state is pickled, and `allow_pickle` is False.
        SparkSetupError: The savepoint would be larger than 2 GiB.
    """
    record, registry = record_and_registry(blobs.get(REGISTRY_KEY, {}), where)
    max_parallelism = record.identity.max_parallelism
    groups: dict[int, Mapping[int, bytes]] = {}
    for group_id in blobs.keys() - {REGISTRY_KEY}:
        if is_home(group_id):
            continue  # a partition watermark: another query has other partitions
        index = index_of(group_id, max_parallelism)
        if group_id != group_ids(max_parallelism, operator_index_of(group_id))[index]:
            msg = f"{where}: state must be under the numbers of key groups, got {group_id}"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        groups[index] = blobs[group_id]
    check_groups(registry, groups, where)
    logs = {}
    for index, each in groups.items():
        name = f"{where}, key group {index}"
        logs[name] = check_log(record.identity, registry.served_at[index], each, name)
    if not allow_pickle:
        refuse_pickles(logs)
    return merge(logs, dropped=record.dropped)


def _initial_rows(df: DataFrame, plan: Plan, savepoint: bytes) -> list[tuple[int, bytes]] | None:
    """Make rows for the start of a query from a savepoint; Spark hashes its keys."""
    finder = KeyGroupFinder(
        {column: df.schema[column].dataType for column in plan.reader.key_columns},
        plan.key_type,
        plan.task.max_parallelism,
        plan.reader.time_zone,
    )
    return initial_rows(plan, savepoint, partial(finder.of, df.sparkSession))


def initial_rows(
    plan: Plan, savepoint: bytes, group_of: Callable[[list[Any]], list[int]]
) -> list[tuple[int, bytes]] | None:
    """Make rows for the start of a query from a savepoint; the caller hashes the keys.

    Args:
        plan: The plan of the query.
        savepoint: A savepoint of one operator, as `read_savepoint` returns it.
        group_of: Finds the key groups in which the query looks for keys in the user's form.

    Returns:
        Rows of grouping key and payload: the registry, then the segments of key groups; None if
        the savepoint is empty.

    Raises:
        CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys
            do not have the key columns' types.
        SparkSetupError: The savepoint holds timers that the query could not fire.
    """
    count = plan.task.max_parallelism
    snapshot = read_segment(savepoint, "savepoint")
    groups = regroup_snapshot(snapshot, plan.key_type, group_of, count, "savepoint")
    domains = timer_domains(chain.from_iterable(groups.values()))
    _check_fit(None, {each.name.lower(): 1 for each in domains}, plan)
    if not groups:
        return None
    ids = group_ids(count)
    rows = [(ids[group], each.to_bytes()) for group, mine in groups.items() for each in mine]
    return [(REGISTRY_KEY, registry_payload(groups)), *rows]


# From DataFrames, by executors


class KeyLayout(Protocol):
    """The key columns of a savepoint, and the key groups in which a stream looks for their keys."""

    @property
    def columns(self) -> KeyColumns:
        """The key columns of the savepoint."""

    @property
    def max_parallelism(self) -> int:
        """The number of key groups of the stream."""

    def with_group(self, frame: DataFrame, *, by_key: bool) -> DataFrame:
        """Add to rows the key group in which the stream looks for them.

        Args:
            frame: The rows of a state, or of timers.
            by_key: Whether the rows belong to keys; otherwise they stay in their key group.
        """


def initial_frame(frames: Frames, keys: KeyLayout, place: int = 0) -> DataFrame:
    """Make the rows with which an operator begins: a grouping key and a payload in each.

    Args:
        frames: The operator's part of the savepoint.
        keys: Finds the key groups of the operator's keys.
        place: The operator index among the operators that share Spark's state operator.

    Raises:
        IncompatibleStateError: The state of a key group would have to be divided.
    """
    parts = [_sections(keys, frames, name, frame) for name, frame in frames.states.items()]
    timers = keys.with_group(frames.timers, by_key=True)
    parts.append(_by_group(timers, partial(sections_of_timers, frames.record)))
    every = reduce(DataFrame.unionAll, parts)
    job = _SegmentsJob(group_ids(keys.max_parallelism, place), registry_key_of(place))
    grouped = every.repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP)
    return map_frame(grouped, job, INITIAL_SCHEMA.ddl)


def stay_in_group(frame: DataFrame) -> DataFrame:
    """Keep rows that belong to no key in their key group."""
    return frame.withColumn(KEY_GROUP, F.col("key_group").cast("int"))


@attrs.frozen
class _Keys:
    """The key columns of a savepoint, and the key columns of the stream that replace them.

    Args:
        columns: The key columns of the savepoint.
        names: The names of the stream's key columns.
        types: The types of the stream's key columns.
        max_parallelism: The number of key groups of the stream.
    """

    columns: KeyColumns
    names: tuple[str, ...]
    types: tuple[st.DataType, ...]
    max_parallelism: int

    @classmethod
    def of(cls, df: DataFrame, plan: Plan, record: Any) -> _Keys:
        columns, names = KeyColumns.of(record), plan.reader.key_columns
        declared = [name.partition(" = ")[0] for name, _ in record.identity.key_columns]
        # The key of a harness has no name, so it fits any single key column.
        fits = len(names) == 1 if not declared else _lower(declared) == _lower(names)
        if not fits:
            msg = (
                f"operator {plan.task.name!r}: a savepoint must have the key columns of the stream, "
                f"{list(names)}, got {declared or list(columns.names)}; rename them before key_by, "
                "or make a savepoint of these with Savepoint.new() and with_state()"
            )
            raise IncompatibleStateError(msg)
        types = tuple(df.schema[name].dataType for name in names)
        return cls(columns, tuple(names), types, plan.task.max_parallelism)

    def with_group(self, frame: DataFrame, *, by_key: bool) -> DataFrame:
        """Add to rows the key group in which the stream looks for them.

        Args:
            frame: The rows of a state, or of timers.
            by_key: Whether the rows belong to keys; otherwise they stay in their key group.
        """
        if not by_key:
            return stay_in_group(frame)
        self._check_same(frame)
        cast = [self._cast(at).alias(f"__key_{at}") for at in range(len(self.names))]
        keyed = frame.select("*", *cast)
        names = [f"__key_{at}" for at in range(len(self.names))]
        found = keyed.withColumn(KEY_GROUP, key_group(names, self.max_parallelism))
        return found.drop(*names)

    def _cast(self, at: int) -> Column:
        return F.col(quote(self.columns.names[at])).cast(self.types[at])

    def _check_same(self, frame: DataFrame) -> None:
        """Check that the stream's key columns can hold each key of the savepoint unchanged."""
        for at, name in enumerate(self.columns.names):
            former = frame.schema[name].dataType
            if former == self.types[at]:
                continue
            column = F.col(quote(name))
            back = column.try_cast(self.types[at]).try_cast(former)
            try:
                row = frame.where(~column.eqNullSafe(back)).select(column).first()
            except PySparkException:  # there is no cast between these types
                row = frame.select(column).first()
            if row is not None:
                msg = (
                    f"savepoint: its keys must be values of the key column {self.names[at]!r} of "
                    f"type {self.types[at].simpleString()}, got {short_repr(row[0])} of "
                    f"{former.simpleString()}; key the stream as the savepoint's state was keyed"
                )
                raise IncompatibleStateError(msg)


def _lower(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]


def _sections(keys: KeyLayout, frames: Frames, name: str, frame: DataFrame) -> DataFrame:
    record = frames.record
    rows = StateRows.saved_of(record, name, "savepoint")
    # A savepoint holds one copy of broadcast state, and every key group begins with a copy of it.
    if rows.info.kind == "broadcast":
        everywhere = F.explode(F.sequence(F.lit(0), F.lit(keys.max_parallelism - 1)))
        # The sequence is of ints, since Spark refuses `explode` within a cast.
        placed = frame.withColumn(KEY_GROUP, everywhere)
    else:
        placed = keys.with_group(frame, by_key=not rows.declaration.per_group)
    return _by_group(placed, partial(sections_of_rows, rows))


def _by_group(frame: DataFrame, write: Callable[[pa.Table], Iterable[Section]]) -> DataFrame:
    """Make the sections of each key group of a frame."""
    columns = [
        F.col(KEY_GROUP),
        *(F.col(quote(each)) for each in frame.columns if each != KEY_GROUP),
    ]
    sorted_ = frame.select(*columns).repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP)
    return map_frame(sorted_, _SectionsJob(write), _SECTION_SCHEMA.ddl)


@attrs.frozen
class _SectionsJob:
    """Makes sections of rows, one key group after another.

    Args:
        write: Returns the sections of the rows of one key group.
    """

    write: Callable[[pa.Table], Iterable[Section]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for index, table in _tables(batches):
            for section in self.write(table):
                row = index, section.declaration.to_json(), section.payload
                yield _SECTION_SCHEMA.batch([row])


def _tables(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """Gather the rows of each key group, which come one group after another."""
    current: int | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        groups = batch.column(0).to_pylist()
        start = 0
        for at in range(1, len(groups) + 1):
            if at < len(groups) and groups[at] == groups[start]:
                continue
            if groups[start] != current:
                if current is not None:
                    yield current, pa.Table.from_batches(parts).combine_chunks()
                current, parts = groups[start], []
            parts.append(batch.slice(start, at - start))
            start = at
    if current is not None:
        yield current, pa.Table.from_batches(parts).combine_chunks()


@attrs.frozen
class _SegmentsJob:
    """Makes segments from the sections of a key group, and calls the registry.

    Args:
        group_ids: The grouping keys of the key groups.
        registry_key: The grouping key of the registry.
    """

    group_ids: tuple[int, ...]
    registry_key: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        groups = []
        for index, sections in groupby(_sections_of(batches), itemgetter(0)):
            groups.append(index)
            # Each segment is a row, and the JVM holds several copies of a row, so segments stay small.
            for segment in snapshots((each for _, each in sections), SECTION_BYTES):
                yield INITIAL_SCHEMA.batch([(self.group_ids[index], segment.to_bytes())])
        if groups:
            yield INITIAL_SCHEMA.batch([(self.registry_key, registry_payload(groups))])


def _sections_of(batches: Batches) -> Iterator[tuple[int, Section]]:
    for batch in batches:
        for at, index in enumerate(batch.column(0).to_pylist()):
            declaration = Declaration.from_json(batch.column(1)[at].as_py())
            yield index, Section(declaration, batch.column(2)[at].as_py())
