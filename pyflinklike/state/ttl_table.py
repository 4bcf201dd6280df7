# SPDX-License-Identifier: Apache-2.0
"""Time-to-live: the rules of one TTL, and a table around any table that keeps them.

The rules say when an entry is expired, which stamp it gets, and what cleans it up.  They are written once, for single entries and for columns of entries: a stamp may be an int, or
a NumPy array of ints.

* **Expiry.**  An entry with a TTL is a pair of its stamp, in ms, and its value.  It is expired from
  the time `stamp + ttl` on.  We compare the other way round: the *horizon* is the time minus the
  TTL, and an entry is expired if its stamp is at or before the horizon.  So one subtraction serves
  all entries, and a very long TTL cannot overflow.
* **Time.**  The time is the clock's processing time or, for `TtlTimeCharacteristic.EventTime`, its
  watermark.  An event-time stamp is the larger of the watermark and the element's timestamp, so
  that an entry written ahead of the watermark lives its whole TTL.  If neither is known when an
  entry is written, the entry does not expire until it is written again.
* **Agreement.**  The clock stands still during a call, so all checks of a call agree.

Flink's rule is in `TtlUtils.expired`.

A `TtlTable` is a `Table` of plain values over another table.  The entries of that table are
`(stamp, value)` pairs, and it does not know what a stamp is.  So value, reducing and aggregating
state have a TTL for each key, map state for each entry and list state for each element, and none of
them has code for it.

The rules of access are Flink's, in its package
[state.ttl](https://github.com/apache/flink/tree/master/flink-runtime/src/main/java/org/apache/flink/runtime/state/ttl)
(`AbstractTtlDecorator`, `TtlMapState`, `TtlListState`):

* Reading an expired entry removes it.  `ReturnExpiredIfNotCleanedUp` returns it that once.
* Every write stamps the entry; a read stamps it anew under `OnReadAndWrite`.
* A list checks each element during iteration.  It deletes the expired elements only if no element
  is alive; under `OnReadAndWrite`, it deletes each expired element that it meets.
* `is_empty` and `clear` do not look at stamps.

**Cleanup.**  Entries that are never read would stay for ever.  So each access may also check a few
others (`sweep_some`), as Flink's `TtlIncrementalCleanup` does.  After a whole pass without a change
of time, nothing new can be expired, and sweeping pauses until the clock moves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK, Clock, TimeDomain
from pyflinklike.state.table import MISSING, Entry, Shape, Table, TableChanges
from pyflinklike.state.ttl_config import StateTtlConfig


class TtlRules(ABC):
    """The rules of one state's TTL at the clock's time; a subclass holds the entries.

    Args:
        config: The TTL of the state, which must be enabled.
        clock: The clock of the operator, in ms.
    """

    def __init__(self, config: StateTtlConfig, clock: Clock) -> None:
        self._clock = clock
        self._ttl = config.ttl_ms
        self._event_time = (
            config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
        )
        self._refresh = config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self._return_expired = (
            config.get_state_visibility()
            is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        )
        self._prepare_cleanup(config.get_cleanup_strategies())
        self.expired = 0
        """Number of entries deleted for their age, for the host to count."""
        clock.watch(self._take_clock)

    def _prepare_cleanup(self, cleanup: StateTtlConfig.CleanupStrategies) -> None:
        incremental = cleanup.get_incremental_cleanup_strategy()
        self._sweep_size = incremental.get_cleanup_size() if incremental else 0
        self.sweeps_every_record = bool(incremental and incremental.run_cleanup_for_every_record())
        """Whether `sweep_some` must also run for each record, when its key is selected."""
        self.in_full_snapshot = cleanup.in_full_snapshot()
        """Whether snapshots must leave expired entries out."""
        compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
        self.in_background = compaction is not None
        """Whether a compaction may drop expired entries that are not read."""
        self._judged_by_one_reading = 1
        self.compaction_period = 0
        """The age in ms at which a log is compacted for its expired entries; 0 is never."""
        if compaction is not None:
            self._judged_by_one_reading = max(compaction.get_query_time_after_num_entries(), 1)
            self.compaction_period = compaction.get_periodic_compaction_time().to_milliseconds()

    # The clock stands still during a call, so compute these when it moves and not at each read.
    def _take_clock(self) -> None:
        clock = self._clock
        now = clock.watermark if self._event_time else clock.processing_time
        self._now = now
        self._horizon = horizon_at(now, self._ttl)
        self._dead = _ExpiredAt(self._horizon)
        self.enter()

    def stamp(self) -> int:
        """Return the stamp of an entry written now, in ms."""
        if not self._event_time:
            return self._now
        stamp, timestamp = self._now, self._clock.timestamp
        if timestamp is not None and timestamp > stamp:
            stamp = timestamp
        # No time is known yet, so the entry's age will never be known: it does not expire.
        return MAX_WATERMARK if stamp == MIN_WATERMARK else stamp

    def stamps(self, timestamps: Any) -> Any:
        """Return the stamps of entries written now, in ms, as `stamp` does for each timestamp.

        Args:
            timestamps: A NumPy array of the elements' times in ms; `MIN_WATERMARK` stands for no
                time.
        """
        if not self._event_time:
            return timestamps * 0 + self._now
        stamps = timestamps.clip(min=self._now)
        stamps[stamps == MIN_WATERMARK] = MAX_WATERMARK
        return stamps

    def are_expired(self, stamps: Any) -> Any:
        """Return a mask of the stamps, a NumPy array in ms, whose entries are expired."""
        # Before any event, the horizon is below the range of 64 bits, and no entry is expired.
        return stamps <= self._horizon if self._horizon >= MIN_WATERMARK else stamps != stamps

    @property
    def time_domain(self) -> TimeDomain:
        """The kind of time that makes entries expire."""
        return TimeDomain.EVENT_TIME if self._event_time else TimeDomain.PROCESSING_TIME

    def sweep_again_at(self) -> int:
        """Return when entries stamped now expire, in ms; before any watermark, a time long ago."""
        return min(self._now + self._ttl, MAX_WATERMARK)

    @abstractmethod
    def enter(self) -> None:
        """Begin anew, because the entries of another key group follow."""

    @abstractmethod
    def sweep_some(self) -> None:
        """Look at the next few entries of the state, as Flink's incremental cleanup."""

    @abstractmethod
    def drop_expired(self) -> int:
        """Delete every expired entry of the key group, and return their number."""

    @abstractmethod
    def without_expired(self, contents: Any) -> Any:
        """Return the part of these contents of the state that a full snapshot takes."""

    @abstractmethod
    def count(self) -> int:
        """Count the entries of the key group, expired or not."""


def horizon_at(now: int, ttl: int) -> int:
    """Return the latest stamp of an expired entry, in ms; below 64 bits if none can be expired.

    Args:
        now: The time that decides what is expired, in ms.
        ttl: How long an entry lives, in ms.
    """
    return MAX_WATERMARK if now >= MAX_WATERMARK else now - ttl


class _ExpiredAt:
    """A test whether an entry is expired at a given horizon."""

    __slots__ = ("_horizon",)

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon

    def __call__(self, entry: Entry) -> bool:
        """Return whether an entry is expired."""
        expired: bool = entry[0] <= self._horizon
        return expired

    def any_of(self, entries: Sequence[Entry]) -> bool:
        """Return whether any entry is expired; three times as fast as asking for each."""
        horizon = self._horizon
        for stamp, _ in entries:  # noqa: SIM110 - a generator would take twice as long
            if stamp <= horizon:
                return True
        return False


# A table whose entries expire


_UNKNOWN = -1
# Pairs: from this number of entries on, sweep the table once in so many accesses.
_SWEEP_EVERY = ((4_096, 64), (129, 16), (0, 1))


class TtlTable(TtlRules):
    """A table whose entries expire.

    Args:
        table: The table of the `(stamp, value)` entries.
        config: The TTL of the state, which must be enabled.
        clock: The clock of the operator, in ms.
    """

    def __init__(self, table: Table, config: StateTtlConfig, clock: Clock) -> None:
        self.spec = table.spec
        self._table = table
        self._get, self._put, self._append = table.get, table.put, table.append
        self._countdown = 1
        self._sweep_left = self._sweep_stored = 0
        super().__init__(config, clock)

    def __repr__(self) -> str:
        return f"TtlTable({self._table!r}, ttl={self._ttl} ms)"

    # Reading

    def get(self, user_key: Hashable) -> Any:
        # `sweep_some` written out, because each access of the state would pay for one more call.
        if self._sweep_left:
            self._countdown -= 1
            if not self._countdown:
                self._sweep_now()
        entry = self._get(user_key)
        return MISSING if entry is MISSING else self._judge(user_key, entry)

    def _judge(self, user_key: Hashable, entry: Entry) -> Any:
        stamp, value = entry
        if stamp <= self._horizon:
            self._table.delete(user_key)
            self.expired += 1
            return value if self._return_expired else MISSING
        if self._refresh:
            now = self.stamp() if self._event_time else self._now
            if stamp != now:
                self._put(user_key, (now, value))
        return value

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Any]:
        if self._sweep_left:
            self.sweep_some()
        return [
            MISSING if entry is MISSING else self._judge(user_key, entry)
            for user_key, entry in zip(user_keys, self._table.multi_get(user_keys))
        ]

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the entries; iteration checks each when it comes to it, as Flink's TtlMapState."""
        if self._sweep_left:
            self.sweep_some()
        return self._judge_items(self._table.items())

    def _judge_items(self, items: Iterable[tuple[Any, Entry]]) -> Iterator[tuple[Any, Any]]:
        for user_key, entry in items:
            if entry[0] <= self._horizon:
                self._delete_if_unchanged(user_key, entry)
                if not self._return_expired:
                    continue
            elif self._refresh and self._table.get(user_key) == entry:
                self._table.put(user_key, (self.stamp(), entry[1]))
            yield user_key, entry[1]

    def elements(self) -> Iterable[Any]:
        """Return a list's elements; iteration checks each, as in Flink's TtlListState."""
        if self._sweep_left:
            self.sweep_some()
        items = list(self._table.items())
        if self._refresh:
            # As in Flink, the call itself stamps the elements, even if the caller does not iterate.
            stamp, horizon = self.stamp(), self._horizon
            self._table.multi_put(
                [(at, (stamp, entry[1])) for at, entry in items if entry[0] > horizon]
            )
        return _JudgedElements(self._judge_elements, items)

    def _judge_elements(self, items: list[tuple[Any, Entry]]) -> Iterator[Any]:
        any_alive = False
        for position, entry in items:
            if entry[0] > self._horizon:
                any_alive = True
            else:
                if self._refresh:
                    self._delete_if_unchanged(position, entry)
                if not self._return_expired:
                    continue
            yield entry[1]
        if not any_alive:
            for position, entry in items:
                self._delete_if_unchanged(position, entry)

    def _delete_if_unchanged(self, user_key: Hashable, entry: Entry) -> None:
        # The user may have written to the map or list that is being iterated.
        if self._table.get(user_key) == entry:
            self._table.delete(user_key)
            self.expired += 1

    def is_empty(self) -> bool:
        """Return whether no entry is stored, expired or not, as Flink's TtlMapState.isEmpty."""
        if self._sweep_left:
            self.sweep_some()
        return self._table.is_empty()

    # Writing

    def put(self, user_key: Hashable, value: Any) -> None:
        if self._sweep_left:
            self._countdown -= 1
            if not self._countdown:
                self._sweep_now()
        # Only event time needs `stamp`; processing time saves the call for each record.
        self._put(user_key, (self.stamp() if self._event_time else self._now, value))

    def multi_put(self, items: Iterable[tuple[Hashable, Any]]) -> None:
        if self._sweep_left:
            self.sweep_some()
        stamp = self.stamp()
        self._table.multi_put([(user_key, (stamp, value)) for user_key, value in items])

    def append(self, value: Any) -> None:
        if self._sweep_left:
            self._countdown -= 1
            if not self._countdown:
                self._sweep_now()
        self._append((self.stamp() if self._event_time else self._now, value))

    def delete(self, user_key: Hashable) -> None:
        if self._sweep_left:
            self.sweep_some()
        self._table.delete(user_key)

    def clear(self) -> None:
        self._table.clear()

    # Across keys

    def sweep_some(self) -> None:
        """Look at the next few entries of the state, as Flink's incremental cleanup.

        A large table is swept once in some accesses, with as many more entries: the progress is the
        same at a fraction of the cost.  After a whole pass, it waits until the time moves.
        """
        if self._sweep_left:
            self._countdown -= 1
            if not self._countdown:
                self._sweep_now()

    def _sweep_now(self) -> None:
        stored = self._table.count()
        self._countdown = next(every for least, every in _SWEEP_EVERY if stored >= least)
        size = self._sweep_size * self._countdown
        if self._sweep_left == _UNKNOWN:
            # The cursor may be anywhere in the table, and two passes contain one whole pass.
            self._sweep_left = 2 * (stored + size)
            self._sweep_stored = stored
        self.expired += self._table.sweep(size, self._dead, self._dead.any_of)
        self._sweep_left = max(self._sweep_left - size, 0)
        if not self._sweep_left and stored > self._sweep_stored:
            # The pass spent some checks on entries added since, so it may have missed older ones.
            self._sweep_left = 2 * (stored - self._sweep_stored)
            self._sweep_stored = stored

    def enter(self) -> None:
        """Begin anew, because the table now has the entries of another key group."""
        self._sweep_left = _UNKNOWN if self._sweep_size else 0

    def scan(self) -> Iterator[tuple[Hashable, Any, Any]]:
        """Yield every value of the key group, expired or not, without its stamp."""
        for key, user_key, entry in self._table.scan():
            yield key, user_key, entry[1]

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Any], bool],
        any_dead: Callable[[Sequence[Any]], bool] | None = None,  # noqa: ARG002  need not be asked
    ) -> int:
        return self._table.sweep(count, lambda entry: is_dead(entry[1]))

    def sweep_all(self, is_dead: Callable[[Any], bool]) -> int:
        return self._table.sweep_all(lambda entry: is_dead(entry[1]))

    def drop_expired(self) -> int:
        """Delete every expired entry of the key group, and return their number.

        Like Flink's compaction filter, it reads the clock again after a number of entries.
        """
        dropped = self._table.sweep_all(
            _build_expiry_test(lambda: self._horizon, self._judged_by_one_reading)
        )
        self.expired += dropped
        return dropped

    def count(self) -> int:
        return self._table.count()

    def without_expired(self, contents: TableChanges) -> TableChanges:
        """Return the part of these contents of the table that a full snapshot takes."""
        # A list loses only the expired elements before its first live one, as in Flink's
        # TtlStateSnapshotTransformer.
        alive = TableChanges(contents.spec)
        met_alive: set[Any] = set()
        for key, user_key, entry in zip(contents.keys, contents.user_keys, contents.entries):
            if key in met_alive or not self._dead(entry):
                alive.keys.append(key)
                alive.user_keys.append(user_key)
                alive.entries.append(entry)
                if contents.spec.shape is Shape.LIST:
                    met_alive.add(key)
        return alive


class _JudgedElements:
    """An iterable that checks the elements of a list anew at each iteration.

    Args:
        judge: Returns the values that the user may see.
        items: Positions and entries at the time when the list was read.
    """

    def __init__(
        self, judge: Callable[[list[tuple[Any, Entry]]], Iterator[Any]], items: list[Any]
    ) -> None:
        self._judge = judge
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return self._judge(self._items)


def _build_expiry_test(horizon_now: Callable[[], int], every: int) -> Callable[[Entry], bool]:
    """Build a test for expired entries that asks for the horizon again after a number of entries.

    Args:
        horizon_now: Returns the horizon, in ms.
        every: Number of entries for which one answer is used.
    """
    horizon, left = 0, 0

    def is_dead(entry: Entry) -> bool:
        nonlocal horizon, left
        if not left:
            horizon, left = horizon_now(), every
        left -= 1
        dead: bool = entry[0] <= horizon
        return dead

    return is_dead
