# SPDX-License-Identifier: Apache-2.0
"""Timers of a replica: those of one key, or of all keys in the order of time.

A replica fires no timer: the next micro-batch of the query fires those that are due by the clock of
this one.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import attrs

from pyflinklike.clock import DurationLike, TimeDomain
from pyflinklike.errors import DeclarationTypeError, ScanDisabledError
from pyflinklike.replica.states import Pick
from pyflinklike.replica.version import RawTimer, Version
from pyflinklike.shown import shown
from pyflinklike.stores.times import TimeLike, to_instant
from pyflinklike.types import TypeInformation

__all__ = ["ReadOnlyTimers", "Timer"]

_BY_TIME = itemgetter(0, 1, 2)


@attrs.frozen
class Timer:
    """A registered timer.

    Args:
        key: The key, a tuple if there are several key columns.
        domain: The clock that the timer follows.
        timestamp: The time at which it is due, in ms.
        namespace: The window, for a timer of windows; else None.
    """

    key: Any
    domain: TimeDomain
    timestamp: int
    namespace: Any = None


class ReadOnlyTimers:
    """The timers of a running query, or of a savepoint, in the order of their times.

    Args:
        key_columns: Names and Spark types of the key columns.
        key_type: The type of the keys as they are stored.
        namespace_type: The type of the namespaces, or None if timers belong to keys alone.
        pick: Chooses the version to read.
        allow_scan: Whether all key groups may be decoded for an answer.
    """

    def __init__(
        self,
        key_columns: Sequence[tuple[str, str]],
        key_type: TypeInformation,
        namespace_type: TypeInformation | None,
        pick: Pick,
        *,
        allow_scan: bool,
    ) -> None:
        self.key_columns = tuple(key_columns)
        """The names and Spark types of the key columns."""
        self.key_type = key_type
        """The type of the keys as they are stored."""
        self.namespace_type = namespace_type
        """The type of the namespaces, such as windows; None if timers belong to keys alone."""
        self._pick = pick
        self._allow_scan = allow_scan

    def get(
        self,
        key: Any,
        *,
        domain: TimeDomain | None = None,
        at_least_batch: int | None = None,
        max_age: DurationLike | None = None,
        timeout: DurationLike | None = None,
    ) -> list[Timer]:
        """Return the timers of a key and of all its windows, in the order of time.

        Args:
            key: The key, a tuple if there are several key columns.
            domain: The domain of the timers; None for both.
            at_least_batch: The number of the micro-batch to wait for; None waits for none.
            max_age: Look for newer batches first if the last look is longer ago than this.
            timeout: The longest wait; by default that of `open_state`.

        Raises:
            StateValueError: The key is not a value of the key columns.
            DeclarationTypeError: The domain is no `TimeDomain`.
            StaleStateError: The replica has not come to that batch within the timeout.
            CorruptStateError: The log of the key group is damaged.
            StoreClosedError: The replica is closed.
        """
        domains = _domains(domain)
        version = self._pick(at_least_batch, max_age, timeout)
        found = sorted(version.timers_of_key(key, domains), key=_BY_TIME)
        return [_timer(version, each) for each in found]

    def all(
        self,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        domain: TimeDomain | None = None,
        reverse: bool = False,
    ) -> Iterator[Timer]:
        """Return the timers of all keys in the order of time, all of one micro-batch.

        Args:
            time_from: Only timers that are due then or later; None for no bound.
            time_to: Only timers that are due then or earlier; None for no bound.
            domain: The domain of the timers; None for both.
            reverse: Whether the latest timers come first.

        Raises:
            ScanDisabledError: The replica was not opened with `allow_scan=True`.
            DeclarationTypeError: The domain is no `TimeDomain`.
            StateValueError, StoreValueError: A bound is no time.
        """
        if not self._allow_scan:
            msg = "timers: scans must be allowed, got all(), which decodes every key group"
            raise ScanDisabledError(f"{msg}; open_state(..., allow_scan=True)")
        domains = _domains(domain)
        begin = None if time_from is None else to_instant(time_from, "time_from")
        end = None if time_to is None else to_instant(time_to, "time_to")
        version = self._pick(None, None, None)
        groups = version.timers(domains, begin, end)
        ordered = [sorted(each, key=_BY_TIME, reverse=reverse) for each in groups]
        merged = heapq.merge(*ordered, key=_BY_TIME, reverse=reverse)
        return (_timer(version, each) for each in merged)

    def __repr__(self) -> str:
        return f"ReadOnlyTimers({list(self.key_columns)})"


def _domains(domain: TimeDomain | None) -> tuple[TimeDomain, ...]:
    if domain is None:
        return tuple(TimeDomain)
    if not isinstance(domain, TimeDomain):
        msg = f"domain takes a TimeDomain, got {shown(domain)}; give TimeDomain.EVENT_TIME, say"
        raise DeclarationTypeError(msg)
    return (domain,)


def _timer(version: Version, raw: RawTimer) -> Timer:
    timestamp, domain, _, stored = raw
    key, namespace = version.thawed(stored)
    return Timer(key, TimeDomain(domain), timestamp, namespace)
