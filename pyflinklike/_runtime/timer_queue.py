# SPDX-License-Identifier: Apache-2.0
"""Timers: the queue of one time domain, and the order in which its timers fire.

A timer is the pair of a key and a timestamp in one time domain.  If an operator divides the state
of keys by namespaces, a timer belongs to a key and a namespace, and both are current when it fires.
The timer is an entry of a table, with the timestamp as the user key, so timers are snapshotted,
logged and restored like states.  A `TimerHeap` beside the table holds the same pairs by time and
answers which timer is due first.  It is derived from the table, and made anew when a key group is
loaded.

The contract is the one of Flink's `InternalTimerServiceImpl`:

* a timer that is registered twice fires once; the two domains are separate;
* a timer is removed before `on_timer` runs, which can register the same time again;
* timers fire in ascending time; timers of equal time fire in any order;
* a timer in the past is accepted and fires at the next advance, never inside its registration; a
  timer that `on_timer` registers fires in the same advance if it is due;
* but a processing-time timer that `on_timer` registers for "now" waits for the next advance: in
  Flink the clock goes on meanwhile, and ours stands still;
* at the end of a batch every timer of both domains fires, and the queue of processing time is
  quiesced: it ignores registrations, as Flink's `BatchExecutionInternalTimeService` does, since a
  timer that registers the next one would never end.

In Flink a timer that keeps registering itself for its own time fires forever; here it is refused
after a hundred thousand rounds.

https://github.com/apache/flink/blob/master/flink-runtime/src/main/java/org/apache/flink/streaming/api/operators/InternalTimerServiceImpl.java
https://github.com/apache/flink/blob/master/flink-runtime/src/main/java/org/apache/flink/streaming/api/operators/sorted/state/BatchExecutionInternalTimeService.java
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from contextlib import closing
from heapq import heappop, heappush
from itertools import chain
from typing import Any, Protocol

from pyflinklike._changelog.key_group_state import TimerHeap, timers_spec
from pyflinklike._checks import is_int, is_int64, warn_of_seconds
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike.errors import PyflinklikeError, StateValueError, UserFunctionError
from pyflinklike.functions.contexts import NamespacedTimerService
from pyflinklike.state.current_key import NamespacedKey
from pyflinklike.state.table import Tables
from pyflinklike.types import TypeInformation

MOST_AT_THE_END = 1_000_000
"""The number of timers that a key may register at the end of the input; more are refused."""
_MOST_ROUNDS = 100_000
_MIN_TIMESTAMP, _MAX_TIMESTAMP = -(2**63), 2**63 - 1


class Timers(Protocol):
    """The timers of one domain in the current key group, as rows or as columns."""

    is_quiesced: bool
    """Whether registrations are ignored."""
    has_ignored: bool
    """Whether a registration was ignored since the owner set this to False."""

    @property
    def domain(self) -> TimeDomain:
        """The clock that the timers follow."""

    @property
    def table(self) -> Any:
        """The table of the timers."""

    def enter(self, agendas: dict[TimeDomain, TimerHeap]) -> None:
        """Switch to another key group.

        Args:
            agendas: A part of the group's working state; empty after a load.
        """

    def earliest(self) -> int | None:
        """Return the time of the earliest timer in ms, or None."""

    def count(self) -> int:
        """Count the timers of the key group."""


class TimerQueue:
    """The timers of one domain in the current key group.

    Args:
        domain: The clock that the timers follow.
        backend: Makes the table of the timers.
        namespace_type: The type of the namespaces, or None if timers belong to keys alone.
    """

    def __init__(
        self, domain: TimeDomain, backend: Tables, namespace_type: TypeInformation | None = None
    ) -> None:
        self.domain = domain
        self.registrar = "on_timer"
        """The name of the method that registers timers when one fires, for messages."""
        self.is_quiesced = self.has_ignored = False
        self.table = backend.table(timers_spec(domain, namespace_type))
        self._put = self.table.put
        self._delete = self.table.delete
        current = backend.current
        self._current = current if namespace_type is None else NamespacedKey(current)
        self._turn_to(TimerHeap())

    def enter(self, agendas: dict[TimeDomain, TimerHeap]) -> None:
        """Switch to another key group.

        Args:
            agendas: A part of the group's working state; empty after a load.
        """
        agenda = agendas.get(self.domain)
        if agenda is None:
            agenda = agendas[self.domain] = TimerHeap.of(self.table.scan())
        self._turn_to(agenda)

    def _turn_to(self, agenda: TimerHeap) -> None:
        self._agenda = agenda
        self._keys_at = agenda.keys_at
        self._times = agenda.times

    def register(self, timestamp: int) -> None:
        """Add a timer for the current key; do nothing if it exists.

        A quiesced queue does not add it, and remembers that it ignored a timer.

        Raises:
            StateValueError: The timestamp is not an int of 64 bits.
        """
        if type(timestamp) is not int or not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            timestamp = _check(timestamp)
        key = self._current.key
        # The heap is asked instead of the table, since it holds the same timers in plain dicts.
        keys = self._keys_at.get(timestamp)
        if keys is not None and key in keys:
            return
        if self.is_quiesced:
            self.has_ignored = True
            return
        if keys is None:
            self._keys_at[timestamp] = {key: None}
            heappush(self._times, timestamp)
        else:
            keys[key] = None
        self._put(timestamp, None)

    def has(self, timestamp: int) -> bool:
        """Return whether the current key has a timer at a timestamp in ms."""
        return self._current.key in self._keys_at.get(timestamp, ())

    def times(self) -> list[int]:
        """Return the times in ms of the current key's timers, ascending."""
        # From the table, which has them by key; the heap has them by time.
        return sorted(timestamp for timestamp, _ in self.table.items())

    def delete(self, timestamp: int) -> None:
        """Remove a timer of the current key; do nothing if it does not exist.

        Raises:
            StateValueError: The timestamp is not an int of 64 bits.
        """
        timestamp = _check(timestamp)
        key = self._current.key
        keys = self._keys_at.get(timestamp, {})
        if key in keys:
            self._delete(timestamp)
            del keys[key]
            if not keys:
                del self._keys_at[timestamp]
                # A heap cannot drop an entry from its middle, so idle times are dropped by the way.
                self._agenda.drop_idle_times()

    def due(self, now: int) -> Generator[int, None, None]:
        """Remove due timers one by one, and make the key of each current.

        Between two timers the function may register and delete others.  Close the generator: then
        timers that it has not yielded stay due.

        Args:
            now: The time of the domain in ms.

        Yields:
            The timestamps in ms, ascending except for timers that are registered meanwhile.

        Raises:
            UserFunctionError: The function registers timers without end.
        """
        late: set[Hashable] = set()
        if self._times:
            # A time in seconds looks like January 1970, so the timer would fire at once.
            warn_of_seconds(self._times[0], now)
        due = self._in_order(now, late)
        if self.domain is TimeDomain.PROCESSING_TIME:
            due = self._collect_late_keys(due, now, late)
        return self._refuse_endless(due) if now == _MAX_TIMESTAMP else due

    def _in_order(self, now: int, late: set[Hashable]) -> Generator[int, None, None]:
        """Yield the timers up to now, except those for now of late keys."""
        times, keys_at, current, delete = self._times, self._keys_at, self._current, self._delete
        timestamp, rounds = _MIN_TIMESTAMP - 1, 0
        keys: dict[Hashable, None] = {}
        try:
            while times and times[0] <= now:
                if times[0] <= timestamp:
                    # Only timers of late keys are left, and they wait for the next advance.
                    if late and timestamp == now == times[0]:
                        break
                    rounds = next_round(rounds, timestamp, self.registrar)
                timestamp = heappop(times)
                keys = keys_at.pop(timestamp, {})
                if late and timestamp == now:
                    keys = self._punctual(now, keys, late)
                while keys:
                    current.key, _ = keys.popitem()
                    delete(timestamp)
                    yield timestamp
                    # `on_timer` registered an earlier time, which is next.
                    if times and times[0] < timestamp:
                        break
                if keys:
                    self._put_back(timestamp, keys)
                    keys = {}
        finally:
            # A call raised, or the generator was closed: timers that were not yielded stay due.
            self._put_back(timestamp, keys)

    def _collect_late_keys(
        self, due: Generator[int, None, None], now: int, late: set[Hashable]
    ) -> Generator[int, None, None]:
        """Collect the keys whose `on_timer` registers a timer for now; that timer has to wait."""
        keys_at, current = self._keys_at, self._current
        with closing(due):
            for timestamp in due:
                key = current.key
                was_there = key in keys_at.get(now, ())
                yield timestamp
                if not was_there and key in keys_at.get(now, ()):
                    late.add(key)

    def _punctual(
        self, now: int, keys: dict[Hashable, None], late: set[Hashable]
    ) -> dict[Hashable, None]:
        """Return the keys that are not late, and put the timers of the late ones back."""
        self._put_back(now, {key: None for key in keys if key in late})
        return {key: None for key in keys if key not in late}

    def _put_back(self, timestamp: int, keys: dict[Hashable, None]) -> None:
        if not keys:
            return
        if timestamp in self._keys_at:
            self._keys_at[timestamp].update(keys)
        else:
            self._keys_at[timestamp] = keys
            heappush(self._times, timestamp)

    def _refuse_endless(self, due: Generator[int, None, None]) -> Generator[int, None, None]:
        """Refuse timers without end when time ends, since then each new one is due at once."""
        # Timers that were there before the end do not count against the limit.
        left = Counter(chain.from_iterable(self._keys_at.values()))
        with closing(due):
            for timestamp in due:
                key = self._current.key
                left[key] -= 1
                if left[key] < -MOST_AT_THE_END:
                    msg = (
                        f"{self.registrar} must come to an end when time does, got more than "
                        f"{MOST_AT_THE_END:,} timers that it registered for one key at the end of "
                        "the input; register none if the current watermark is MAX_WATERMARK"
                    )
                    raise UserFunctionError(msg)
                yield timestamp

    def earliest(self) -> int | None:
        """Return the time of the earliest timer in ms, or None."""
        times, keys_at = self._times, self._keys_at
        while times and times[0] not in keys_at:
            heappop(times)
        return times[0] if times else None

    def count(self) -> int:
        """Count the timers of the key group."""
        return self.table.count()


class UndoableTimerQueue(TimerQueue):
    """A queue whose latest changes can be undone, also in its table."""

    def __init__(
        self, domain: TimeDomain, backend: Tables, namespace_type: TypeInformation | None = None
    ) -> None:
        super().__init__(domain, backend, namespace_type)
        self.changes: list[tuple[Hashable, int, bool]] = []
        """Key, time, and whether the timer was added, of each change since this was cleared."""

    def register(self, timestamp: int) -> None:
        """Add a timer for the current key; do nothing if it exists."""
        if type(timestamp) is not int or not _MIN_TIMESTAMP <= timestamp <= _MAX_TIMESTAMP:
            timestamp = _check(timestamp)
        key = self._current.key
        if key in self._keys_at.get(timestamp, ()):
            return
        super().register(timestamp)
        if not self.is_quiesced:
            self.changes.append((key, timestamp, True))

    def delete(self, timestamp: int) -> None:
        """Remove a timer of the current key; do nothing if it does not exist."""
        timestamp = _check(timestamp)
        if self.has(timestamp):
            self.changes.append((self._current.key, timestamp, False))
            super().delete(timestamp)

    def undo_changes(self, left: int = 0) -> None:
        """Undo the changes, the latest first, until so many are left."""
        undone = self.changes[left:]
        del self.changes[left:]
        self._make(((key, at, not was_added) for key, at, was_added in reversed(undone)))

    def make_changes(self, changes: Iterable[tuple[Hashable, int, bool]]) -> None:
        """Repeat changes that were undone."""
        changes = list(changes)
        self._make(changes)
        self.changes += changes

    def _make(self, changes: Iterable[tuple[Hashable, int, bool]]) -> None:
        current, former = self._current, self._current.key
        # A quiesced queue would ignore the timers that come back.
        is_quiesced, self.is_quiesced = self.is_quiesced, False
        for current.key, timestamp, is_added in changes:
            if is_added:
                super().register(timestamp)
            else:
                super().delete(timestamp)
        current.key, self.is_quiesced = former, is_quiesced


def next_round(rounds: int, timestamp: int, registrar: str) -> int:
    """Count a timer that fires although a timer of the same or a later time has fired already.

    Raises:
        UserFunctionError: There were too many rounds in this advance.
    """
    if rounds == _MOST_ROUNDS:
        msg = (
            f"{registrar} must come to an end, got more than {_MOST_ROUNDS:,} timers in one advance "
            f"that it registered for the time that fires or before, last {timestamp}; register a "
            "later one"
        )
        raise UserFunctionError(msg)
    return rounds + 1


def _check(timestamp: Any) -> int:
    if not is_int(timestamp):
        integral = None if isinstance(timestamp, bool) else getattr(timestamp, "__index__", None)
        if integral is None:
            remedy = "convert it, for example int(seconds * 1000)"
            if timestamp is None:
                remedy = "ctx.timestamp() is None if the element has no event time"
            elif isinstance(timestamp, dt.datetime):
                remedy = "convert it, for example int(time.timestamp() * 1000)"
            elif isinstance(timestamp, dt.timedelta):
                remedy = (
                    "that is a length, so add it to a time: "
                    "ctx.timestamp() + length // timedelta(milliseconds=1)"
                )
            msg = f"the time of a timer must be an int of ms, got {short_repr(timestamp)}; {remedy}"
            raise StateValueError(msg)
        timestamp = int(integral())
    if not is_int64(timestamp):
        msg = f"the time of a timer must fit in 64 bits, got {short_repr(timestamp)}; it is in ms"
        raise StateValueError(msg)
    return int(timestamp)


# The timer service


class TimerQueues(Protocol):
    """An object with the timers of both domains."""

    @property
    def queues(self) -> tuple[Timers, Timers]:
        """The queue of event time, then the queue of processing time."""


class KeyedTimerService(NamespacedTimerService):
    """The `ctx.timer_service()`: the clock to read, and both queues of the current key to fill.

    Args:
        clock: The operator's clock, which stands still during a call.
        event_timers: The queue of event time.
        processing_timers: The queue of processing time.
        refused: The error that a registration raises, for each domain whose timers cannot fire.
    """

    def __init__(
        self,
        clock: Clock,
        event_timers: TimerQueue,
        processing_timers: TimerQueue,
        refused: Mapping[TimeDomain, PyflinklikeError],
    ) -> None:
        self._clock = clock
        self.queues = event_timers, processing_timers
        """The queue of event time, then the queue of processing time."""
        self._event_timers = event_timers
        self._processing_timers = processing_timers
        self._register_event = _registration(event_timers, refused)
        # This saves a call for each timer: functions register one per record, windows one per
        # window.
        self.register_event_time_timer = self._register_event  # type: ignore[assignment, method-assign]
        self._register_processing = _registration(processing_timers, refused)

    def current_processing_time(self) -> int:
        """Return the processing time in ms; it stands still during a call."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms; `MIN_WATERMARK` before the first one."""
        return self._clock.watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        """Register a timer that calls `on_timer` when the watermark reaches `timestamp` ms."""
        self._register_event(timestamp)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Register a timer that calls `on_timer` when the processing time reaches `timestamp` ms."""
        self._register_processing(timestamp)

    def has_event_time_timer(self, timestamp: int) -> bool:
        """Return whether this key, in its namespace if any, has a timer at `timestamp` ms."""
        return self._event_timers.has(timestamp)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete an event-time timer of this key; do nothing if it does not exist."""
        self._event_timers.delete(timestamp)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete a processing-time timer of this key; do nothing if it does not exist."""
        self._processing_timers.delete(timestamp)

    def list_event_time_timers(self) -> list[int]:
        """Return the times in ms of this key's event-time timers, ascending."""
        return self._event_timers.times()

    def list_processing_time_timers(self) -> list[int]:
        """Return the times in ms of this key's processing-time timers, ascending."""
        return self._processing_timers.times()


def _registration(
    queue: TimerQueue, refused: Mapping[TimeDomain, PyflinklikeError]
) -> Callable[[int], None]:
    """Return the function that registers a timer in a queue, or refuses it."""
    refusal = refused.get(queue.domain)
    if refusal is None:
        return queue.register

    def refuse(_: int) -> None:
        raise refusal

    return refuse
