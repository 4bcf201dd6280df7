# SPDX-License-Identifier: Apache-2.0
"""The outputs of a stage as Arrow record batches: for keyed operators, later stages and sinks.

There is one sender for each kind of stage.  On a stream all records of a key group are one payload
(`StreamSender`).  In a batch each record is a row, which Spark sorts (`BatchSender`).  In the last stage each
stage record is a row for its sink (`LastSender`); tasks write the sinks of files themselves, and the driver only
makes the files visible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark import TaskContext

from pyflinklike.pyflink._graph.job_metrics import Count
from pyflinklike.pyflink._graph.nodes import ToSink
from pyflinklike.pyflink._graph.sinks import Renaming, SinkWriter
from pyflinklike.pyflink._spark.stage_operators import Record
from pyflinklike.pyflink._spark.stages import COUNTS
from pyflinklike.pyflink._spark.watermark_feed import mark_rows, pack_rows
from pyflinklike.spark._wire.key_groups import (
    first_of,
    group_ids,
    registry_key_of,
    registry_payload,
)
from pyflinklike.spark._wire.payloads import report_to_homes
from pyflinklike.spark._wire.schema import WireSchema
from pyflinklike.spark._wire.stage_records import (
    CALL,
    Address,
    StageRecord,
    dump,
    wrap,
    wrap_to_pass,
)
from pyflinklike.spark._wire.system_columns import KEY_GROUP
from pyflinklike.types.frozen_keys import key_group_of

__all__ = [
    "BROADCAST",
    "COUNTED_RESULT_SCHEMA",
    "RESULT_SCHEMA",
    "ROW_SCHEMA",
    "BatchSender",
    "LastSender",
    "NextOperator",
    "Outlets",
    "Sender",
    "Spread",
    "StreamSender",
    "by_key",
    "in_turn",
]


ROW_SCHEMA = WireSchema(
    pa.schema(
        [
            (KEY_GROUP, pa.int32()),
            ("time", pa.int64()),
            ("arrival", pa.int64()),
            ("parcel", pa.binary()),
        ]
    )
)
"""The records of a batch before Spark sorts them.  Key groups are counted from the first number that belongs to
the index of their operator; stage records that only pass have -1."""
RESULT_SCHEMA = WireSchema(pa.schema([("output", pa.int32()), ("payload", pa.binary())]))
"""The outputs of keyed operators for stages, and of the last stage for sinks."""
_COUNT_TYPES = (pa.string(), pa.string(), pa.string(), pa.int64())
COUNTED_RESULT_SCHEMA = RESULT_SCHEMA.and_also(
    ("counts", pa.list_(pa.struct(list(zip(Count._fields, _COUNT_TYPES)))))
)
"""The same for a last stage whose functions report metrics."""

_MAX_PAYLOADS = 1 << 32  # a task numbers its payloads below the numbers of the next task
_AFTER_ALL = 1 << 62
"""More than any arrival.  It is subtracted from the arrivals of broadcast elements, so that they come first."""


class Sender(Protocol):
    """Makes record batches from the outputs of a stage in one task."""

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records."""

    def parcel(self, parcel: StageRecord) -> None:
        """Take a stage record that may be for a later stage; then it is not opened."""

    def tell(self, assigner: int, watermark: int) -> None:
        """Report to the operators after this stage a watermark, in ms, of reassigned timestamps.

        Args:
            assigner: The number of the node that has assigned them.
            watermark: The watermark, in ms.
        """

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield all that was taken since the last call."""

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yield the last record batches of the task.

        Args:
            watermark: The watermark of the task's records, in ms.
        """

    def abandon(self) -> None:
        """Remove what is not visible yet: the task has failed."""


@attrs.frozen
class NextOperator:
    """A keyed operator after a stage, as the sender of one task needs it.

    Args:
        node: The number of the operator's node.
        place: The operator index, among the operators that share its state operator.
        spread: Divides records among key groups.
        key_groups: The number of key groups.
        has_broadcast: Whether the second input goes to all key groups.
        calls_all_key_groups: Whether all key groups are called in every micro-batch.
    """

    node: int
    place: int
    spread: Spread
    key_groups: int
    has_broadcast: bool
    calls_all_key_groups: bool = False

    def is_broadcast(self, address: Address) -> bool:
        """Return whether all key groups get the records of an address."""
        return self.has_broadcast and address.position == BROADCAST

    def parts(self, address: Address, records: list[Record]) -> Iterable[Part]:
        """Return the key groups, each with its records."""
        if self.is_broadcast(address):
            return [(range(self.key_groups), records)]
        return self.spread(records)


class StreamSender:
    """Sends to operators on a stream: payloads for `transformWithState`.

    Args:
        following: The keyed operators, in the order of their indexes.
        task: The number of this task.
        tasks: The number of tasks.
        is_first: True for the first stage, whose rows carry the watermark.
    """

    def __init__(
        self, following: Sequence[NextOperator], task: int, tasks: int, *, is_first: bool
    ) -> None:
        self._tasks = tasks
        self._following = {each.node: each for each in following}
        self._task, self._sequence = task, task * _MAX_PAYLOADS
        self._is_first = is_first
        self._called: dict[int, set[int]] = {each.node: set() for each in following}
        self._rows: list[tuple[int, int, bytes]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records; if a keyed operator comes next, they become a payload for each key group."""
        following = self._following.get(address.node)
        if following is None:
            self.parcel(StageRecord(address, dump(records)))
            return
        for groups, mine in following.parts(address, records):
            payload = wrap(StageRecord(address, dump(mine)).to_bytes())
            for group in groups:
                self._add(following, group, payload)

    def parcel(self, parcel: StageRecord) -> None:
        """Take a stage record; if it is for a later stage, it passes through any key group."""
        if parcel.address.node in self._following:
            self.records(parcel.address, parcel.records())
            return
        # Another key group in each task, so that such records are spread over the next tasks.
        first = next(iter(self._following.values()))
        self._add(first, self._task % first.key_groups, wrap_to_pass(parcel.to_bytes()))

    def tell(self, assigner: int, watermark: int) -> None:
        """Report a watermark to all partition watermarks of the next state operator."""
        reports = report_to_homes(assigner, watermark, self._tasks)
        self._rows += [(key, -1, payload) for key, payload in reports]

    def _add(self, following: NextOperator, group: int, payload: bytes) -> None:
        self._called[following.node].add(group)
        group_id = group_ids(following.key_groups, following.place)[group]
        self._rows.append((group_id, self._sequence, payload))
        self._sequence += 1

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the payloads so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield self._batch(rows, None)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yield the rest, and the registries of the key groups that get payloads."""
        # After an operator the first task runs in every micro-batch.  Before the first operator the driver ticks.
        if self._task == 0 and not self._is_first:
            self._tick()
        yield from self.take()
        registries = [
            (registry_key_of(each.place), -1, registry_payload(self._called[each.node]))
            for each in self._following.values()
            if self._called[each.node] or self._task == 0 or (self._is_first and each.place == 0)
        ]
        if registries:
            yield self._batch(registries, watermark)

    def _tick(self) -> None:
        """Call all key groups whose timers may be due, with no records."""
        for each in self._following.values():
            if each.calls_all_key_groups:
                ids = group_ids(each.key_groups, each.place)
                self._rows += [(group_id, -1, CALL) for group_id in ids]

    def abandon(self) -> None:
        """Do nothing: Spark drops the packed records of a task that has failed."""

    def _batch(self, rows: list[tuple[int, int, bytes]], watermark: int | None) -> pa.RecordBatch:
        return mark_rows(rows, watermark) if self._is_first else pack_rows(rows)


class BatchSender:
    """Sends to operators in a batch: rows for a shuffle and a sort.

    Args:
        following: The keyed operators, in the order of their indexes.
        task: The number of this task.
    """

    def __init__(self, following: Sequence[NextOperator], task: int) -> None:
        self._following = {each.node: each for each in following}
        self._arrival = task * _MAX_PAYLOADS
        self._rows: list[tuple[int, int | None, int, bytes]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records; if a keyed operator comes next, each becomes a row."""
        following = self._following.get(address.node)
        if following is None:
            self.parcel(StageRecord(address, dump(records)))
            return
        if following.is_broadcast(address):
            self._broadcast(following, records)
            return
        # Operators that share a shuffle have ranges of key groups, one after the other.
        position, first = address.position, first_of(following.place)
        for groups, mine in following.spread(records):
            for key, value, timestamp in mine:
                cell = dump([position, key, value])
                self._rows += [(first + group, timestamp, self._arrival, cell) for group in groups]
                self._arrival += 1

    def _broadcast(self, following: NextOperator, records: list[Record]) -> None:
        """Send broadcast elements so that they come before all others, in their order of arrival."""
        first = first_of(following.place)
        groups = range(first, first + following.key_groups)
        for _, value, timestamp in records:
            cell = dump([BROADCAST, timestamp, value])
            arrival = self._arrival - _AFTER_ALL
            self._rows += [(group, None, arrival, cell) for group in groups]
            self._arrival += 1

    def parcel(self, parcel: StageRecord) -> None:
        """Take a stage record; if it is for a later stage, it passes unopened."""
        if parcel.address.node in self._following:
            self.records(parcel.address, parcel.records())
            return
        self._rows.append((-1, None, self._arrival, parcel.to_bytes()))
        self._arrival += 1

    def tell(self, assigner: int, watermark: int) -> None:
        """Do nothing: in a batch the watermark comes at the end."""

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield ROW_SCHEMA.batch(rows)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the rest."""
        yield from self.take()

    def abandon(self) -> None:
        """Do nothing: Spark drops the packed records of a task that has failed."""


class LastSender:
    """Sends to sinks: each row is the number of a sink and a pickle.

    The pickle is of records, or of the renamings that make the files of this task visible.

    Args:
        outlets: The sinks that this task writes itself.
        has_counts: Whether counts of functions have a column of their own; else they are rows.
    """

    def __init__(self, outlets: TaskOutlets, *, has_counts: bool = False) -> None:
        self._outlets = outlets
        self._has_counts = has_counts
        self._schema = COUNTED_RESULT_SCHEMA if has_counts else RESULT_SCHEMA
        self._rows: list[tuple[int, bytes]] = []
        self._counts: list[tuple[Any, ...]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Write records, if tasks write their sink, or take them."""
        if self._outlets.take(address.node):
            self._outlets.write(address.node, records)
        else:
            self._rows.append((address.node, dump(records)))

    def parcel(self, parcel: StageRecord) -> None:
        """Write the records of a stage record, if tasks write their sink, or take it unopened."""
        if parcel.address.node == COUNTS and self._has_counts:
            self._counts += parcel.records()
        elif self._outlets.take(parcel.address.node):
            self._outlets.write(parcel.address.node, parcel.records())
        else:
            self._rows.append((parcel.address.node, parcel.contents))

    def tell(self, assigner: int, watermark: int) -> None:
        """Do nothing: sinks need no watermark."""

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            # The last cell is for counts; a schema without counts leaves it out.
            yield self._schema.batch((*row, None) for row in rows)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the rest, and the renamings of written files."""
        self._rows += self._outlets.end()
        yield from self.take()
        if self._counts:
            fields = [dict(zip(Count._fields, each)) for each in self._counts]
            yield self._schema.batch([(COUNTS, None, fields)])

    def abandon(self) -> None:
        """Remove what is not visible yet: the task has failed."""
        self._outlets.abandon()


_BATCH = "streaming.sql.batchId"
"""The local property of Spark's tasks with the number of their micro-batch."""


@attrs.frozen
class Outlets:
    """The sinks that tasks write.

    Args:
        sinks: All sinks of the job; sinks that the driver writes are left alone.
        name: The prefix of file names, which no other job or run uses.
        parallelism: The parallelism of the job; None if it sets none.
    """

    sinks: tuple[ToSink, ...] = ()
    name: str = ""
    parallelism: int | None = None

    def open(self, task: int) -> TaskOutlets:
        """Return the sinks for the task of this number."""
        # A batch has no such number, and no file of an earlier run to be confused with.
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH) if context else None
        name = self.name if batch is None else f"{self.name}-{batch}"
        return TaskOutlets(self, f"{name}-{task}", task)


class TaskOutlets:
    """The sinks as one task writes them; each is opened when its first records come.

    Args:
        name: The prefix of the task's files.
        task: The number of the task.
    """

    def __init__(self, outlets: Outlets, name: str, task: int) -> None:
        self._outlets, self._name, self._task = outlets, name, task
        sinks = enumerate(outlets.sinks)
        self._nodes = {node.id: (at, node) for at, node in sinks if node.sink.is_written_by_tasks}
        self._writers: dict[int, SinkWriter] = {}

    def take(self, number: int) -> bool:
        """Return whether tasks write the sink of this node's number."""
        return number in self._nodes

    def write(self, number: int, records: list[Any]) -> None:
        """Write records to the sink of this node's number; their keys are left out."""
        writer = self._writers.get(number) or self._begin(number)
        for _, value, timestamp in records:
            writer.write(value, timestamp)

    def _begin(self, number: int) -> SinkWriter:
        at, node = self._nodes[number]
        count = node.parallelism or self._outlets.parallelism or 1
        name = f"{self._name}-{at}"
        writer = node.sink.writer(self._task, count, node.type_info, name)
        self._writers[number] = writer
        return writer

    def end(self) -> Iterator[tuple[int, bytes]]:
        """Finish the files; yield for each sink a pickle of the `Renaming`s that make them visible."""
        for number, writer in self._writers.items():
            renamings: list[Renaming] = writer.prepare()
            if renamings:
                yield number, dump(renamings)

    def abandon(self) -> None:
        """Remove the files: the task has failed."""
        for writer in self._writers.values():
            writer.abandon()


BROADCAST = 1
"""The position of the broadcast input of an operator."""

Part = tuple[Iterable[int], list[Record]]
"""Key groups, and the records that each of them gets."""

Spread = Callable[[list[Record]], Iterator[Part]]


def by_key(count: int) -> Spread:
    """Return the `Spread` that sends records to the key groups of their frozen keys.

    Args:
        count: The number of key groups.
    """
    # The key group of a key is computed once in a task: it costs an encoding and a checksum.
    known: dict[Hashable, int] = {}

    def spread(records: list[Record]) -> Iterator[Part]:
        of_groups: dict[int, list[Record]] = {}
        for record in records:
            group = known.get(record[0])
            if group is None:
                group = known[record[0]] = key_group_of(record[0], count)
            of_groups.setdefault(group, []).append(record)
        return (((group,), mine) for group, mine in of_groups.items())

    return spread


def in_turn(count: int, start: int) -> Spread:
    """Return the `Spread` that sends records without keys to the key groups in turn.

    Args:
        count: The number of key groups.
        start: The key group of the first record.
    """
    dealt = start

    def spread(records: list[Record]) -> Iterator[Part]:
        nonlocal dealt
        first, dealt = dealt, dealt + len(records)
        mine = (((first + at) % count, records[at::count]) for at in range(count))
        return (((group,), some) for group, some in mine if some)

    return spread
