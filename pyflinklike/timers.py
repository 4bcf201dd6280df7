# SPDX-License-Identifier: Apache-2.0
"""Timers: which ones there are, and which one is due next.

A timer is the pair of a key and a timestamp in one time domain.  That pair is
an entry of a table like any other (the user key is the timestamp), so timers
are snapshotted, logged and restored by the machinery that states use.  Beside
the table stands a binary heap that answers "what is due first"; it is derived
from the table, holds no truth of its own, and is rebuilt when a key group is
loaded.  A heap item whose entry is gone (deleted, or fired already) is skipped
when it comes up.

The contract is Flink's `InternalTimerServiceImpl`:

* registering a timer twice fires it once; the two domains are separate;
* a timer is removed before `on_timer` runs, so that registering the same time
  again inside it fires again within the same advance;
* timers fire in ascending time, those of equal time in no promised order;
* a timer in the past is accepted and fires at the next advance, never inside
  its registration.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable
from typing import Any

import attrs

from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import StateValueError
from pyflinklike.functions import TimerService
from pyflinklike.table import MISSING, RESERVED_PREFIX, KeyedStateBackend, Scope, Shape, TableSpec
from pyflinklike.types import Types

__all__ = ["KeyedTimerService", "TimerQueue", "timers_table"]

_TIDY_EVERY = 256
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -(2**63), 2**63 - 1


def timers_table(domain: TimeDomain) -> str:
    """The name of the table that keeps a domain's timers."""
    return f"{RESERVED_PREFIX}{domain.name.lower()}_timers"


@attrs.define
class Heap:
    """The order of the timers of one key group: `(timestamp, tie breaker, key)` items."""

    items: list[tuple[int, int, Hashable]] = attrs.field(factory=list)
    pushed: int = 0

    def push(self, timestamp: int, key: Hashable) -> None:
        """Add a timer; those of equal time come in the order they were added."""
        self.pushed += 1
        heapq.heappush(self.items, (timestamp, self.pushed, key))


class TimerQueue:
    """The timers of one domain in the current key group.

    Args:
        domain: Of the timers.
        backend: Keeps them.
    """

    def __init__(self, domain: TimeDomain, backend: KeyedStateBackend) -> None:
        self.domain = domain
        spec = TableSpec(
            timers_table(domain),
            Shape.MAP,
            "timers",
            user_key_type=Types.LONG(),
        )
        self.table = backend.table(spec)
        self._scope: Scope = backend.scope
        self._heap = Heap()

    def enter(self, heaps: dict[TimeDomain, Heap]) -> None:
        """Turn to another key group.

        Args:
            heaps: Kept with the working state of the group; empty after a load.
        """
        heap = heaps.get(self.domain)
        if heap is None:
            heap = heaps[self.domain] = Heap()
            for key, timestamp, _ in self.table.scan():
                heap.push(timestamp, key)
        self._heap = heap

    def register(self, timestamp: int) -> None:
        """Add a timer for the current key; nothing happens where it exists."""
        table = self.table
        if table.get(timestamp) is MISSING:
            table.put(timestamp, None)
            heap = self._heap
            heap.push(timestamp, self._scope.key)
            if not heap.pushed % _TIDY_EVERY and len(heap.items) > 2 * table.count():
                self._tidy(heap)

    def _tidy(self, heap: Heap) -> None:
        """Drop the items of deleted timers, for those of a far future would pile up."""
        alive = {(timestamp, key) for key, timestamp, _ in self.table.scan()}
        kept = {(at, key): (at, tie, key) for at, tie, key in heap.items if (at, key) in alive}
        heap.items[:] = kept.values()
        heapq.heapify(heap.items)

    def delete(self, timestamp: int) -> None:
        """Remove a timer of the current key; nothing happens where there is none."""
        self.table.delete(timestamp)

    def pop_due(self, now: int) -> int | None:
        """Remove the first timer that is due and make its key current.

        Returns:
            Its timestamp in ms, or None where nothing is due.
        """
        items = self._heap.items
        while items and items[0][0] <= now:
            timestamp, _, key = heapq.heappop(items)
            self._scope.key = key
            if self.table.get(timestamp) is not MISSING:
                self.table.delete(timestamp)
                return timestamp
        return None

    def earliest(self) -> int | None:
        """The time of the first timer in ms, or None; leaves no key current."""
        items, scope = self._heap.items, self._scope
        while items:
            timestamp, _, scope.key = items[0]
            if self.table.get(timestamp) is not MISSING:
                return timestamp
            heapq.heappop(items)
        return None

    def count(self) -> int:
        """How many timers the key group has."""
        return self.table.count()


class KeyedTimerService(TimerService):
    """What `ctx.timer_service()` gives: the clock to read and both queues to fill.

    Args:
        clock: Of the operator.
        event_timers: Fired by the watermark.
        processing_timers: Fired by the processing time.
        on_register: Called with the domain before a timer is registered; it may refuse.
    """

    def __init__(
        self,
        clock: Clock,
        event_timers: TimerQueue,
        processing_timers: TimerQueue,
        on_register: Callable[[TimeDomain], None] | None = None,
    ) -> None:
        self._clock = clock
        self._event_timers = event_timers
        self._processing_timers = processing_timers
        self._on_register = on_register

    def current_processing_time(self) -> int:
        """The processing time in ms; it stands still during a call."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """The watermark in ms; `MIN_WATERMARK` before the first one."""
        return self._clock.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for this key when the watermark reaches `timestamp` ms."""
        self._register(self._event_timers, timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called for this key when the processing time reaches `timestamp` ms."""
        self._register(self._processing_timers, timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget an event-time timer of this key; nothing happens where there is none."""
        self._event_timers.delete(_checked(timestamp))

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget a processing-time timer of this key; nothing happens where there is none."""
        self._processing_timers.delete(_checked(timestamp))

    def _register(self, queue: TimerQueue, timestamp: int) -> None:
        if self._on_register is not None:
            self._on_register(queue.domain)
        if type(timestamp) is not int or not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            timestamp = _checked(timestamp)
        queue.register(timestamp)


def _checked(timestamp: Any) -> int:
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        integral = getattr(timestamp, "__index__", None)
        if integral is None or isinstance(timestamp, bool):
            msg = (
                f"the time of a timer must be an int of ms, got {timestamp!r}; "
                "ctx.timestamp() is None where the element has no event time"
            )
            raise StateValueError(msg)
        timestamp = int(integral())
    if not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
        msg = f"the time of a timer must fit in 64 bits, got {timestamp!r}; it is in ms"
        raise StateValueError(msg)
    return int(timestamp)
