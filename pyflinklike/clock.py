# SPDX-License-Identifier: Apache-2.0
"""Time as the runtime sees it: a clock that only its host may move.

Nothing below a host reads a wall clock.  A host owns one `Clock`, assigns
`processing_time` and `watermark` between calls, and leaves it alone during a
call, so that every decision within one call is taken at one instant and a
retried micro-batch decides as its first attempt did.  Code that no host runs, such as a
view, takes a function that tells the time; its default is `wall_clock`.

All instants and durations are integers of milliseconds.  `to_milliseconds`
is the border: it takes PyFlink's `Time` and `Duration` as well as Python's
`timedelta`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Union

import attrs

from pyflinklike.checks import is_int
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "Clock",
    "Duration",
    "DurationLike",
    "Time",
    "TimeDomain",
    "to_milliseconds",
    "wall_clock",
]

MIN_WATERMARK = -(2**63)
"""The watermark before any event was seen, as Flink's Long.MIN_VALUE."""

MAX_WATERMARK = 2**63 - 1
"""The watermark after the last event of a bounded input, as Flink's Long.MAX_VALUE."""


class TimeDomain(Enum):
    """Which clock a timer follows, as `pyflink.datastream.TimeDomain`."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


@attrs.define
class Clock:
    """The times of an operator, in ms.  Only its host and its operator assign to it.

    Args:
        processing_time: The wall clock, frozen for the length of a call.
        watermark: How far event time has come.
        timestamp: Of the element being processed; None where it has none, and in a timer.
    """

    _processing_time: int = 0
    _watermark: int = MIN_WATERMARK
    timestamp: int | None = None
    _watchers: list[Callable[[], None]] = attrs.field(
        factory=list, init=False, eq=False, repr=False
    )

    @property
    def processing_time(self) -> int:
        """The wall clock, frozen for the length of a call."""
        return self._processing_time

    @processing_time.setter
    def processing_time(self, processing_time: int) -> None:
        self._processing_time = processing_time
        self._tell()

    @property
    def watermark(self) -> int:
        """How far event time has come."""
        return self._watermark

    @watermark.setter
    def watermark(self, watermark: int) -> None:
        self._watermark = watermark
        self._tell()

    def watch(self, moved: Callable[[], None]) -> None:
        """Have `moved` called now and whenever either time is assigned.

        For code that would otherwise ask for the time at every record.  An assigned timestamp is not
        announced: there is one for every record.
        """
        self._watchers.append(moved)
        moved()

    def _tell(self) -> None:
        for moved in self._watchers:
            moved()


@attrs.frozen
class Time:
    """A length of time, as `pyflink.common.Time`.

    Args:
        milliseconds: The length in ms.
    """

    _milliseconds: int

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """A length of so many ms."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """A length of so many seconds."""
        return Time(seconds * 1_000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """A length of so many minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """A length of so many hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """A length of so many days."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """The length in ms."""
        return self._milliseconds

    def __reduce__(self) -> tuple[type[Time], tuple[int]]:
        """Pickle the call that makes it, not how it keeps its field."""
        return Time, (self._milliseconds,)

    def __str__(self) -> str:
        return f"{self._milliseconds} ms"


@attrs.frozen
class Duration:
    """A length of time, as `pyflink.common.Duration`, without a JVM behind it.

    Args:
        nanoseconds: The length in ns.
    """

    _nanoseconds: int

    @staticmethod
    def of_days(days: int) -> Duration:
        """A length of so many days."""
        return Duration(days * 86_400_000_000_000)

    @staticmethod
    def of_hours(hours: int) -> Duration:
        """A length of so many hours."""
        return Duration(hours * 3_600_000_000_000)

    @staticmethod
    def of_minutes(minutes: int) -> Duration:
        """A length of so many minutes."""
        return Duration(minutes * 60_000_000_000)

    @staticmethod
    def of_seconds(seconds: int) -> Duration:
        """A length of so many seconds."""
        return Duration(seconds * 1_000_000_000)

    @staticmethod
    def of_millis(millis: int) -> Duration:
        """A length of so many ms."""
        return Duration(millis * 1_000_000)

    @staticmethod
    def of_nanos(nanos: int) -> Duration:
        """A length of so many ns."""
        return Duration(nanos)

    def to_milliseconds(self) -> int:
        """The length in whole ms, rounded down as Java's Duration.toMillis."""
        return self._nanoseconds // 1_000_000

    def __reduce__(self) -> tuple[type[Duration], tuple[int]]:
        """Pickle the call that makes it, not how it keeps its field."""
        return Duration, (self._nanoseconds,)


DurationLike = Union[Time, Duration, timedelta, int]
"""What a user may give for a length of time; an int is ms."""


def to_milliseconds(length: DurationLike, what: str = "a duration") -> int:
    """The length in whole ms.

    Args:
        length: A `Time`, `Duration`, `timedelta`, or an int of ms.
        what: What is being measured, for the message.

    Raises:
        DeclarationTypeError: It is none of these (a bool is not an int).
    """
    if isinstance(length, (Time, Duration)):
        milliseconds = length.to_milliseconds()
    elif isinstance(length, timedelta):
        milliseconds = length // timedelta(milliseconds=1)
    else:
        milliseconds = length
    if not is_int(milliseconds):
        msg = (
            f"{what} must be a timedelta, Time, Duration or an int of ms, "
            f"got {shown(length)}; write for example timedelta(hours=1)"
        )
        raise DeclarationTypeError(msg)
    return milliseconds


def wall_clock() -> int:
    """The system's time in ms since the epoch."""
    return time.time_ns() // 1_000_000
