# SPDX-License-Identifier: Apache-2.0
"""Stores whose entries have a time: stream time, and the time segments of window and session stores.

Stream time is the progress of the events that a store saw, which decides what is expired:

| mode        | stream time is                                                          |
|-------------|-------------------------------------------------------------------------|
| `key`       | the largest time put under the current key                              |
| `partition` | the largest time put in the key group, by any key, as Kafka's per task  |
| `watermark` | the largest watermark seen; the end of a bounded input is ignored       |

It is an entry of a table and never the wall clock, so a restored store decides as the original.

An entry of a window or session store belongs to a *segment*: time is divided into segments of equal length.  The
user key of an entry begins with the number of its segment.  Then come the key and the numbers that
distinguish the entry from others of the key:

    segment | key | time | ...

Bytes sort in this order, so two things are fast.  The entries of one key are neighbours within a
segment, and only a few segments are alive.  Expired entries come first in the table, so cleanup
reads from the front and stops where live segments begin.

An entry is expired if its time is `<= stream time - retention`.  Reads never show an expired entry,
deleted or not.  Cleanup deletes expired entries each time that stream time has moved on by a
sixteenth of the retention.

The length of segments follows from `retention` and `segments`.  Each key group notes it (`LAYOUT`).
If it has changed, the entries are moved to their new segments.  Kafka Streams has the same idea in
[AbstractSegments](https://github.com/apache/kafka/blob/trunk/streams/src/main/java/org/apache/kafka/streams/state/internals/AbstractSegments.java).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.state.table import LAYOUT, MISSING, Entry, Table, stream_time_kind
from pyflinklike.stores.state_store import LOG, StateStore, StoreContext
from pyflinklike.stores.store_codec import INT_SIZE, LAST, encode_int, read_int
from pyflinklike.stores.store_descriptors import ExpiringStoreDescriptor, TimedStoreDescriptor
from pyflinklike.stores.store_records import TimeLike, to_instant
from pyflinklike.types import Types

Found = tuple[bytes, Entry]

_SWEEPS_PER_RETENTION = 16
_PEEK = 16
_FEW = 8


class TimedStore(StateStore):
    """The base of the stores whose entries have a time."""

    def __init__(self, descriptor: TimedStoreDescriptor) -> None:
        super().__init__(descriptor)
        self.dropped_records = 0
        """The number of writes to this instance that came too late."""
        self._mode = descriptor.stream_time
        self._latest: Table

    def _open_tables(self, context: StoreContext) -> None:
        self._clock = context.clock
        kind, per_group = stream_time_kind(self._mode), self._mode != "key"
        self._latest = self._single("time", Types.LONG(), kind=kind, per_group=per_group)

    @property
    def observed_stream_time(self) -> int | None:
        """The stream time in ms that decides what is expired; None before the first write."""
        self._ready()
        return self._now()

    def _now(self) -> int | None:
        """Return the stream time in ms; None before the first event or watermark."""
        stored: Any = self._latest.get(None)
        now = None if stored is MISSING else stored
        watermark = self._clock.watermark
        if self._mode == "watermark" and MIN_WATERMARK < watermark < MAX_WATERMARK:
            return self._move(now, watermark)
        return now

    def _advance(self, time: int) -> int | None:
        """Return the stream time after an event of this time."""
        now = self._now()
        return now if self._mode == "watermark" else self._move(now, time)

    def _move(self, now: int | None, time: int) -> int:
        if now is None or time > now:
            self._latest.put(None, time)
            return time
        return now

    def _skip(self, message: str, *values: Any) -> None:
        """Count and log a write that came too late."""
        self.dropped_records += 1
        level = LOG.warning if self.dropped_records == 1 else LOG.debug
        level(message, self._name, *values)

    def _instant(self, time: TimeLike, what: str = "a time") -> int:
        return to_instant(time, f"store {self._name!r}: {what}")

    def _bound(self, time: TimeLike | None, what: str = "a bound") -> int | None:
        return None if time is None else self._instant(time, what)


class SegmentedStore(TimedStore):
    """The base of the stores whose entries lie in time segments and expire."""

    _expires_by = "time"
    # How many numbers follow the key in a user key; the first of them is the time that expires.
    _numbers = 1

    def __init__(self, descriptor: ExpiringStoreDescriptor) -> None:
        super().__init__(descriptor)
        self.retention: int = descriptor.retention
        """How long entries live in stream time, in ms."""
        self.segments: int = descriptor.segments
        """About how many segments have live entries."""
        self.on_late: Callable[[Any, Any, int], object] | None = None
        """Called with key, value and time of a write that came too late; set it in `open`."""
        self._width = descriptor.segment_width
        # Whether only the current key moves the stream time.
        self._has_own_time = self._mode == descriptor.scope
        self._layout: Table

    def _open_tables(self, context: StoreContext) -> None:
        super()._open_tables(context)
        self._layout = self._single("layout", Types.LONG(), per_group=True, kind=LAYOUT)

    def drop_expired(self) -> None:
        """Delete the expired entries of every key of the group."""
        context = self._ready()
        for key in self._each_key():
            with context.under(key):
                expired = self._expiry_bound()
                if expired is not None:
                    self._sweep(expired)

    def arrange(self) -> None:
        """Move the entries of the current key group to the segments declared now."""
        self._ready()
        self._check_layout()

    # Writing

    def _admit(self, time: int) -> bool:
        """Advance stream time by a write, clean up, and return whether the write is in time."""
        self._check_layout()
        former = self._now()
        now = self._advance(time)
        if now is None:
            return True
        expired = now - self.retention
        self._clean(expired, None if former is None else former - self.retention)
        return time > expired

    def _drop(self, key: Any, value: Any, time: int) -> None:
        message = "store %r: skipped a record for an expired segment, %s %r, stream time %r"
        self._skip(message, self._expires_by, time, self._now())
        if self.on_late is not None:
            self.on_late(key, value, time)

    def _clean(self, expired: int, former: int | None) -> None:
        if not self._has_own_time:
            # Other keys move the time, too, so clean up a little at each write of this key.
            self._sweep(expired, limit=_PEEK)
            return
        step = max(1, self.retention // _SWEEPS_PER_RETENTION)
        if former is not None and expired // step != former // step:
            self._sweep(expired)

    def _sweep(self, expired: int, limit: int | None = None) -> None:
        """Delete entries whose time is `<= expired`; with a limit, look only at so many."""
        end = encode_int(expired // self._width + 1)
        at = -self._numbers * INT_SIZE
        for user_key, _ in self._table.range(end=end, limit=limit):
            if read_int(user_key, at) <= expired:
                # Do not log this as a change, because readers of the changelog expire by
                # themselves.
                self._table.delete(user_key)

    def _time_of(self, user_key: bytes) -> int:
        return read_int(user_key, -self._numbers * INT_SIZE)

    def _key_of(self, user_key: bytes) -> Any:
        return self._codec.decode(user_key, INT_SIZE)[0]

    def _at(self, key: bytes, time: int, *more: int) -> bytes:
        """Return the user key of an entry."""
        segment = encode_int(time // self._width)
        return segment + key + b"".join(map(encode_int, (time, *more)))

    def _check_layout(self) -> None:
        # Checked at each access and not at `open`, because each key group notes its own width.
        width = self._layout.get(None)
        if width == self._width:
            return
        if width is not MISSING:
            self._rearrange()
        self._layout.put(None, self._width)

    def _rearrange(self) -> None:
        """Move the entries of all keys of the group to segments of the new width."""
        context = self._ready()
        for key, user_key, entry in list(self._table.scan()):
            with context.under(key):
                self._table.delete(user_key)
                segment = encode_int(self._time_of(user_key) // self._width)
                self._table.put(segment + user_key[INT_SIZE:], entry)

    # Reading

    def _expiry_bound(self) -> int | None:
        """Return the latest expired time, in ms."""
        self._check_layout()
        now = self._now()
        return None if now is None else now - self.retention

    def _clip(self, time_from: int | None) -> int | None:
        """Return the first time of a read from `time_from` on that is not expired."""
        expired = self._expiry_bound()
        if expired is None:
            return time_from
        return expired + 1 if time_from is None else max(time_from, expired + 1)

    def _of_key(
        self, key: bytes, time_from: int | None, time_to: int | None, *, reverse: bool
    ) -> list[Found]:
        """Return the entries of one key, by time."""
        time_from = self._clip(time_from)
        found: list[Found] = []
        for segment in self._segments(time_from, time_to, reverse=reverse):
            prefix = encode_int(segment) + key
            begin = prefix if time_from is None else prefix + encode_int(time_from)
            end = prefix + (LAST if time_to is None else encode_int(time_to + 1))
            found.extend(self._table.range(begin, end, backwards=reverse))
        return found

    def _of_keys(
        self,
        keys: tuple[bytes | None, bytes | None],
        time_from: int | None,
        time_to: int | None,
        *,
        reverse: bool,
    ) -> list[Found]:
        """Return the entries of a range of keys, by segment, key and time."""
        time_from = self._clip(time_from)
        key_from, key_to = keys
        found: list[Found] = []
        for segment in self._segments(time_from, time_to, reverse=reverse):
            prefix = encode_int(segment)
            begin = prefix + (key_from or b"")
            end = prefix + (key_to or b"") + LAST
            for item in self._table.range(begin, end, backwards=reverse):
                time = self._time_of(item[0])
                if (time_from is None or time_from <= time) and (
                    time_to is None or time <= time_to
                ):
                    found.append(item)
        return found

    def _segments(
        self, time_from: int | None, time_to: int | None, *, reverse: bool
    ) -> Iterator[int]:
        """Return the segments that may have entries of these times."""
        if self._has_own_time and time_from is not None:
            # No entry is ahead of stream time, so few segments are possible, even counting empty
            # ones.
            now = self._now()
            last = now if time_to is None or now is None else min(now, time_to)
            if last is not None:
                few = range(time_from // self._width, last // self._width + 1)
                if len(few) <= _FEW:
                    return reversed(few) if reverse else iter(few)
        begin = None if time_from is None else encode_int(time_from // self._width)
        end = None if time_to is None else encode_int(time_to // self._width) + LAST
        segments = []
        # Jump from segment to segment by the first entry of each.
        while found := list(self._table.range(begin, end, limit=1)):
            segments.append(read_int(found[0][0], 0))
            begin = found[0][0][:INT_SIZE] + LAST
        return reversed(segments) if reverse else iter(segments)
