# SPDX-License-Identifier: Apache-2.0
"""Points of time as stores take them: ms since the epoch, or a datetime with a time zone."""

from __future__ import annotations

import datetime as dt
from typing import Union

from pyflinklike.checks import is_int
from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import StateValueError, StoreValueError
from pyflinklike.shown import shown

__all__ = ["TimeLike", "saturated", "to_instant", "windows_for"]

TimeLike = Union[int, dt.datetime]
"""A point of time: an int of ms since the epoch, or a datetime with a time zone."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def to_instant(time: TimeLike, what: str = "a time") -> int:
    """The time in ms since the epoch.

    Raises:
        StateValueError: It is neither an int nor a datetime (a bool is no int).
        StoreValueError: It is a datetime without a time zone, or does not fit in 64 bits.
    """
    if isinstance(time, dt.datetime):
        if time.tzinfo is None:
            msg = (
                f"{what} must tell its time zone, got {shown(time)}; "
                "write for example replace(tzinfo=timezone.utc)"
            )
            raise StoreValueError(msg)
        return (time - _EPOCH) // dt.timedelta(milliseconds=1)
    if not is_int(time):
        msg = f"{what} must be an int of ms or a datetime with a time zone, got {shown(time)}; convert it"
        raise StateValueError(msg)
    if not MIN_WATERMARK <= time <= MAX_WATERMARK:
        msg = f"{what} must fit in 64 bits, got {shown(time)}; it is in ms"
        raise StoreValueError(msg)
    return time


def saturated(time: int) -> int:
    """The time, or the largest one."""
    return min(time, MAX_WATERMARK)


def windows_for(timestamp: int, size: int, advance: int | None = None) -> list[int]:
    """The starts of the windows that an event falls into, as Kafka's `TimeWindows.windowsFor`.

    Windows begin at multiples of `advance` (before the epoch, too) and last `size`.

    Args:
        timestamp: Of the event, in ms.
        size: Of a window, in ms.
        advance: From one window's start to the next one's; `size` where not given.

    Raises:
        StoreValueError: `advance` is not in 1..size.
    """
    step = size if advance is None else advance
    if not 0 < step <= size:
        msg = f"windows advance by at least 1 ms and at most their size of {size!r}, got {shown(step)}"
        raise StoreValueError(msg)
    first = (timestamp - size) // step * step + step
    return list(range(first, timestamp + 1, step))
