# SPDX-License-Identifier: Apache-2.0
"""The timers of a key group in the order of their times, derived from the table that stores them.

The table is the truth: the log and savepoints know only it.  A `TimerHeap` is an index over it, so
that the next timer is found without a scan.  It is built from the table when a key group is loaded.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import attrs

from pyflinklike._clock import TimeDomain
from pyflinklike.state.table import RESERVED_PREFIX, Shape, TableSpec
from pyflinklike.types import TypeInformation, Types

__all__ = ["TimerHeap", "timers_spec", "timers_table"]

_IDLE_TIMES = 256


def timers_table(domain: TimeDomain) -> str:
    """Return the name of the table that keeps a domain's timers."""
    return f"{RESERVED_PREFIX}{domain.name.lower()}_timers"


def timers_spec(domain: TimeDomain, namespace_type: TypeInformation | None = None) -> TableSpec:
    """Declare the table that keeps a domain's timers, under their times.

    Args:
        domain: The kind of time.
        namespace_type: Type of the namespaces, if timers belong to a key and a namespace.
    """
    return TableSpec(
        timers_table(domain),
        Shape.MAP,
        "timers",
        user_key_type=Types.LONG(),
        namespace_type=namespace_type,
    )


@attrs.define
class TimerHeap:
    """The timers of one key group by their time.

    Args:
        keys_at: For each time in ms, the keys that have a timer then.  Times without keys are left
            out.
        times: A binary heap of these times.  It may also have times without timers, since deleting
            from the middle of a heap is slow.
    """

    keys_at: dict[int, dict[Hashable, None]] = attrs.field(factory=dict)
    times: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, timers: Iterable[tuple[Hashable, int, Any]]) -> TimerHeap:
        """Build the heap from a scan of the timers' table."""
        keys_at: dict[int, dict[Hashable, None]] = {}
        for key, timestamp, _ in timers:
            keys_at.setdefault(timestamp, {})[key] = None
        # A sorted list is a heap.
        return cls(keys_at, sorted(keys_at))

    def drop_idle_times(self) -> None:
        """Forget times without timers if they are the majority, or far times would pile up."""
        if len(self.times) > 2 * len(self.keys_at) + _IDLE_TIMES:
            self.times[:] = sorted(self.keys_at)
