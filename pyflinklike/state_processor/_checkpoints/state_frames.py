# SPDX-License-Identifier: Apache-2.0
"""The readers of a query's state that users call.

The query may be running: readers see only committed batches, and an answer is of one batch.  They
do not need the program, and change nothing.

    read_state(spark, "/checkpoints/visits", "count").where("user = 'ann'").show()
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateValueError,
)
from pyflinklike.spark._wire.key_groups import key_group
from pyflinklike.spark._wire.schema import arrow_type, key_type_of
from pyflinklike.spark._wire.system_columns import frame_of
from pyflinklike.state_processor._checkpoints.checkpoint import (
    CheckpointState,
    checkpoint_states,
    location_of,
    refuse_errors,
    savepoint_at,
)
from pyflinklike.state_processor._checkpoints.group_job import (
    frame_of_groups,
    key_fields,
    spark_schema,
)
from pyflinklike.state_processor._checkpoints.savepoint_frames import (
    SavepointState,
    saved_states,
)
from pyflinklike.state_processor._checkpoints.state_diff import STATE_COLUMN
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.group_reader import (
    GroupStateReader,
    KeyedReader,
    TimersReader,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns, list_keys
from pyflinklike.state_processor._logs.log_rows import SegmentsReader
from pyflinklike.state_processor._logs.state_infos import (
    StateInfo,
    StateInfos,
    describe_states,
    owner_of,
    state_of,
)
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.conversions import to_column
from pyflinklike.types.time_types import to_instant

Location = str | os.PathLike[str]


def list_states(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    sizes: bool = False,
) -> StateInfos:
    """List the states and stores of a query, also those without entries yet.

    The query may be running.  A store's helper tables belong to the store and are not listed.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        batch_id: The micro-batch after which state is listed; by default the last committed one.
        operator: Spark's number of a stateful operator, or its uid; by default all operators.
        sizes: Whether to count `entries` and `bytes`, which reads the whole log.

    Returns:
        A list, which notebooks show as a table.

    Raises:
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
        CorruptStateError: The operator's record, registry or heads are damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    found = StateInfos()
    for each in operators_at(spark, checkpoint, operator, batch_id):
        found += (
            list_sized_states(each) if sizes else describe_states(each.record, each.operator_id)
        )
    return found


StateSource = CheckpointState | SavepointState
"""An operator whose state is read."""


def operators_at(
    spark: SparkSession, checkpoint: Location, operator: int | str | None, batch_id: int | None
) -> Sequence[StateSource]:
    """Open operators of a checkpoint or a savepoint, all after one micro-batch.

    Args:
        spark: Any session that reaches the path.
        checkpoint: The checkpointLocation of a query, or the directory of a savepoint.
        operator: The number or uid of an operator; None opens all.
        batch_id: The number of the micro-batch; None chooses the last committed one.

    Raises:
        UnknownStateError, UnknownBatchError: There is no such operator or batch.
        CorruptStateError: The savepoint, or an operator's record, registry or heads, is damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    location = location_of(checkpoint, spark)
    saved = savepoint_at(location, spark)
    if saved is not None:
        return saved_states(spark, saved, operator, batch_id)
    return checkpoint_states(spark, location, operator, batch_id)


def list_sized_states(state: StateSource) -> StateInfos:
    """List the states of an operator with their sizes; for a checkpoint this reads the whole log."""
    if isinstance(state, SavepointState):
        return state.sized_states()
    infos = describe_states(state.record, state.operator_id)
    entries: dict[str, int] = {}
    sizes: dict[str, int] = {}
    with refuse_errors(state.where):
        rows = frame_of_groups(state, SegmentsReader()).select("entries", "entry_bytes").toArrow()
    for name, totals in (("entries", entries), ("entry_bytes", sizes)):
        for counted in rows.column(name).to_pylist():
            for table, number in counted:
                owner = owner_of(table, state.record.states)
                totals[owner] = totals.get(owner, 0) + number
    return StateInfos(
        attrs.evolve(each, entries=entries.get(each.name, 0), bytes=sizes.get(each.name, 0))
        for each in infos
    )


def read_state(
    spark: SparkSession,
    checkpoint: Location,
    state: str,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
    keys: Iterable[Any] | None = None,
    expired: bool = True,
    now: datetime | int | None = None,
) -> DataFrame:
    """Read the entries of a state or store as rows; a map or list has several under a key.

    Example:
        ```python
        read_state(spark, "/data/checkpoint", "total").where("value > 1000").show()
        ```

    The query may be running.  The call fixes the batch; actions on the result read it.

    Columns: the key columns of the stream; `namespace` for state of windows; then of a map
    `user_key`, of a list `position`, of a store `store_key` and `window_start`, `window_end`
    (with duplicates `number`), `session_start`, `session_end`, `valid_from`, `valid_to`,
    `timestamp` or `last_use`; `value`, which is the accumulator of aggregating state; with a
    time-to-live `stamp` (ms), `expires_at` and `alive`; `key_group`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        state: The name of the state or store.
        batch_id: The micro-batch after which state is read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        keys: The keys to read, as tuples if there are several key columns; only their key groups
            are decoded.  By default all keys.
        expired: Whether to include entries that the function would no longer see.
        now: The time by which entries are expired, in ms or as a datetime (in UTC if it has no
            zone); by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such state or operator.
        UnknownBatchError: The batch is not, or no longer, there.
        StateValueError: A key cannot be a value of the key columns.
        CorruptStateError: The operator's record, registry or heads are damaged.  Damage that is found
            when rows are read is in the message of Spark's error.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = operators_at(spark, checkpoint, one_operator(operator), batch_id)
    info = state_of(describe_states(found.record, found.operator_id), state, found.where)
    return entries_of(found, info, clock_at(now), keys=keys, expired=expired)


def entries_of(
    found: StateSource,
    info: StateInfo,
    now: BatchClock | None,
    *,
    keys: Iterable[Any] | None = None,
    expired: bool = True,
) -> DataFrame:
    """Read the entries of a state, as `read_state` does.

    Args:
        found: The operator after a micro-batch.
        info: The description of the state.
        now: The time that decides which entries are expired; None takes the time of the batch.
        keys: The keys to read, whose hashes may need a Spark job; None reads all.
        expired: Whether to include entries that the function would no longer see.

    Raises:
        StateValueError: A key cannot be a value of the key columns.
    """
    if isinstance(found, SavepointState):
        return found.entries(info, now, keys=keys, expired=expired)
    wanted = None
    if keys is not None and info.key_type is not None:
        wanted = find_wanted_keys(found.spark, found.record, keys)
    reader = entry_reader(found, info, now, expired, None if wanted is None else wanted.stored)
    return frame_of_groups(found, reader, None if wanted is None else wanted.groups)


def entry_reader(
    found: CheckpointState,
    info: StateInfo,
    now: BatchClock | None,
    expired: bool = True,
    wanted: Any = None,
) -> GroupStateReader:
    """Return the reader of a state's key groups; see `entries_of` for the arguments."""
    has_clock = info.ttl is not None or "stream_time" in info.options
    clock = (now or found.clock()) if has_clock else None
    # All key groups have the same broadcast state.
    only = min(found.registry.served_at, default=None) if info.kind == "broadcast" else None
    return GroupStateReader(StateRows.of(found.record, info), clock, expired, wanted, only)


def one_operator(operator: int | str) -> int | str:
    """Return the argument that names one operator.

    Raises:
        DeclarationTypeError: `operator` is neither a number nor a uid.
    """
    if not is_int(operator) and not isinstance(operator, str):
        msg = f"operator takes Spark's number of an operator or its uid, got {short_repr(operator)}"
        raise DeclarationTypeError(f"{msg}; list_states() shows both")
    return operator


def clock_at(now: datetime | int | None) -> BatchClock | None:
    """Make a clock that stands at a time, in ms or as a datetime; None for None.

    Raises:
        DeclarationTypeError: `now` is another object.
    """
    if now is None:
        return None
    if isinstance(now, datetime):
        milliseconds = int(to_instant(now, "UTC").timestamp() * 1000)
    elif is_int(now):
        milliseconds = now
    else:
        msg = f"now takes a datetime or an int of ms, got {short_repr(now)}; leave it out for the batch's"
        raise DeclarationTypeError(msg)
    return BatchClock(milliseconds, milliseconds)


def read_timers(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
    now: datetime | int | None = None,
) -> DataFrame:
    """Read the registered timers as rows.

    Columns: the key columns of the stream; `namespace` for timers of windows; `domain`
    ("event_time" or "processing_time"); `timestamp` (ms) and the same instant as `time`; `due`,
    whether the clock of the batch had reached it; `key_group`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, or the directory of a savepoint.
        batch_id: The micro-batch after which timers are read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        now: The time by which timers are `due`, in ms or as a datetime (in UTC if it has no zone);
            by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, registry or heads are damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = operators_at(spark, checkpoint, one_operator(operator), batch_id)
    return timers_of(found, clock_at(now))


def timers_of(found: StateSource, now: BatchClock | None) -> DataFrame:
    """Read the timers of an operator, as `read_timers` does.

    Args:
        found: The operator after a micro-batch.
        now: The time that decides which timers are due; None takes the time of the batch.
    """
    if isinstance(found, SavepointState):
        return found.timers(now)
    return frame_of_groups(found, TimersReader(found.record, now or found.clock()))


def read_keyed_state(
    spark: SparkSession,
    checkpoint: Location,
    *,
    states: Iterable[str] | None = None,
    batch_id: int | None = None,
    operator: int | str = 0,
    keys: Iterable[Any] | None = None,
    now: datetime | int | None = None,
) -> DataFrame:
    """Read the state of each key as one row: key columns, a column for each state, `key_group`.

    A column of a state holds its value: an array for a list, in its order, and a map for a map.  For
    a store or state of windows it is an array of structs with the columns of `read_state`.  It is
    null if the key has no entry.  Expired entries are left out.  All states of a key are in one key
    group, so nothing is shuffled.  A state with the name of a key column gets the prefix `state_`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, which may be running.
        states: The names of the states and stores; by default all that belong to keys.
        batch_id: The micro-batch after which state is read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        keys: The keys to read, as tuples if there are several key columns; by default all.
        now: The time by which entries are expired, in ms or as a datetime (in UTC if it has no
            zone); by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such state or operator.
        DeclarationValueError: A state belongs to no key, or no state belongs to keys.
        UnknownBatchError: The batch is not, or no longer, there.
        StateValueError: A key cannot be a value of the key columns.
        CorruptStateError: The operator's record, registry or heads are damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = checkpoint_states(
        spark, location_of(checkpoint, spark), one_operator(operator), batch_id
    )
    infos = describe_states(found.record, found.operator_id)
    names = [info.name for info in infos if info.key_type] if states is None else list(states)
    chosen = [state_of(infos, name, found.where) for name in names]
    shared = [info.name for info in chosen if info.key_type is None]
    if shared or not chosen:
        msg = f"{found.where}: read_keyed_state reads state that belongs to keys, got {shared or names}"
        raise DeclarationValueError(f"{msg}; use read_state() for other state")
    wanted = None if keys is None else find_wanted_keys(spark, found.record, keys)
    reader = KeyedReader(
        tuple(StateRows.of(found.record, info) for info in chosen),
        KeyColumns.of(found.record),
        clock_at(now) or found.clock(),
        None if wanted is None else wanted.stored,
    )
    frame = frame_of_groups(found, reader, None if wanted is None else wanted.groups)
    for field in reader.schema.names[len(reader.keys.names) : -1]:
        frame = frame.withMetadata(field, {STATE_COLUMN: True})
    return frame


# The keys that a reader is asked for


@attrs.frozen
class WantedKeys:
    """The keys to read.

    Args:
        stored: The stored form of the keys, each once, as an Arrow array.
        groups: The key groups of the keys.
    """

    stored: Any
    groups: frozenset[int]


def find_wanted_keys(
    spark: SparkSession, record: OperatorRecord, keys: Iterable[Any]
) -> WantedKeys:
    """Find how an operator stores keys, and in which key groups.

    Args:
        spark: Computes the hashes of the keys.
        record: The operator's record, which names its key columns.
        keys: The keys in the user's form, as tuples if there are several key columns.

    Raises:
        DeclarationTypeError: `keys` is a single key.
        StateValueError: A key cannot be a value of the key columns.
    """
    wanted = list_keys(keys)
    types = {field.name: field.dataType for field in key_fields(record)}
    key_type = key_type_of(list(types.values()), record.time_zone)
    if not record.identity.key_columns:
        msg = "finding keys needs key columns, got a stream that is keyed by no column"
        raise StateValueError(f"{msg}; leave keys out")
    finder = KeyGroupFinder(types, key_type, record.identity.max_parallelism, record.time_zone)
    try:
        groups = finder.of(spark, wanted)
        frozen = dict.fromkeys(map(key_type.freeze_key, wanted))
    except IncompatibleStateError as error:
        msg = str(error).replace("savepoint: its keys", "keys")
        raise StateValueError(msg.rpartition(";")[0] + "; give values of these columns") from error
    stored = key_type.to_arrow(list(frozen))
    return WantedKeys(
        stored.combine_chunks() if hasattr(stored, "chunks") else stored, frozenset(groups)
    )


# The log of a state


def read_segments(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
) -> DataFrame:
    """Read the log of an operator: a row for each segment that its state is restored from.

    Columns: `key_group`; `place`, the position in the log from 0; `nonce` and `parent`, which is
    null if the segment needs no other one; `is_snapshot`; `bytes` before compression; `entries`
    and `entry_bytes` by table, older writes of an entry included.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        batch_id: The micro-batch after which the log is read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, registry or heads are damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = checkpoint_states(
        spark, location_of(checkpoint, spark), one_operator(operator), batch_id
    )
    return frame_of_groups(found, SegmentsReader())


_HEADS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        *(
            pa.field(name, pa.int64())
            for name in (
                *("log_bytes", "log_entries", "snapshot_bytes", "snapshot_entries"),
                *("compacted_at", "wake_at", "sweep_at", "served_at"),
            )
        ),
    ]
)


def read_heads(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
) -> DataFrame:
    """Read the head of each key group as a row; the segments are not read.

    Columns: `key_group`; `log_bytes` and `log_entries` of the segments that count,
    `snapshot_bytes` and `snapshot_entries` of the last compaction; and in ms `compacted_at`,
    `wake_at` (when the group is called without records), `sweep_at` (when the group looks for
    expired entries) and `served_at` (when the group last had records).

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        batch_id: The micro-batch after which the heads are read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, registry or heads are damaged.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = checkpoint_states(
        spark, location_of(checkpoint, spark), one_operator(operator), batch_id
    )
    rows = [
        {"key_group": index, **attrs.asdict(head)} for index, head in sorted(found.heads.items())
    ]
    table = pa.Table.from_pylist(rows, _HEADS)
    return frame_of(spark, table, spark_schema(_HEADS))


# The key groups of keys that come without records: Spark computes them, as for records


_REMEDY = "key the stream as the savepoint's state was keyed"


@attrs.frozen
class KeyGroupFinder:
    """Finds the key groups of keys that come without records.

    Args:
        columns: The key columns and their types.
        key_type: The type by which keys are frozen.
        max_parallelism: The number of key groups.
        time_zone: The zone of the Spark session, in which naive datetimes are read.
    """

    columns: Mapping[str, st.DataType]
    key_type: TypeInformation
    max_parallelism: int
    time_zone: str

    def of(self, spark: SparkSession, keys: list[Any]) -> list[int]:
        """Find the key group of each key.

        Args:
            spark: The session that computes the hashes, in a job of its own if there are many keys.
            keys: The keys in the user's form.

        Raises:
            IncompatibleStateError: The columns cannot hold a key.
        """
        if not keys or not self.columns:
            return [0] * len(keys)
        columns = [keys] if len(self.columns) == 1 else list(zip(*keys))
        arrays = [self._array(values, each) for values, each in zip(columns, self.columns.values())]
        self._check_same(keys, arrays)
        names = [f"key_{number}" for number in range(len(arrays))]
        table = pa.table([pa.array(range(len(keys)), pa.int64()), *arrays], ["at", *names])
        fields = [st.StructField(name, each) for name, each in zip(names, self.columns.values())]
        schema = st.StructType([st.StructField("at", st.LongType()), *fields])
        group = key_group(names, self.max_parallelism).alias("group")
        found = frame_of(spark, table, schema).select("at", group)
        return [number for _, number in sorted(found.collect())]

    def _array(self, values: Sequence[Any], kind: st.DataType) -> pa.Array:
        arrow = arrow_type(kind)
        try:
            return to_column(values, arrow, self.time_zone)
        except StateValueError as error:
            msg = f"{self._rule()}: {error}; {_REMEDY}"
            raise IncompatibleStateError(msg) from error

    def _check_same(self, keys: list[Any], arrays: list[pa.Array]) -> None:
        """Check that records would bring the same keys: a double column has 1.0, which is not 1."""
        columns = [to_python(array, self.time_zone) for array in arrays]
        read = columns[0] if len(columns) == 1 else zip(*columns)
        freeze = self.key_type.freeze_key
        for key, other in zip(keys, read):
            if freeze(key) != freeze(other):
                msg = f"{self._rule()}, got {short_repr(key)}, which becomes {short_repr(other)} there; {_REMEDY}"
                raise IncompatibleStateError(msg)

    def _rule(self) -> str:
        types = ", ".join(f"{name} {kind.simpleString()}" for name, kind in self.columns.items())
        return f"savepoint: its keys must be values of the key columns ({types})"
