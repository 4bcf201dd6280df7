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
from functools import reduce
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._changelog.log_storage import Head
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
from pyflinklike.spark._host.blob_map import HEAD_AT
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
from pyflinklike.state_processor._checkpoints.checkpoint import last_batch, read_blobs, where_of
from pyflinklike.state_processor._checkpoints.group_job import Batches, map_frame
from pyflinklike.state_processor._checkpoints.hadoop_savepoints import savepoint_location_in
from pyflinklike.state_processor._checkpoints.key_group_finder import KeyGroupFinder
from pyflinklike.state_processor._edits.saved_files import Frames, read_saved_frames
from pyflinklike.state_processor._edits.savepoint import Savepoint
from pyflinklike.state_processor._logs.checkpoint_logs import (
    check_logs,
    merge,
    record_and_registry,
    refuse_pickles,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.history_parts import read_manifest
from pyflinklike.state_processor._savepoints.savepoint_directory import (
    SavepointDirectory,
    check_fit,
)
from pyflinklike.state_processor._savepoints.stored_sections import (
    SECTION_BYTES,
    sections_of_rows,
    sections_of_timers,
)
from pyflinklike.types.pickled_type import pickle_allowed

__all__ = [
    "KeyLayout",
    "initial_frame",
    "initial_rows",
    "initial_state",
    "read_savepoint",
    "savepoint_of",
    "stay_in_group",
]


_SECTION_SCHEMA = WireSchema(
    pa.schema([(KEY_GROUP, pa.int32()), ("declaration", pa.binary()), ("payload", pa.binary())])
)
Saved = Mapping[str, Mapping[str, Any]]


def initial_state(df: DataFrame, plan: Plan, savepoint: SavepointLike) -> tuple[Initial, Saved]:
    """Return the state with which a stream begins, and the stored declarations of its states.

    Args:
        df: The stream of records.
        plan: The plan of the query.
        savepoint: A savepoint with this operator, or with only one.

    Returns:
        The rows for the host, and the declarations by the name of the state.  A savepoint in bytes
        has no declarations.

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
        return _initial_rows(df, plan, savepoint), {}
    if isinstance(savepoint, Savepoint):
        return _of_savepoint(df, plan, savepoint)
    if not isinstance(savepoint, (str, os.PathLike)):
        msg = (
            "from_savepoint takes the directory or the bytes of a savepoint, or a Savepoint, got "
            f"{short_repr(savepoint)}; take_savepoint() and read_savepoint() give them"
        )
        raise DeclarationTypeError(msg)
    location = savepoint_location_in(df.sparkSession, savepoint)
    directory = SavepointDirectory(location, read_manifest(location))
    uid = plan.task.name if plan.task.name in directory.operators() else None
    operator = directory.manifest.operator(uid, directory.location.where)
    _check_fit(operator.record, operator.domains, plan)
    if not HAS_TRANSFORM_WITH_STATE:
        # On PySpark 3.5 the driver sends the state among the records.
        initial = _initial_rows(df, plan, directory.segment(uid).to_bytes())
        return initial, operator.record.states
    frames = read_saved_frames(df.sparkSession, directory, uid)
    return initial_frame(frames, _Keys.of(df, plan, frames.record)), operator.record.states


def _check_fit(record: OperatorRecord | None, timers: Mapping[str, int], plan: Plan) -> None:
    check_fit(record, timers, plan.task.max_parallelism, plan.timer_refusals())


def _of_savepoint(df: DataFrame, plan: Plan, savepoint: Savepoint) -> tuple[Initial, Saved]:
    if not HAS_TRANSFORM_WITH_STATE:
        msg = "on PySpark 3.5 a stream begins with a savepoint that is written, got a Savepoint"
        raise SparkSetupError(f"{msg}; write() it, and pass its path")
    savepoint.check()
    uid = plan.task.name
    frames = savepoint.operators[uid] if uid in savepoint.operators else savepoint.only()
    counted = frames.timers.groupBy("domain").count().collect()
    _check_fit(frames.record, {row["domain"]: row["count"] for row in counted}, plan)
    return initial_frame(frames, _Keys.of(df, plan, frames.record)), frames.record.states


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
        SparkSetupError: Spark cannot read the checkpoint, it has no such batch or no committed one,
            the operator is not pyflinklike's, or the savepoint would be larger than 2 GiB.
    """
    allow_pickle = pickle_allowed(allow_pickle)
    location = os.fspath(checkpoint_location)
    where = f"checkpoint {location!r}, operator {operator_id}"
    last = last_batch(spark, location, operator_id, where)
    batch_id = last if batch_id is None else batch_id
    where = where_of(location, operator_id, batch_id)
    blobs = read_blobs(spark, location, operator_id, batch_id, where)
    return savepoint_of(blobs, where, allow_pickle=allow_pickle)


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
    groups = {}
    for group_id in blobs.keys() - {REGISTRY_KEY}:
        if is_home(group_id):
            continue  # a partition watermark: another query has other partitions
        index = index_of(group_id, max_parallelism)
        if group_id != group_ids(max_parallelism, operator_index_of(group_id))[index]:
            msg = f"{where}: state must be under the numbers of key groups, got {group_id}"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        head = Head.from_bytes(blobs[group_id].get(HEAD_AT, b""), f"{where}, key group {index}")
        groups[index] = (head, blobs[group_id])
    logs = check_logs(record, registry, groups, where)
    if not allow_pickle:
        refuse_pickles(logs)
    return merge(logs, dropped=record.dropped)


def _initial_rows(df: DataFrame, plan: Plan, savepoint: bytes) -> list[tuple[int, bytes]] | None:
    """Make rows for the start of a query from a savepoint.

    Args:
        df: The stream of records.
        plan: The plan of the query.
        savepoint: A savepoint of one operator, as `read_savepoint` returns it.

    Returns:
        Rows of grouping key and payload: the registry, then the segments of key groups; None if
        the savepoint is empty.

    Raises:
        CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys
            do not have the key columns' types.
        SparkSetupError: The savepoint holds timers that the query could not fire.
    """
    key_groups = KeyGroupFinder(
        {column: df.schema[column].dataType for column in plan.reader.key_columns},
        plan.key_type,
        plan.task.max_parallelism,
        plan.reader.time_zone,
    )

    def group_of(keys: list[Any]) -> list[int]:
        return key_groups.of(df.sparkSession, keys)

    return initial_rows(plan, savepoint, group_of)


def initial_rows(
    plan: Plan, savepoint: bytes, group_of: Callable[[list[Any]], list[int]]
) -> list[tuple[int, bytes]] | None:
    """Make rows for the start of a query from a savepoint; the caller hashes the keys.

    Args:
        plan: The plan of the query.
        savepoint: A savepoint of one operator.
        group_of: Finds the key groups in which the query looks for keys in the user's form.

    Returns:
        The rows that `_initial_rows` returns.

    Raises:
        CorruptStateError, IncompatibleStateError, SparkSetupError: As `_initial_rows` raises them.
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
    parts.append(_by_group(timers, _TimersJob(frames.record, keys.columns)))
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
    rows = StateRows.of(record, state_of(describe_states(record, 0), name, "savepoint"), saved=True)
    # A savepoint holds one copy of broadcast state, and every key group begins with a copy of it.
    if rows.info.kind == "broadcast":
        everywhere = F.explode(F.sequence(F.lit(0), F.lit(keys.max_parallelism - 1)))
        # The sequence is of ints, since Spark refuses `explode` within a cast.
        placed = frame.withColumn(KEY_GROUP, everywhere)
    else:
        placed = keys.with_group(frame, by_key=not rows.declaration.per_group)
    return _by_group(placed, _StateJob(rows))


Job = Callable[[Batches], Iterator[pa.RecordBatch]]


def _by_group(frame: DataFrame, job: Job) -> DataFrame:
    columns = [
        F.col(KEY_GROUP),
        *(F.col(quote(each)) for each in frame.columns if each != KEY_GROUP),
    ]
    sorted_ = frame.select(*columns).repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP)
    return map_frame(sorted_, job, _SECTION_SCHEMA.ddl)


@attrs.frozen
class _StateJob:
    """Makes sections from the rows of a state, one key group after another."""

    rows: StateRows

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for index, table in _tables(batches):
            yield from _payloads(index, sections_of_rows(self.rows, table))


@attrs.frozen
class _TimersJob:
    """Makes sections from timers, one key group after another."""

    record: Any
    columns: KeyColumns

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for index, table in _tables(batches):
            yield from _payloads(index, sections_of_timers(self.record, table))


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


def _payloads(index: int, sections: Iterable[Section]) -> Iterator[pa.RecordBatch]:
    for section in sections:
        row = index, section.declaration.to_json(), section.payload
        yield _SECTION_SCHEMA.batch([row])


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
