# SPDX-License-Identifier: Apache-2.0
"""What leaves a stage, as Arrow batches: for a keyed operator, for a later stage, or for a sink.

On a stream the records of a key group are one payload, as `wire.packing` has it.  In a batch each
record is a row, which Spark sorts.  Behind the last keyed operator each parcel is a row for its sink.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa

from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.spark.jobs.parts import Record
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.object_keys import key_group_of_object
from pyflinklike.spark.wire.packing import PACKED_TYPE
from pyflinklike.spark.wire.parcels import Address, Parcel, dumped, passing, wrapped
from pyflinklike.spark.wire.roll_call import ROLL_CALL, roll_payload
from pyflinklike.spark.wire.watermarks import END_OF_INPUT

__all__ = [
    "MARKED_TYPE",
    "RESULT_TYPE",
    "ROW_TYPE",
    "BatchSender",
    "LastSender",
    "Sender",
    "StreamSender",
]

WATERMARK = "__watermark"
MARKED_TYPE = f"{PACKED_TYPE}, {WATERMARK} timestamp"
"""Packed rows of the first stage, with the watermark that they make in a last column."""
ROW_TYPE = f"{KEY_GROUP} int, time long, arrival long, parcel binary"
"""The records of a batch before they are sorted; what passes through has the key group -1."""
RESULT_TYPE = "output int, payload binary"
"""What keyed operators give to stages, and the last stage to sinks."""

_MAX_PAYLOADS = 1 << 32
_PACKED = pa.schema([(KEY_GROUP, pa.int32()), ("origin", pa.int64()), ("payload", pa.binary())])
_MARKED = _PACKED.append(pa.field(WATERMARK, pa.timestamp("us", tz="UTC")))
_ROWS = pa.schema(
    [
        (KEY_GROUP, pa.int32()),
        ("time", pa.int64()),
        ("arrival", pa.int64()),
        ("parcel", pa.binary()),
    ]
)
_RESULT = pa.schema([("output", pa.int32()), ("payload", pa.binary())])


class Sender(Protocol):
    """Makes Arrow batches of what leaves a stage in a task."""

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records."""

    def parcel(self, parcel: Parcel) -> None:
        """Take a parcel for another stage, which stays closed."""

    def take(self) -> Iterator[pa.RecordBatch]:
        """What was taken since the last time."""

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """What comes last.

        Args:
            watermark: That the task's records make, in ms.
        """


class _KeyGroups:
    """The key groups of records; those of keys seen before are known.

    Args:
        count: How many there are.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: dict[Hashable, int] = {}

    def of(self, key: Hashable) -> int:
        """The key group of a frozen key."""
        group = self._known.get(key)
        if group is None:
            group = self._known[key] = key_group_of_object(key, self._count)
        return group


class StreamSender:
    """For `transformWithState`.

    Args:
        following: The number of the keyed operator's node.
        group_ids: The grouping key of each key group.
        task: The number of this one.
        is_first: Whether the watermark is told.
    """

    def __init__(
        self, following: int, group_ids: Sequence[int], task: int, *, is_first: bool
    ) -> None:
        self._following, self._group_ids = following, group_ids
        self._groups = _KeyGroups(len(group_ids))
        self._task, self._sequence = task, task * _MAX_PAYLOADS
        self._is_first = is_first
        self._called: set[int] = set()
        self._rows: list[tuple[int, int, bytes]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records: a payload for each key group, if they are for the keyed operator."""
        if address.node != self._following:
            self.parcel(Parcel(address, dumped(records)))
            return
        of_groups: dict[int, list[Record]] = {}
        group_of = self._groups.of
        for record in records:
            of_groups.setdefault(group_of(record[0]), []).append(record)
        for group, mine in of_groups.items():
            self._add(group, wrapped(Parcel(address, dumped(mine)).to_bytes()))

    def parcel(self, parcel: Parcel) -> None:
        """Take a parcel, which passes through one of the key groups."""
        if parcel.address.node == self._following:
            self.records(parcel.address, parcel.records())
            return
        self._add(self._task % len(self._group_ids), passing(parcel.to_bytes()))

    def _add(self, group: int, payload: bytes) -> None:
        self._called.add(group)
        self._rows.append((self._group_ids[group], self._sequence, payload))
        self._sequence += 1

    def take(self) -> Iterator[pa.RecordBatch]:
        """The payloads so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            yield self._batch(rows, None)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:
        """The rest, and the roll call."""
        yield from self.take()
        if self._called or self._task == 0 or self._is_first:
            yield self._batch([(ROLL_CALL, -1, roll_payload(self._called))], watermark)

    def _batch(self, rows: list[tuple[int, int, bytes]], watermark: int | None) -> pa.RecordBatch:
        columns: list[Any] = [
            pa.array(column, kind) for column, kind in zip(zip(*rows), _PACKED.types)
        ]
        if not self._is_first:
            return pa.RecordBatch.from_arrays(columns, schema=_PACKED)
        columns.append(
            pa.array([_as_time(watermark)] * len(rows), pa.int64()).cast(_MARKED.types[-1])
        )
        return pa.RecordBatch.from_arrays(columns, schema=_MARKED)


def _as_time(watermark: int | None) -> int | None:
    """A watermark in microseconds, as Spark takes it; None for none, and before any event."""
    if watermark is None or watermark <= 0:
        return None
    return 1000 * (END_OF_INPUT if watermark == MAX_WATERMARK else watermark)


class BatchSender:
    """For a shuffle and a sort.

    Args:
        following: The number of the keyed operator's node.
        key_groups: How many there are.
        task: The number of this one.
    """

    def __init__(self, following: int, key_groups: int, task: int) -> None:
        self._following = following
        self._groups = _KeyGroups(key_groups)
        self._arrival = task * _MAX_PAYLOADS
        self._rows: list[tuple[int, int | None, int, bytes]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records, a row each if they are for the keyed operator."""
        if address.node != self._following:
            self.parcel(Parcel(address, dumped(records)))
            return
        group_of, position = self._groups.of, address.position
        for key, value, timestamp in records:
            cell = dumped([position, key, value])
            self._rows.append((group_of(key), timestamp, self._arrival, cell))
            self._arrival += 1

    def parcel(self, parcel: Parcel) -> None:
        """Take a parcel, which passes."""
        if parcel.address.node == self._following:
            self.records(parcel.address, parcel.records())
            return
        self._rows.append((-1, None, self._arrival, parcel.to_bytes()))
        self._arrival += 1

    def take(self) -> Iterator[pa.RecordBatch]:
        """The rows so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            columns = [pa.array(column, kind) for column, kind in zip(zip(*rows), _ROWS.types)]
            yield pa.RecordBatch.from_arrays(columns, schema=_ROWS)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The rest."""
        yield from self.take()


class LastSender:
    """For sinks: each row is the number of a sink and a pickle of records."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, bytes]] = []

    def records(self, address: Address, records: list[Record]) -> None:
        """Take records."""
        self.parcel(Parcel(address, dumped(records)))

    def parcel(self, parcel: Parcel) -> None:
        """Take a parcel."""
        self._rows.append((parcel.address.node, parcel.contents))

    def take(self) -> Iterator[pa.RecordBatch]:
        """The rows so far."""
        if self._rows:
            rows, self._rows = self._rows, []
            columns = [pa.array(column, kind) for column, kind in zip(zip(*rows), _RESULT.types)]
            yield pa.RecordBatch.from_arrays(columns, schema=_RESULT)

    def end(self, watermark: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        """The rest."""
        yield from self.take()
