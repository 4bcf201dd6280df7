# SPDX-License-Identifier: Apache-2.0
"""The rules of one TTL: when an entry is expired, which stamp it gets, and what cleans it up.

The rules are written once, for single entries and for columns of entries: a stamp may be an int, or
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
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK, Clock, TimeDomain
from pyflinklike.state.table import Entry
from pyflinklike.state.ttl_config import StateTtlConfig

__all__ = ["TtlRules", "horizon_at"]


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
