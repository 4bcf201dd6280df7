# SPDX-License-Identifier: Apache-2.0
"""Payloads, which carry many records in one Spark row.

Spark's Python state operators cost about a millisecond per grouping key and copy rows one by
one.  So the grouping key is the key group, and the records of a key group travel as one Arrow
record batch in a binary cell: a payload.

Before the shuffle `pack` splits the records of a task into one payload per key group.  Each
payload has an `origin`, the number of its input task and its position there, so that the order of
arrival survives the shuffle.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from pyflinklike._messages import short_repr
from pyflinklike.errors import SparkSetupError, StateValueError
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, index_of, registry_payload
from pyflinklike.spark._wire.schema import WireSchema
from pyflinklike.spark._wire.system_columns import BATCH_TIME, KEY_GROUP

PACKED_SCHEMA = WireSchema(
    pa.schema([(KEY_GROUP, pa.int32()), ("origin", pa.int64()), ("payload", pa.binary())])
)
"""Packed rows: grouping key, origin and payload."""
INITIAL_SCHEMA = WireSchema(pa.schema([(KEY_GROUP, pa.int32()), ("payload", pa.binary())]))
"""Rows of the state that a query begins with: grouping key, and registry or segment."""

Packing = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function that packs the records of one task, for `mapInArrow`."""

_SIZE = struct.Struct("<I")
_MAX_BYTES = 32 * 1024 * 1024
_MAX_PAYLOADS = 1 << 32


def to_payload(batch: pa.RecordBatch) -> bytes:
    """Write a record batch with its schema as bytes."""
    schema: bytes = batch.schema.serialize().to_pybytes()
    records: bytes = batch.serialize().to_pybytes()
    return _SIZE.pack(len(schema)) + schema + records


def payload_to_batch(payload: bytes) -> pa.RecordBatch:
    """Read the record batch of a payload, without a copy of its data."""
    (size,) = _SIZE.unpack_from(payload)
    start = _SIZE.size + size
    schema = _schema(bytes(payload[_SIZE.size : start]))
    return pa.ipc.read_record_batch(pa.py_buffer(payload)[start:], schema)


# Payloads have the same few schemas.  Reading one takes about 12 us, finding it here 1 us.
@lru_cache(maxsize=64)
def _schema(serialized: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(serialized))


def pack(key_columns: tuple[str, ...], group_ids: Sequence[int]) -> Packing:
    """Return the function that packs the records of one task, for `mapInArrow`.

    Records without a key group go to every key group.

    Args:
        key_columns: The key columns; the key of a single column must not be null.
        group_ids: The grouping key of each key group.  The column of key groups may instead hold
            hashes of keys, as bigints; their remainders are the key groups.
    """

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        partition = context.partitionId() if context else 0
        # Origins sort by task, then by position within the task.
        sequence = partition * _MAX_PAYLOADS
        called: set[int] = set()
        for chunk in _chunks(batches):
            if KEY_GROUP not in chunk.schema.names:
                yield from _for_all(chunk, sequence, group_ids)
                sequence += 1
                called.update(group_ids)
                continue
            refuse_null_keys(chunk, key_columns)
            result = _pack(chunk, sequence, group_ids)
            sequence += result.num_rows
            called.update(result.column(KEY_GROUP).to_pylist())
            yield result
        # The first task calls the registry even without records.  So at least one task always does,
        # and the operator writes its record.
        if called or partition == 0:
            groups = (at for at, number in enumerate(group_ids) if number in called)
            yield pack_rows([(REGISTRY_KEY, registry_payload(groups))])

    return packed


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join record batches of one schema into larger ones, for fewer and larger payloads."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        # The metadata names the input of an operator with several, so inputs never mix.
        if waiting and not batch.schema.equals(waiting[0].schema, check_metadata=True):
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
        if batch.num_rows:
            waiting.append(batch)
            size += batch.nbytes
        if size >= _MAX_BYTES:
            yield pa.concat_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.concat_batches(waiting)


def pack_rows(grouping_keys: Iterable[tuple[int, bytes]]) -> pa.RecordBatch:
    """Make the rows of grouping keys that are not key groups, each with its payload."""
    return PACKED_SCHEMA.batch((number, -1, payload) for number, payload in grouping_keys)


def _pack(chunk: pa.RecordBatch, sequence: int, group_ids: Sequence[int]) -> pa.RecordBatch:
    key_groups = _groups_of(chunk.column(KEY_GROUP), len(group_ids))
    records = chunk.drop_columns([KEY_GROUP])
    # Arrow's sort is stable: records of a key group keep their order of arrival.
    order = pc.sort_indices(key_groups)
    runs = pc.run_end_encode(key_groups.take(order))
    records = records.take(order)
    groups = runs.values.to_pylist()
    payloads = []
    start = 0
    for end in runs.run_ends.to_pylist():
        payloads.append(to_payload(records.slice(start, end - start)))
        start = end
    count = len(groups)
    return pa.RecordBatch.from_arrays(
        [
            pa.array([group_ids[group] for group in groups], pa.int32()),
            pa.array(range(sequence, sequence + count), pa.int64()),
            pa.array(payloads, pa.binary()),
        ],
        schema=PACKED_SCHEMA.arrow,
    )


def _groups_of(column: pa.Array, count: int) -> pa.Array:
    """Return the key groups of records; a hash becomes its remainder, as Spark's `pmod` does it."""
    if not pa.types.is_int64(column.type):
        return column
    rest = pc.subtract(column, pc.multiply(pc.divide(column, count), count))
    return pc.if_else(pc.less(rest, 0), pc.add(rest, count), rest)


def _for_all(
    chunk: pa.RecordBatch, sequence: int, group_ids: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Make a payload for each key group from records without a key group."""
    payload = to_payload(chunk)
    # A binary column of Arrow ends at 2 GiB, so many key groups need several record batches.
    count = max(1, _MAX_BYTES // len(payload))
    for start in range(0, len(group_ids), count):
        numbers = group_ids[start : start + count]
        yield PACKED_SCHEMA.batch((number, sequence, payload) for number in numbers)


def refuse_null_keys(chunk: pa.RecordBatch, key_columns: tuple[str, ...]) -> None:
    """Refuse records with a null key; in a key of several columns null is a value.

    Raises:
        StateValueError: A record has a null key.
    """
    if len(key_columns) != 1:
        return
    keys = chunk.column(key_columns[0])
    if keys.null_count:
        at = keys.is_null().index(True).as_py()
        record = {
            name: chunk.column(name)[at].as_py()
            for name in chunk.schema.names
            if name not in (KEY_GROUP, BATCH_TIME)
        }
        msg = (
            f"every record needs a key, got null in column {key_columns[0]!r} of {short_repr(record)}; "
            "filter such records out before key_by, or coalesce the column"
        )
        raise StateValueError(msg)


# Homes.  A home is a grouping key that is not a key group; each of Spark's partitions has one.
#
# Spark calls a home in every micro-batch, also if there is no data, and before the key groups,
# because it calls the grouping keys of a partition in ascending order.  The home keeps the state that
# all key groups of a partition share, the partition watermark: the watermark of the last micro-batch.
# An operator behind another one needs it, and Spark does not report it.  A key group cannot keep it,
# because Spark may not have called it in that micro-batch.
#
# A home must lie in its partition, and the hash of a grouping key decides its partition.  So the
# grouping keys of homes depend on the number of partitions.  The checkpoint fixes that number,
# whatever the session says at a restart, and Spark's tasks know it.

#
# Reassigned timestamps, behind an operator, make a watermark that Spark does not know.  Each task with
# such elements sends that watermark to all homes, beside the call of the first task.

_HOME = struct.Struct("<ii")
_REASSIGNED_WATERMARK = struct.Struct("<iq")
_OF_STATE = "spark.sql.streaming.internal.stateStore.partitions"
"""The number of partitions of a query's state in its checkpoint; Spark has it from 4.1 on."""
_OF_SESSION = "spark.sql.shuffle.partitions"
"""The same number in its session, which is less sure: a `foreachBatch` may set it for its joins."""


def is_home(grouping_key: int) -> bool:
    """Return whether a grouping key belongs to a home."""
    return grouping_key < REGISTRY_KEY


@lru_cache(maxsize=4)
def home_ids(partitions: int) -> tuple[int, ...]:
    """Find the grouping key of the home of each partition."""
    found: dict[int, int] = {}
    candidate = REGISTRY_KEY
    while len(found) < partitions:
        candidate -= 1
        found.setdefault(index_of(candidate, partitions), candidate)
    return tuple(found[partition] for partition in range(partitions))


def call_homes(packing: Packing, default: int) -> Packing:
    """Extend a packing so that the first task also calls every home.

    Args:
        packing: Packs the records of a task.
        default: The number of partitions to use if the task does not know it from Spark.
    """

    def called(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packing(batches)
        yield from _calls(default)

    return called


def _calls(default: int) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    # One task suffices, and every micro-batch has a first one.
    if context is None or context.partitionId() == 0:
        ids = home_ids(_partitions(context, default))
        yield pack_rows((key, _HOME.pack(at, len(ids))) for at, key in enumerate(ids))


def report_to_homes(assigner: int, watermark: int, default: int) -> list[tuple[int, bytes]]:
    """Return the grouping keys and payloads that send a watermark of reassigned timestamps to homes.

    Args:
        assigner: The number of the node that assigns the timestamps.
        watermark: The watermark in ms, or `MAX_WATERMARK` at the end.
        default: The number of partitions to use if the task does not know it from Spark.
    """
    payload = _REASSIGNED_WATERMARK.pack(assigner, watermark)
    return [(key, payload) for key in home_ids(_partitions(TaskContext.get(), default))]


def reassigned_watermarks_in(payloads: Iterable[bytes]) -> dict[int, int]:
    """Read the greatest watermark in ms that a home got from each node that assigns times."""
    found: dict[int, int] = {}
    for payload in payloads:
        if len(payload) == _REASSIGNED_WATERMARK.size:
            assigner, watermark = _REASSIGNED_WATERMARK.unpack(payload)
            found[assigner] = max(watermark, found.get(assigner, watermark))
    return found


def _partitions(context: TaskContext | None, default: int) -> int:
    return partitions_of_state(context) or _number_of(context, _OF_SESSION) or default


def partitions_of_state(context: TaskContext | None) -> int | None:
    """Return the number of partitions with which a query's checkpoint was begun.

    Args:
        context: The context of a task of the query; None if no task runs.

    Returns:
        The number; None if Spark does not report it.
    """
    return _number_of(context, _OF_STATE)


def _number_of(context: TaskContext | None, name: str) -> int | None:
    """Return a local property of a task that is a number, or None."""
    value = context.getLocalProperty(name) if context else None
    return int(value) if value and value.isdigit() else None


@attrs.frozen
class Home:
    """The home that Spark has called a task for.

    Args:
        partition: The partition of the home, from 0.
        partitions: The number of partitions, according to the task that called the home.
    """

    partition: int
    partitions: int

    @classmethod
    def of(cls, payloads: Iterable[bytes]) -> Home:
        """Read the payloads of a call of a home; all tasks that call it agree."""
        calls = (each for each in payloads if len(each) == _HOME.size)
        partition, partitions = _HOME.unpack(next(calls))
        return cls(partition, partitions)

    def check_holds(self, grouping_key: int) -> None:
        """Check that a grouping key of the task is in the home's partition.

        Raises:
            SparkSetupError: It is in another partition, so Spark called the home in the wrong task.
        """
        # The number of the task would not do: behind a union it differs from the partition's.
        found = index_of(grouping_key, self.partitions)
        if found != self.partition:
            msg = (
                "an operator behind another one keeps the former watermark in each of Spark's "
                f"partitions, got partition {self.partition} of {self.partitions} in one task with "
                f"partition {found}; set spark.sql.shuffle.partitions to the number that "
                "the checkpoint was begun with"
            )
            raise SparkSetupError(msg)
