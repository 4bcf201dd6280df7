# SPDX-License-Identifier: Apache-2.0
"""The results of stores: named tuples, so that `for key, value in store.range()` reads well.

Stores take points of time as ms since the epoch, or as datetimes with a time zone.
"""

from __future__ import annotations

import datetime as dt
from typing import Any, Final, NamedTuple, Union

from pyflinklike._checks import is_int
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._messages import short_repr
from pyflinklike.errors import StateValueError, StoreValueError

NOT_PUT: Final = -(2**63)
"""The result of `VersionedStore.put` for a version older than its history (Kafka: Long.MIN_VALUE)."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def _datetime(milliseconds: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(milliseconds=milliseconds)


class KeyValue(NamedTuple):
    """An entry of a key-value store."""

    key: Any
    value: Any


class WindowedKeyValue(NamedTuple):
    """An entry of a window or session store.

    `start` and `end` are in ms since the epoch.  A window ends before its `end`; a
    session's `end` is the time of its last event, as in Kafka.
    """

    key: Any
    value: Any
    start: int
    end: int

    @property
    def start_time(self) -> dt.datetime:
        """The start in UTC."""
        return _datetime(self.start)

    @property
    def end_time(self) -> dt.datetime:
        """The end in UTC."""
        return _datetime(self.end)


class SessionKey(NamedTuple):
    """The identity of a session: its key, and the times of its first and last event in ms."""

    key: Any
    start: int
    end: int

    @property
    def start_time(self) -> dt.datetime:
        """The time of the first event in UTC."""
        return _datetime(self.start)

    @property
    def end_time(self) -> dt.datetime:
        """The time of the last event in UTC."""
        return _datetime(self.end)


class AbsorbedSession(SessionKey):
    """A session that became part of another one; equal to its `SessionKey`.

    `value` is its last aggregate.  A consumer that keeps a total must subtract it.
    """

    value: Any

    @classmethod
    def of(cls, key: Any, start: int, end: int, value: Any) -> AbsorbedSession:
        """Make the session with its last aggregate."""
        session = cls(key, start, end)
        session.value = value
        return session


class SessionUpdate(NamedTuple):
    """The effect of one event on the sessions of its key.

    `removed` are the sessions that were absorbed.  `session` and `agg` are the event's session and
    its aggregate; both are None if the event came too late or has no value.
    """

    removed: list[AbsorbedSession]
    session: SessionKey | None
    agg: Any
    late: bool


class ValueAndTimestamp(NamedTuple):
    """A value of a timestamped store, and its time in ms since the epoch."""

    value: Any
    timestamp: int

    @staticmethod
    def make(value: Any, timestamp: int) -> ValueAndTimestamp | None:
        """Make the pair; None for the value None, as Kafka's `ValueAndTimestamp.make`."""
        return None if value is None else ValueAndTimestamp(value, timestamp)


class VersionedRecord(NamedTuple):
    """A version of a key: valid from `timestamp` to before `valid_to`, both in ms.

    `valid_to` of the latest version is None.
    """

    value: Any
    timestamp: int
    valid_to: int | None


class ChangelogRecord(NamedTuple):
    """One physical write of a store, after caching.

    `key` is the key, or a tuple if an entry has more than a key: the current key (scope "key")
    first, then the store's key, then window start (and number among duplicates), or session start
    and end.  If the entry was deleted, `value` is None and `op` is "delete" instead of "put".  `ts`
    is the time in ms of the element or timer that wrote the entry, or None; in a timestamped or
    versioned store, it is the value's time.
    """

    store: str
    key: Any
    value: Any
    ts: int | None
    op: str


TimeLike = Union[int, dt.datetime]
"""A point of time: an int of ms since the epoch, or a datetime with a time zone."""


def to_instant(time: TimeLike, what: str = "a time") -> int:
    """Convert a point of time to ms since the epoch.

    Raises:
        StateValueError: The time is neither an int nor a datetime; a bool does not count as int.
        StoreValueError: The time is a datetime without a time zone, or does not fit in 64 bits.
    """
    if isinstance(time, dt.datetime):
        if time.tzinfo is None:
            msg = (
                f"{what} must have a time zone, got {short_repr(time)}; "
                "write for example replace(tzinfo=timezone.utc)"
            )
            raise StoreValueError(msg)
        return (time - _EPOCH) // dt.timedelta(milliseconds=1)
    if not is_int(time):
        msg = f"{what} must be an int of ms or a datetime with a time zone, got {short_repr(time)}; convert it"
        raise StateValueError(msg)
    if not MIN_WATERMARK <= time <= MAX_WATERMARK:
        msg = f"{what} must fit in 64 bits, got {short_repr(time)}; it is in ms"
        raise StoreValueError(msg)
    return time


def saturate(time: int) -> int:
    """Return a time, or the largest one that fits in 64 bits."""
    return min(time, MAX_WATERMARK)


def windows_for(timestamp: int, size: int, advance: int | None = None) -> list[int]:
    """Return the starts of the windows that hold an event, as Kafka's `TimeWindows.windowsFor`.

    Windows begin at multiples of `advance` (before the epoch, too) and last `size`.

    Args:
        timestamp: The time of the event in ms.
        size: The length of a window in ms.
        advance: The time in ms from one window's start to the next one's; None for `size`.

    Raises:
        StoreValueError: `advance` is not in 1..size.
    """
    step = size if advance is None else advance
    if not 0 < step <= size:
        msg = f"windows advance by at least 1 ms and at most their size of {size!r}, got {short_repr(step)}"
        raise StoreValueError(msg)
    first = (timestamp - size) // step * step + step
    return list(range(first, timestamp + 1, step))
