# SPDX-License-Identifier: Apache-2.0
"""The numbers that an operator counts about itself, for its host to report.

They are sums since the host last took them, so a host can add up the numbers of all key groups
and tasks of a micro-batch.  The user's own metrics are not among them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence

import attrs

from pyflinklike._clock import MIN_WATERMARK


@attrs.define
class OperatorMetrics:
    """Sums over the key groups served since the host took the numbers.

    Args:
        records: Records processed, also if they became dead letters.
        outputs: Elements yielded, to the main and to side outputs.
        late_records: Records whose timestamp the watermark had reached.
        keys: Keys that had a record or a timer that fired.
        timers_fired: Timers fired, of both domains.
        expired_entries: Entries deleted because their TTL had passed.
        key_groups: Key groups served, with records or without.
        warm_loads: Key groups whose working state could be used as it was.
        caught_up_loads: Key groups whose working state was brought up to date.
        cold_loads: Key groups rebuilt from their log.
        segment_bytes: Bytes written to the log.
        compactions: Logs replaced by a snapshot, or removed because no entry was left.
        live_entries: Entries stored in the key groups served, after the commit; expired entries
            count until they are cleaned up.
        timers: Timers registered in the key groups served, after the commit.
        state_bytes: Bytes of the logs of the key groups served, after the commit.
        dead_letters: Records and timers on which the function raised, and which `DeadLetters`
            keeps.
        dropped_entries: Entries of states in `drop_states` that left the log, older writes
            included.
        kept_groups: Key groups that a keeper served; Spark's Python workers served the others.
    """

    records: int = 0
    outputs: int = 0
    late_records: int = 0
    keys: int = 0
    timers_fired: int = 0
    expired_entries: int = 0
    key_groups: int = 0
    warm_loads: int = 0
    caught_up_loads: int = 0
    cold_loads: int = 0
    segment_bytes: int = 0
    compactions: int = 0
    live_entries: int = 0
    timers: int = 0
    state_bytes: int = 0
    dead_letters: int = 0
    dropped_entries: int = 0
    kept_groups: int = 0
    touched: set[Hashable] = attrs.field(factory=set, init=False)
    """The keys of this key group and others that `take` will add to `keys`."""

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the numbers, in the order of `take`."""
        return [field.name for field in attrs.fields(cls) if field.init]

    def add_records(
        self, keys: Sequence[Hashable], timestamps: Sequence[int | None], watermark: int
    ) -> None:
        """Count the records of a key group.

        Args:
            keys: The key of each record, in its frozen form.
            timestamps: Event times in ms: None for records without a time, then ascending.
            watermark: The current watermark in ms.
        """
        self.records += len(keys)
        self.touched.update(keys)
        if watermark > MIN_WATERMARK and timestamps:
            timed = timestamps.count(None) if timestamps[0] is None else 0
            known: Sequence[int] = timestamps  # type: ignore[assignment]
            # Times ascend, so the late records are the first ones that have a time.
            self.late_records += bisect_right(known, watermark, timed) - timed

    def add_batch(self, records: int, late: int) -> None:
        """Count records that came as columns; the caller of the function counts their keys."""
        self.records += records
        self.late_records += late

    def end_group(self) -> None:
        """Count the keys of the key group, and forget them: no other group has the same keys."""
        self.keys += len(self.touched)
        self.touched.clear()

    def take(self) -> list[int]:
        """Return the numbers, and set them to zero."""
        self.end_group()
        numbers = [getattr(self, name) for name in _NAMES]
        for name in _NAMES:
            setattr(self, name, 0)
        return numbers


_NAMES = OperatorMetrics.names()
