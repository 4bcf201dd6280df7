# SPDX-License-Identifier: Apache-2.0
"""Cleanup of expired entries that nobody reads, over all states of an operator.

The TTL of each state decides which entries are expired.  Reads and incremental cleanup delete some
by themselves.  Three cases are left:

* a compaction of the log deletes expired entries first, and is due by age alone where
  `cleanup_in_rocksdb_compact_filter` names a period;
* a key group may get no more records: a host that can call it without records learns when
  everything that is stored now will have expired;
* a full snapshot may leave out expired entries that the working state still has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.runtime.extension import Extension
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.table import TableChanges
from pyflinklike.state.ttl_rules import TtlRules

__all__ = ["StateCleanup"]


class StateCleanup:
    """Background cleanup of the states of one operator, in its current key group.

    Args:
        assembled: The states by name; the mapping may grow.
    """

    def __init__(self, assembled: Mapping[str, Assembled], clock: Clock) -> None:
        self._assembled = assembled
        self._clock = clock
        self._extensions: list[Extension] = []

    def join(self, extension: Extension) -> None:
        """Let an extension delete its expired entries, by its own rules, whenever states do."""
        self._extensions.append(extension)

    def now(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def _in_background(self) -> Iterator[TtlRules]:
        for assembled in self._assembled.values():
            if assembled.ttl is not None and assembled.ttl.in_background:
                yield assembled.ttl

    def drop_expired(self) -> None:
        """Delete expired entries of all states with background cleanup, and of extensions."""
        for ttl in self._in_background():
            ttl.drop_expired()
        for extension in self._extensions:
            extension.drop_expired()

    def sweep(self, domain: TimeDomain, due: int | None) -> int | None:
        """Delete expired entries if it is time to, and return the time of the next sweep.

        Args:
            domain: The domain by whose time the host can call the key group without records.
            due: The time that the last call returned for the key group, in ms.

        Returns:
            A time in ms, or None if nothing can expire in this domain.
        """
        swept = [ttl for ttl in self._in_background() if ttl.time_domain is domain]
        if due is not None and due <= self._time_in(domain):
            for ttl in swept:
                ttl.drop_expired()
            due = None
        again = [ttl.sweep_again_at() for ttl in swept if ttl.count()]
        if not again:
            return None
        # A time that was set is kept.  So a sweep looks at a key group in use once in the length of a
        # TTL, and an idle one is clean a TTL after its last entry has expired.
        return min(again) if due is None else due

    def _time_in(self, domain: TimeDomain) -> int:
        clock = self._clock
        return clock.watermark if domain is TimeDomain.EVENT_TIME else clock.processing_time

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Return whether a log may hold expired entries for longer than a state's TTL allows.

        Args:
            compacted_at: The processing time of the log's last snapshot, in ms.
        """
        age = self.now() - compacted_at
        return any(0 < ttl.compaction_period <= age for ttl in self._in_background())

    def without_expired(self, contents: TableChanges) -> TableChanges:
        """Return the entries that belong into a full snapshot, by `cleanup_full_snapshot`."""
        assembled = self._assembled.get(contents.spec.name)
        ttl = assembled.ttl if assembled is not None else None
        if ttl is None or not ttl.in_full_snapshot:
            return contents
        kept: TableChanges = ttl.without_expired(contents)
        return kept

    def take_expired(self) -> int:
        """Count the entries that expired and were deleted since the last call."""
        expired = 0
        for assembled in self._assembled.values():
            if assembled.ttl is not None:
                expired += assembled.ttl.expired
                assembled.ttl.expired = 0
        return expired
