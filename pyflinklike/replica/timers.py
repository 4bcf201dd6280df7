# SPDX-License-Identifier: Apache-2.0
"""The timers of an operator as its replica shows them: those of a key, or of all keys by their time.

A replica fires none: a timer that is due at the clock of the micro-batch is one that the next batch
fires.
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
    """A timer that is registered.

    Args:
        key: Of the stream; of several key columns a tuple.
        domain: Which clock it follows.
        timestamp: When it is due, in ms.
        namespace: Of timers of windows, the window; else None.
    """

    key: Any
    domain: TimeDomain
    timestamp: int
    namespace: Any = None


class ReadOnlyTimers:
    """The timers of a running query, or of a savepoint, in the order of their times.

    Args:
        key_columns: Names and Spark types of the key columns.
        key_type: Of the keys as they are stored.
        namespace_type: Of the namespaces that timers have beside their key, else None.
        pick: Chooses the version that is read.
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
        """Names and Spark types of the key columns."""
        self.key_type = key_type
        """Of the keys as they are stored."""
        self.namespace_type = namespace_type
        """Of the namespaces that timers have beside their key, such as windows; else None."""
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
        """The timers of a key, of all its windows; an empty list where it has none.

        Args:
            key: Of several key columns a tuple.
            domain: Only those of this one.
            at_least_batch: Wait until the replica has come to this micro-batch.
            max_age: Look for newer batches first, if it is longer ago that none was found.
            timeout: How long to wait; by default that of `open_state`.

        Raises:
            StateValueError: The key is not a value of the key columns.
            DeclarationTypeError: The domain is none.
            StaleStateError: The replica has not come as far in that time.
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
        """The timers of all keys by their time, all of one micro-batch.

        Args:
            time_from: Only those that are due then or later; None for no bound.
            time_to: Only those that are due then or before; None for no bound.
            domain: Only those of this one.
            reverse: Whether the last ones come first.

        Raises:
            ScanDisabledError: The replica was not opened with `allow_scan=True`.
            DeclarationTypeError: The domain is none.
            StateValueError, StoreValueError: A time is none.
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
