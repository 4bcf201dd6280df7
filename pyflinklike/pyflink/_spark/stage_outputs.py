# SPDX-License-Identifier: Apache-2.0
"""The outputs of a stage as Arrow record batches: for keyed operators, later stages and sinks.

There is one sender for each kind of stage.  On a stream all records of a key group are one payload
(`StreamSender`).  In a batch each record is a row, which Spark sorts (`BatchSender`).  In the last stage each
stage record is a row for its sink (`LastSender`); tasks write the sinks of files themselves, and the driver only
makes the files visible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark import TaskContext

from pyflinklike.pyflink._graph.job_run import Count
from pyflinklike.pyflink._graph.nodes import ToSink
from pyflinklike.pyflink._graph.sinks import SinkWriter
from pyflinklike.pyflink._spark.stages import COUNTS
from pyflinklike.pyflink._spark.watermark_feed import mark_rows
from pyflinklike.spark._wire.key_groups import (
    first_of,
    group_ids,
    registry_key_of,
    registry_payload,
)
from pyflinklike.spark._wire.payloads import PACKED_SCHEMA, report_to_homes
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

Record = tuple[Any, Any, "int | None"]
"""A key, an element and its time in ms."""


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


@attrs.frozen
class Target:
    """A keyed operator after a stage.

    Args:
        node: The number of the operator's node.
        place: The operator index, among the operators that share its state operator.
        key_groups: The number of key groups.
        has_keys: Whether elements have keys; otherwise they go to key groups in turn.
        has_broadcast: Whether the second input of the operator goes to all key groups.
        calls_all_key_groups: Whether its key groups are called in every micro-batch.
        reassigner: The number of the node that reassigns timestamps before the operator, or None.
    """

    node: int
    place: int
    key_groups: int
    has_keys: bool = True
    has_broadcast: bool = False
    calls_all_key_groups: bool = attrs.field(default=False, kw_only=True)
    reassigner: int | None = attrs.field(default=None, kw_only=True)

    def is_broadcast(self, address: Address) -> bool:
        """Return whether all key groups get the records of an address."""
        return self.has_broadcast and address.position == BROADCAST


class Sender:
    """Makes record batches from the outputs of a stage in one task.

    Args:
        targets: The keyed operators after the stage, in the order of their indexes.
        task: The number of the task.
    """

    def __init__(self, targets: Sequence[Target], task: int) -> None:
        self._targets = {each.node: each for each in targets}
        self._spreads = {
            each.node: _by_key(each.key_groups)
            if each.has_keys
            else _in_turn(each.key_groups, task)
            for each in targets
        }
        self._task = task
        self._number = task * _MAX_PAYLOADS
        self._rows: list[Any] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records."""
        target = self._targets.get(address.node)
        if target is None:
            self._pass_on(StageRecord(address, dump(records)))
        else:
            self._send(target, address, records)

    def parcel(self, parcel: StageRecord) -> None:
        """Take a stage record that may be for a later stage; then it is not opened."""
        target = self._targets.get(parcel.address.node)
        if target is None:
            self._pass_on(parcel)
        else:
            self._send(target, parcel.address, parcel.records())

    def tell(self, assigner: int, watermark: int) -> None:
        """Report to the operators after this stage a watermark, in ms, of reassigned timestamps.

        Only operators on a stream need it: in a batch the watermark comes at the end, and sinks have no timers.

        Args:
            assigner: The number of the node that has assigned them.
            watermark: The watermark, in ms.
        """

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield all that was taken since the last call."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield self._batch(rows)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """Yield the last record batches of the task.

        Args:
            watermark: The watermark of the task's records, in ms.
        """
        yield from self.take()

    def abandon(self) -> None:
        """Remove what is not visible yet: the task has failed.  Spark itself drops packed records."""

    def _send(self, target: Target, address: Address, records: list[Record]) -> None:
        """Take records for the operator that comes next."""
        raise NotImplementedError

    def _pass_on(self, parcel: StageRecord) -> None:
        """Take a stage record for a later stage, unopened."""
        raise NotImplementedError

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        raise NotImplementedError


class StreamSender(Sender):
    """Sends to operators on a stream: payloads for `transformWithState`.

    Args:
        targets: The keyed operators, in the order of their indexes.
        task: The number of this task.
        tasks: The number of tasks.
        is_first: True for the first stage, whose rows carry the watermark.
    """

    def __init__(self, targets: Sequence[Target], task: int, tasks: int, *, is_first: bool) -> None:
        super().__init__(targets, task)
        self._tasks, self._is_first = tasks, is_first
        self._called: dict[int, set[int]] = {each.node: set() for each in targets}

    def tell(self, assigner: int, watermark: int) -> None:
        """Report a watermark to all partition watermarks of the next state operator."""
        reports = report_to_homes(assigner, watermark, self._tasks)
        self._rows += [(key, -1, payload) for key, payload in reports]

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yield the rest, and the registries of the key groups that get payloads."""
        # After an operator the first task runs in every micro-batch.  Before the first operator the driver ticks.
        if self._task == 0 and not self._is_first:
            self._tick()
        yield from self.take()
        registries = [
            (registry_key_of(each.place), -1, registry_payload(self._called[each.node]))
            for each in self._targets.values()
            if self._called[each.node] or self._task == 0 or (self._is_first and each.place == 0)
        ]
        if registries:
            yield self._batch(registries, watermark)

    def _send(self, target: Target, address: Address, records: list[Record]) -> None:
        """Take records as a payload for each key group."""
        if target.is_broadcast(address):
            payload = wrap(StageRecord(address, dump(records)).to_bytes())
            for group in range(target.key_groups):
                self._add(target, group, payload)
            return
        for group, mine in self._spreads[target.node](records):
            self._add(target, group, wrap(StageRecord(address, dump(mine)).to_bytes()))

    def _pass_on(self, parcel: StageRecord) -> None:
        # Another key group in each task, so that such records are spread over the next tasks.
        first = next(iter(self._targets.values()))
        self._add(first, self._task % first.key_groups, wrap_to_pass(parcel.to_bytes()))

    def _add(self, target: Target, group: int, payload: bytes) -> None:
        self._called[target.node].add(group)
        group_id = group_ids(target.key_groups, target.place)[group]
        self._rows.append((group_id, self._number, payload))
        self._number += 1

    def _tick(self) -> None:
        """Call all key groups whose timers may be due, with no records."""
        for each in self._targets.values():
            if each.calls_all_key_groups:
                ids = group_ids(each.key_groups, each.place)
                self._rows += [(group_id, -1, CALL) for group_id in ids]

    def _batch(self, rows: list[Any], watermark: int | None = None) -> pa.RecordBatch:
        return mark_rows(rows, watermark) if self._is_first else PACKED_SCHEMA.batch(rows)


class BatchSender(Sender):
    """Sends to operators in a batch: rows for a shuffle and a sort, one for each record."""

    def _send(self, target: Target, address: Address, records: list[Record]) -> None:
        # Operators that share a shuffle have ranges of key groups, one after the other.
        first = first_of(target.place)
        if target.is_broadcast(address):
            # They come before all others, in their order of arrival.
            groups = range(first, first + target.key_groups)
            for _, value, timestamp in records:
                cell, arrival = dump([BROADCAST, timestamp, value]), self._number - _AFTER_ALL
                self._rows += [(group, None, arrival, cell) for group in groups]
                self._number += 1
            return
        for group, mine in self._spreads[target.node](records):
            for key, value, timestamp in mine:
                cell = dump([address.position, key, value])
                self._rows.append((first + group, timestamp, self._number, cell))
                self._number += 1

    def _pass_on(self, parcel: StageRecord) -> None:
        self._rows.append((-1, None, self._number, parcel.to_bytes()))
        self._number += 1

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        return ROW_SCHEMA.batch(rows)


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

    def name_for(self, task: int) -> str:
        """Return the prefix of the files of a task."""
        # A batch has no such number, and no file of an earlier run to be confused with.
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH) if context else None
        return f"{self.name}-{task}" if batch is None else f"{self.name}-{batch}-{task}"


class LastSender(Sender):
    """Sends to sinks: each row is the number of a sink and a pickle.

    The pickle is of records, or of the renamings that make the files of this task visible.

    Args:
        outlets: The sinks that this task writes itself; each is opened when its first records come.
        task: The number of this task.
        has_counts: Whether counts of functions have a column of their own; else they are rows.
    """

    def __init__(self, outlets: Outlets, task: int, *, has_counts: bool = False) -> None:
        super().__init__((), task)
        self._outlets, self._name = outlets, outlets.name_for(task)
        sinks = enumerate(outlets.sinks)
        self._own = {node.id: (at, node) for at, node in sinks if node.sink.is_written_by_tasks}
        self._writers: dict[int, SinkWriter] = {}
        self._has_counts = has_counts
        self._schema = COUNTED_RESULT_SCHEMA if has_counts else RESULT_SCHEMA
        self._counts: list[tuple[Any, ...]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Write records, if tasks write their sink, or take them."""
        if address.node in self._own:
            self._write(address.node, records)
        else:
            self._rows.append((address.node, dump(records)))

    def _pass_on(self, parcel: StageRecord) -> None:
        if parcel.address.node == COUNTS and self._has_counts:
            self._counts += parcel.records()
        elif parcel.address.node in self._own:
            self._write(parcel.address.node, parcel.records())
        else:
            self._rows.append((parcel.address.node, parcel.contents))

    def _write(self, number: int, records: list[Any]) -> None:
        """Write records to the sink of this node's number; their keys are left out."""
        writer = self._writers.get(number)
        if writer is None:
            at, node = self._own[number]
            count, name = node.parallelism or self._outlets.parallelism or 1, f"{self._name}-{at}"
            writer = node.sink.writer(self._task, count, node.type_info, name)
            self._writers[number] = writer
        for _, value, timestamp in records:
            writer.write(value, timestamp)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """Yield the rest, and the renamings of written files."""
        for number, writer in self._writers.items():
            renamings = writer.prepare()
            if renamings:
                self._rows.append((number, dump(renamings)))
        yield from super().end(watermark)
        if self._counts:
            fields = [dict(zip(Count._fields, each)) for each in self._counts]
            yield self._schema.batch([(COUNTS, None, fields)])

    def abandon(self) -> None:
        """Remove the files: the task has failed."""
        for writer in self._writers.values():
            writer.abandon()

    def _batch(self, rows: list[Any]) -> pa.RecordBatch:
        # The last cell is for counts; a schema without counts leaves it out.
        return self._schema.batch((*row, None) for row in rows)


BROADCAST = 1
"""The position of the broadcast input of an operator."""

Spread = Callable[[list[Record]], Iterable[tuple[int, list[Record]]]]
"""Divides records among key groups."""


def _by_key(count: int) -> Spread:
    """Return the `Spread` that sends records to the key groups of their frozen keys.

    Args:
        count: The number of key groups.
    """
    # The key group of a key is computed once in a task: it costs an encoding and a checksum.
    known: dict[Hashable, int] = {}

    def spread(records: list[Record]) -> Iterable[tuple[int, list[Record]]]:
        of_groups: dict[int, list[Record]] = {}
        for record in records:
            group = known.get(record[0])
            if group is None:
                group = known[record[0]] = key_group_of(record[0], count)
            of_groups.setdefault(group, []).append(record)
        return of_groups.items()

    return spread


def _in_turn(count: int, start: int) -> Spread:
    """Return the `Spread` that sends records without keys to the key groups in turn.

    Args:
        count: The number of key groups.
        start: The key group of the first record.
    """
    dealt = start

    def spread(records: list[Record]) -> Iterable[tuple[int, list[Record]]]:
        nonlocal dealt
        first, dealt = dealt, dealt + len(records)
        mine = (((first + at) % count, records[at::count]) for at in range(count))
        return ((group, some) for group, some in mine if some)

    return spread
