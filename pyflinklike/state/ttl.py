# SPDX-License-Identifier: Apache-2.0
"""Time-to-live: one policy for any table.  The only place that knows what expires when.

A `TtlTable` is a `Table` of plain values over another table, whose entries are `(stamp, value)`
pairs and which does not know what a stamp is.  So value, reducing and aggregating state have a
TTL per key, map state per entry and list state per element, and none of them has code for it.

The rules are Flink's (`TtlUtils`, `AbstractTtlDecorator`, `TtlMapState`, `TtlListState`):

* An entry stamped `ts` is expired at exactly `ts + ttl`, which saturates at the largest timestamp.
* Reading an expired entry removes it.  `ReturnExpiredIfNotCleanedUp` returns it that once.
* Every write stamps the entry; a read stamps it anew under `OnReadAndWrite`.
* A list judges each element while it is iterated, and drops its expired ones
  only when not one element is alive (or, under `OnReadAndWrite`, as it meets them).
* `is_empty` and `clear` look at no stamp.

The time is the clock's processing time or, for `TtlTimeCharacteristic.EventTime`, its
watermark.  An event-time stamp is the larger of the watermark and the element's timestamp, so
that an entry written ahead of the watermark lives its whole TTL; one written before either is
known stays until it is written again.  Neither moves during a call, so all its checks agree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK, Clock, TimeDomain
from pyflinklike.state.expiry import ExpiredAt, JudgedElements, expired_by_a_moving_clock
from pyflinklike.state.table import MISSING, Entry, Table
from pyflinklike.state.ttl_config import StateTtlConfig

__all__ = ["TtlTable"]

_UNKNOWN = -1
# Of how many entries, after how many accesses.
_SWEEP_EVERY = ((4_096, 64), (129, 16), (0, 1))


class TtlTable:
    """A table whose entries expire.

    Args:
        table: Holds the `(stamp, value)` entries.
        config: An enabled TTL.
        clock: Tells the time, in ms.
    """

    def __init__(self, table: Table, config: StateTtlConfig, clock: Clock) -> None:
        self.spec = table.spec
        self._table = table
        self._get, self._put, self._append = table.get, table.put, table.append
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
        """How many entries were deleted for their age, for the host to count."""
        clock.watch(self._moved)

    def _prepare_cleanup(self, cleanup: StateTtlConfig.CleanupStrategies) -> None:
        incremental = cleanup.get_incremental_cleanup_strategy()
        self._sweep_size = incremental.get_cleanup_size() if incremental else 0
        self._countdown = 1
        self._sweep_left = self._sweep_stored = 0
        self.sweeps_every_record = bool(incremental and incremental.run_cleanup_for_every_record())
        """Whether `sweep_some` shall also run whenever a record's key is selected."""
        self.in_full_snapshot = cleanup.in_full_snapshot()
        """Whether snapshots shall leave expired entries out."""
        compaction = cleanup.get_rocksdb_compact_filter_cleanup_strategy()
        self.in_background = compaction is not None
        """Whether expired entries may be dropped while nobody reads them, as by a compaction."""
        self._judged_by_one_reading = 1
        self.compaction_period = 0
        """The age in ms at which a log is compacted for its expired entries; 0 is never."""
        if compaction is not None:
            self._judged_by_one_reading = max(compaction.get_query_time_after_num_entries(), 1)
            self.compaction_period = compaction.get_periodic_compaction_time().to_milliseconds()

    def __repr__(self) -> str:
        return f"TtlTable({self._table!r}, ttl={self._ttl} ms)"

    # The time

    def _moved(self) -> None:
        clock = self._clock
        now = clock.watermark if self._event_time else clock.processing_time
        self._now = now
        self._horizon = MAX_WATERMARK if now >= MAX_WATERMARK else now - self._ttl
        self._dead = ExpiredAt(self._horizon)
        self.entered()

    def stamp(self) -> int:
        """The stamp of an entry written now, in ms."""
        if not self._event_time:
            return self._now
        stamp, timestamp = self._now, self._clock.timestamp
        if timestamp is not None and timestamp > stamp:
            stamp = timestamp
        # No time is known yet, so its age cannot be told: it does not expire.
        return MAX_WATERMARK if stamp == MIN_WATERMARK else stamp

    @property
    def time_domain(self) -> TimeDomain:
        """Which time makes entries expire."""
        return TimeDomain.EVENT_TIME if self._event_time else TimeDomain.PROCESSING_TIME

    def sweep_again_at(self) -> int:
        """When all that is stamped now will have expired, in ms; long ago before any watermark."""
        return min(self._now + self._ttl, MAX_WATERMARK)

    def dead_now(self) -> Callable[[Entry], bool]:
        """A test for entries that are expired at this moment."""
        return self._dead

    # Reading

    def get(self, user_key: Hashable) -> Any:
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
        """Each entry judged as it is reached, as Flink's TtlMapState."""
        if self._sweep_left:
            self.sweep_some()
        return self._judged_items(self._table.items())

    def _judged_items(self, items: Iterable[tuple[Any, Entry]]) -> Iterator[tuple[Any, Any]]:
        for user_key, entry in items:
            if entry[0] <= self._horizon:
                self._delete_if_unchanged(user_key, entry)
                if not self._return_expired:
                    continue
            elif self._refresh and self._table.get(user_key) == entry:
                self._table.put(user_key, (self.stamp(), entry[1]))
            yield user_key, entry[1]

    def elements(self) -> Iterable[Any]:
        """The elements of a list, judged while they are iterated, as Flink's TtlListState."""
        if self._sweep_left:
            self.sweep_some()
        items = list(self._table.items())
        if self._refresh:
            stamp, horizon = self.stamp(), self._horizon
            self._table.multi_put(
                [(at, (stamp, entry[1])) for at, entry in items if entry[0] > horizon]
            )
        return JudgedElements(self._judged_elements, items)

    def _judged_elements(self, items: list[tuple[Any, Entry]]) -> Iterator[Any]:
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
        # The user may have written to what is being iterated over.
        if self._table.get(user_key) == entry:
            self._table.delete(user_key)
            self.expired += 1

    def is_empty(self) -> bool:
        """Whether nothing is stored, expired or not, as Flink's TtlMapState.isEmpty."""
        if self._sweep_left:
            self.sweep_some()
        return self._table.is_empty()

    # Writing

    def put(self, user_key: Hashable, value: Any) -> None:
        if self._sweep_left:
            self._countdown -= 1
            if not self._countdown:
                self._sweep_now()
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
        """Flink's incremental cleanup: look at the next few entries of the state.

        A large table is swept every few accesses with a matching number of entries: the same
        progress at a fraction of the cost.  After a whole pass it waits until the time moves.
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
            # The cursor may be mid-table; two passes contain one whole pass.
            self._sweep_left = 2 * (stored + size)
            self._sweep_stored = stored
        self.expired += self._table.sweep(size, self._dead, self._dead.any_of)
        self._sweep_left = max(self._sweep_left - size, 0)
        if not self._sweep_left and stored > self._sweep_stored:
            # The pass has also looked at entries added since, and so may have missed older ones.
            self._sweep_left = 2 * (stored - self._sweep_stored)
            self._sweep_stored = stored

    def entered(self) -> None:
        """The table holds other entries than before: those of another key group."""
        self._sweep_left = _UNKNOWN if self._sweep_size else 0

    def scan(self) -> Iterator[tuple[Hashable, Any, Any]]:
        """Every value of the key group, expired or not, without its stamp."""
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
        """Delete every expired entry of the key group; the number deleted.

        As Flink's compaction filter, it asks for the time again after a number of entries.
        """
        dropped = self._table.sweep_all(
            expired_by_a_moving_clock(lambda: self._horizon, self._judged_by_one_reading)
        )
        self.expired += dropped
        return dropped

    def count(self) -> int:
        return self._table.count()
