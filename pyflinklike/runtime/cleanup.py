# SPDX-License-Identifier: Apache-2.0
"""Expired entries that nobody reads: when an operator looks for them, and what it leaves out.

`pyflinklike.state.ttl` knows what is expired in one state; here is what concerns all
states of an operator.  Reading and incremental cleanup work by themselves.  Left are

* a compaction of the log, which deletes what is expired first, and is due by age
  alone where `cleanup_in_rocksdb_compact_filter` names a period;
* a key group that gets no more records: a host that can call it without any is told
  when all that is stored now will have expired;
* a full snapshot, which may leave out what the working state still has.
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
        assembled: The states by name; there may be more of them later.
        clock: Tells the time.
    """

    def __init__(self, assembled: Mapping[str, Assembled], clock: Clock) -> None:
        self._assembled = assembled
        self._clock = clock
        self._extensions: list[Extension] = []

    def join(self, extension: Extension) -> None:
        """Have an extension drop what has expired, by its own rules, whenever states do."""
        self._extensions.append(extension)

    def now(self) -> int:
        """The processing time in ms."""
        return self._clock.processing_time

    def _in_background(self) -> Iterator[TtlRules]:
        for assembled in self._assembled.values():
            if assembled.ttl is not None and assembled.ttl.in_background:
                yield assembled.ttl

    def drop_expired(self) -> None:
        """Delete expired entries wherever background cleanup may."""
        for ttl in self._in_background():
            ttl.drop_expired()
        for extension in self._extensions:
            extension.drop_expired()

    def sweep(self, domain: TimeDomain, due: int | None) -> int | None:
        """Delete what has expired if it is time to, and say when it is time again.

        While a key group is in use this looks at all of it once in the length of a TTL.
        One that has gone idle is clean a TTL after its last entry has expired.

        Args:
            domain: In which the host can call the key group without records.
            due: What was returned for the key group before, in ms.

        Returns:
            A time in ms, or None where nothing can expire in this domain.
        """
        swept = [ttl for ttl in self._in_background() if ttl.time_domain is domain]
        if due is not None and due <= self._time_in(domain):
            for ttl in swept:
                ttl.drop_expired()
            due = None
        again = [ttl.sweep_again_at() for ttl in swept if ttl.count()]
        if not again:
            return None
        return min(again) if due is None else due

    def _time_in(self, domain: TimeDomain) -> int:
        clock = self._clock
        return clock.watermark if domain is TimeDomain.EVENT_TIME else clock.processing_time

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Whether a log may hold expired entries for longer than a state's settings allow.

        Args:
            compacted_at: Processing time of its last snapshot, in ms.
        """
        age = self.now() - compacted_at
        return any(0 < ttl.compaction_period <= age for ttl in self._in_background())

    def without_expired(self, contents: TableChanges) -> TableChanges:
        """What a full snapshot takes of a state, as its `cleanup_full_snapshot` says."""
        assembled = self._assembled.get(contents.spec.name)
        ttl = assembled.ttl if assembled is not None else None
        if ttl is None or not ttl.in_full_snapshot:
            return contents
        kept: TableChanges = ttl.without_expired(contents)
        return kept

    def take_expired(self) -> int:
        """How many entries were deleted for their age since the last call."""
        expired = 0
        for assembled in self._assembled.values():
            if assembled.ttl is not None:
                expired += assembled.ttl.expired
                assembled.ttl.expired = 0
        return expired
