# SPDX-License-Identifier: Apache-2.0
"""Time as the runtime sees it: a clock that only its host may move.

A host owns one `Clock`, assigns `processing_time` and `watermark` between calls, and leaves it alone
during a call.  The code below a host never reads a wall clock.  So every decision within one call is
taken at one instant, and a retried micro-batch decides as its first attempt did.  Code without a host,
such as a view, takes a function that returns the time, by default `wall_clock`.

All instants and durations are integers of milliseconds.  `to_milliseconds` converts what a user may
give: PyFlink's `Time` and `Duration`, and Python's `timedelta`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Union

import attrs

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError

MIN_WATERMARK = -(2**63)
"""The watermark before any event was seen, as Flink's Long.MIN_VALUE."""

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last event of a bounded input, as Flink's Long.MAX_VALUE."""


class TimeDomain(Enum):
    """The clock that a timer follows, as `pyflink.datastream.TimeDomain`."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


@attrs.define
class Clock:
    """The times of an operator, in ms.  Only its host and its operator assign to it.

    Args:
        processing_time: The wall clock in ms since 1970, frozen for the length of a call.
        watermark: The time that event time has reached, in ms.
        timestamp: The event time of the current element in ms; None if it has no time, and while
            timers fire.
    """

    _processing_time: int = 0
    _watermark: int = MIN_WATERMARK
    timestamp: int | None = None
    _watchers: list[Callable[[], None]] = attrs.field(
        factory=list, init=False, eq=False, repr=False
    )

    @property
    def processing_time(self) -> int:
        """The wall clock in ms, frozen for the length of a call."""
        return self._processing_time

    @processing_time.setter
    def processing_time(self, processing_time: int) -> None:
        self._processing_time = processing_time
        self._call_watchers()

    @property
    def watermark(self) -> int:
        """The time that event time has reached, in ms."""
        return self._watermark

    @watermark.setter
    def watermark(self, watermark: int) -> None:
        self._watermark = watermark
        self._call_watchers()

    def watch(self, moved: Callable[[], None]) -> None:
        """Call `moved` now, and whenever the host assigns one of the two times."""
        # A watcher need not compare the time for every record.  The timestamp has no watchers,
        # because it changes with every record.
        self._watchers.append(moved)
        moved()

    def _call_watchers(self) -> None:
        for moved in self._watchers:
            moved()


@attrs.frozen
class Time:
    """A length of time, as `pyflink.common.Time`.

    Args:
        milliseconds: The length in ms, which may be negative.
    """

    _milliseconds: int

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """Make a length of a number of ms."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """Make a length of a number of seconds."""
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """Make a length of a number of minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """Make a length of a number of hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """Make a length of a number of days."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """Return the length in ms."""
        return self._milliseconds

    def __reduce__(self) -> tuple[type[Time], tuple[int]]:
        """Pickle the call that makes the length, so that pickles do not depend on its fields."""
        return Time, (self._milliseconds,)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


@attrs.frozen
class Duration:
    """A length of time, as `pyflink.common.Duration`, without a JVM behind it.

    Args:
        nanoseconds: The length in ns, which may be negative.
    """

    _nanoseconds: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """Make a length of a number of days."""
        return Duration(days * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """Make a length of a number of hours."""
        return Duration(hours * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """Make a length of a number of minutes."""
        return Duration(minutes * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """Make a length of a number of seconds."""
        return Duration(seconds * 1_000_000_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """Make a length of a number of ms."""
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """Make a length of a number of ns."""
        return Duration(nanos)

    def to_milliseconds(self) -> int:
        """Return the length in whole ms, rounded down as by Java's Duration.toMillis."""
        return self._nanoseconds // 1_000_000

    def __reduce__(self) -> tuple[type[Duration], tuple[int]]:
        """Pickle the call that makes the length, so that pickles do not depend on its fields."""
        return Duration, (self._nanoseconds,)


DurationLike = Union[Time, Duration, timedelta, int]
"""The types that a length of time may have; an int is ms."""


def to_milliseconds(length: DurationLike, what: str = "a duration") -> int:
    """Return a length of time in whole ms.

    Args:
        length: A `Time`, `Duration`, `timedelta`, or an int of ms.
        what: The name of the argument, which a message begins with.

    Raises:
        DeclarationTypeError: The length has another type (a bool is no int here).
    """
    if isinstance(length, (Time, Duration)):
        milliseconds = length.to_milliseconds()
    elif isinstance(length, timedelta):
        # Rounded down, as Java's Duration.toMillis and `Duration` above do.
        milliseconds = length // timedelta(milliseconds=1)
    else:
        milliseconds = length
    if not is_int(milliseconds):
        msg = (
            f"{what} must be a timedelta, Time, Duration or an int of ms, "
            f"got {short_repr(length)}; write for example timedelta(hours=1)"
        )
        raise DeclarationTypeError(msg)
    return milliseconds


def wall_clock() -> int:
    """Return the system's time in ms since 1970."""
    return time.time_ns() // 1_000_000
