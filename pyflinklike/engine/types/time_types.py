# SPDX-License-Identifier: Apache-2.0
"""The types of dates and times, and `Instant`.

SQL types have no time zone.  A value with one is refused instead of being shifted
silently, and `fold` is dropped, since equality ignores it and a column cannot keep it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown
from pyflinklike.types.base import Column, TypeInformation


@attrs.frozen(order=True)
class Instant:
    """A point of time in UTC, as `pyflink.common.time.Instant`.

    Args:
        seconds: Seconds since 1970; negative before.
        nanos: Nanoseconds after that second, 0 to 999,999,999.
    """

    seconds: int
    nanos: int

    def __attrs_post_init__(self) -> None:
        """Check that a column can hold the numbers."""
        if type(self.seconds) is not int or type(self.nanos) is not int:
            msg = f"an Instant takes ints, got {shown(self.seconds)}, {shown(self.nanos)}; use Instant.of_epoch_milli"
            raise DeclarationTypeError(msg)
        if not (-(2**63) <= self.seconds < 2**63 and 0 <= self.nanos < 1_000_000_000):
            msg = (
                "an Instant takes 64 bits of seconds and nanos in 0..999999999, "
                f"got {shown(self.seconds)}, {shown(self.nanos)}; carry whole seconds over"
            )
            raise DeclarationValueError(msg)

    @staticmethod
    def of_epoch_milli(epoch_milli: int) -> Instant:
        """Return the instant that is `epoch_milli` ms after 1970."""
        seconds, millis = divmod(epoch_milli, 1_000)
        return Instant(seconds, millis * 1_000_000)

    def to_epoch_milli(self) -> int:
        """Return whole ms since 1970, rounded down."""
        return self.seconds * 1_000 + self.nanos // 1_000_000

    def __reduce__(self) -> tuple[type[Instant], tuple[int, int]]:
        """Pickle the call that makes the instant, not its fields."""
        return Instant, (self.seconds, self.nanos)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


@attrs.frozen(repr=False)
class InstantTypeInfo(TypeInformation[Instant]):
    """INSTANT: an `Instant`, or None."""

    accepts_none: ClassVar[bool] = True
    arrow_type: Any = attrs.field(
        init=False, eq=False, default=pa.struct([("seconds", pa.int64()), ("nanos", pa.int32())])
    )

    def freeze(self, value: Any) -> Any:
        """Return the instant itself."""
        if type(value) is Instant or value is None:
            return value
        raise self._misfit(value, "for epoch ms use Instant.of_epoch_milli")

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write seconds and nanos side by side."""
        seconds = pa.array([v if v is None else v.seconds for v in stored], pa.int64())
        nanos = pa.array([v if v is None else v.nanos for v in stored], pa.int32())
        mask = pa.array([v is None for v in stored], pa.bool_())
        return pa.StructArray.from_arrays([seconds, nanos], fields=list(self.arrow_type), mask=mask)

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the instants."""
        parts = zip(
            column.is_valid().to_pylist(), column.field(0).to_pylist(), column.field(1).to_pylist()
        )
        return [Instant(seconds, nanos) if valid else None for valid, seconds, nanos in parts]

    def _takes(self) -> str:
        return "an Instant"

    def __repr__(self) -> str:
        return "Instant"


@attrs.frozen(repr=False)
class DateTypeInfo(TypeInformation[dt.date]):
    """SQL_DATE: a `datetime.date`, or None."""

    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.date32())

    def freeze(self, value: Any) -> Any:
        """Return the date itself."""
        if type(value) is dt.date or value is None:
            return value
        if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
            return dt.date(value.year, value.month, value.day)
        raise self._misfit(value, "for a datetime use its date()")

    def _takes(self) -> str:
        return "a datetime.date"

    def __repr__(self) -> str:
        return "DateTypeInfo"


@attrs.frozen(repr=False)
class TimeTypeInfo(TypeInformation[dt.time]):
    """SQL_TIME: a `datetime.time` without a time zone, or None."""

    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.time64("us"))

    def freeze(self, value: Any) -> Any:
        """Return the time itself."""
        if value is None:
            return None
        if not isinstance(value, dt.time) or value.tzinfo is not None:
            raise self._misfit(value, "drop its time zone or convert it")
        if type(value) is dt.time and not value.fold:
            return value
        return dt.time(value.hour, value.minute, value.second, value.microsecond)

    def _takes(self) -> str:
        return "a datetime.time without a time zone"

    def __repr__(self) -> str:
        return "TimeTypeInfo"


@attrs.frozen(repr=False)
class TimestampTypeInfo(TypeInformation[dt.datetime]):
    """SQL_TIMESTAMP: a `datetime.datetime` without a time zone, or None."""

    accepts_none: ClassVar[bool] = True
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.timestamp("us"))

    def freeze(self, value: Any) -> Any:
        """Return the datetime itself; of a subclass, such as pandas', whole microseconds."""
        if type(value) is dt.datetime and value.tzinfo is None and not value.fold:
            return value
        if value is None:
            return None
        if not isinstance(value, dt.datetime) or value.tzinfo is not None:
            raise self._misfit(value, "convert it to UTC and use replace(tzinfo=None)")
        try:
            return dt.datetime.combine(dt.date(value.year, value.month, value.day), _clock(value))
        except (TypeError, ValueError):  # pandas' NaT is a datetime whose year is NaN
            raise self._misfit(value, "use None for a missing timestamp") from None

    def _takes(self) -> str:
        return "a datetime.datetime without a time zone"

    def __repr__(self) -> str:
        return "TimestampTypeInfo"


def _clock(value: dt.datetime) -> dt.time:
    return dt.time(value.hour, value.minute, value.second, value.microsecond)
