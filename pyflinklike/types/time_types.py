# SPDX-License-Identifier: Apache-2.0
"""The types of dates and times, `Instant`, and instants as local times of a session.

SQL types have no time zone.  A value with a time zone is refused; shifting it silently would be worse.
`fold` is dropped, because equality ignores it and a column cannot keep it.

A function sees an instant of a record as PySpark shows it: a naive `datetime` in the session's time
zone.  When clocks go back, an hour comes twice.  As everywhere in Python, `fold` is 1 in the second one
(PEP 495, https://peps.python.org/pep-0495/).  So an instant becomes a local time and back without loss.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._checks import is_int, is_int64
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.types.type_information import (
    MISFITS,
    NO_VALUE,
    Column,
    TypeInformation,
    plain,
)


@attrs.frozen(order=True)
class Instant:
    """A point of time in UTC, as `pyflink.common.time.Instant`.

    Args:
        seconds: Seconds since 1970; negative for earlier instants.
        nanos: Nanoseconds after that second, 0 to 999,999,999.
    """

    seconds: int
    nanos: int

    def __attrs_post_init__(self) -> None:
        """Check that a column can hold the numbers."""
        if type(self.seconds) is not int or type(self.nanos) is not int:
            msg = f"an Instant takes ints, got {short_repr(self.seconds)}, {short_repr(self.nanos)}; use Instant.of_epoch_milli"
            raise DeclarationTypeError(msg)
        if not (-(2**63) <= self.seconds < 2**63 and 0 <= self.nanos < 1_000_000_000):
            msg = (
                "an Instant takes 64 bits of seconds and nanos in 0..999999999, "
                f"got {short_repr(self.seconds)}, {short_repr(self.nanos)}; carry whole seconds over"
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
        """Pickle the call that makes the instant, so that pickles do not depend on its fields."""
        return Instant, (self.seconds, self.nanos)

    def __repr__(self) -> str:
        return f"Instant<{self.seconds}, {self.nanos}>"


_MICROS = pa.timestamp("us")
_OF_MS = "datetime.fromtimestamp(ms / 1000, timezone.utc)"


@attrs.frozen(repr=False)
class InstantTypeInfo(TypeInformation[Instant]):
    """INSTANT: an `Instant`, or None."""

    shown: ClassVar[str] = "Instant"
    takes: ClassVar[str] = "an Instant"
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


@attrs.frozen(repr=False)
class DateTypeInfo(TypeInformation[dt.date]):
    """SQL_DATE: a `datetime.date`, or None."""

    shown: ClassVar[str] = "DateTypeInfo"
    takes: ClassVar[str] = "a datetime.date"
    accepts_none: ClassVar[bool] = True
    written: ClassVar[frozenset[type]] = frozenset({dt.date, NO_VALUE})
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.date32())

    def freeze(self, value: Any) -> Any:
        """Return the date itself."""
        if type(value) is dt.date or value is None:
            return value
        day = plain(value)
        if isinstance(day, dt.date) and not isinstance(day, dt.datetime):
            return dt.date(day.year, day.month, day.day)
        raise self._misfit(value, _remedy(value, f"{_OF_MS}.date()", "use its date()"))

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain dates."""
        return set(map(type, values)) == {dt.date}


@attrs.frozen(repr=False)
class TimeTypeInfo(TypeInformation[dt.time]):
    """SQL_TIME: a `datetime.time` without a time zone, or None."""

    shown: ClassVar[str] = "TimeTypeInfo"
    takes: ClassVar[str] = "a datetime.time without a time zone"
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


@attrs.frozen(repr=False)
class TimestampTypeInfo(TypeInformation[dt.datetime]):
    """SQL_TIMESTAMP: a `datetime.datetime` without a time zone, or None."""

    shown: ClassVar[str] = "TimestampTypeInfo"
    takes: ClassVar[str] = "a datetime.datetime without a time zone"
    accepts_none: ClassVar[bool] = True
    written: ClassVar[frozenset[type]] = frozenset({dt.datetime, NO_VALUE})
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=_MICROS)

    def freeze(self, value: Any) -> Any:
        """Return the datetime itself, or a plain one that is equal to a subclass's, such as pandas'."""
        if type(value) is dt.datetime and value.tzinfo is None and not value.fold:
            return value
        if value is None:
            return None
        moment = plain(value)
        if isinstance(moment, dt.datetime) and moment.tzinfo is None:
            found = _whole_micros(moment)
            if found is not None:
                return found.replace(fold=0)
        of_ms = f"{_OF_MS}.replace(tzinfo=None)"
        zoned = "convert it to UTC and use replace(tzinfo=None)"
        raise self._misfit(value, _remedy(value, of_ms, zoned))

    def _write(self, values: Sequence[Any]) -> Column | None:
        # For a datetime with a zone, Arrow would write the time in UTC.
        return super()._write(values) if _zones_of(values) <= _NAIVE else None

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain datetimes, without a time zone and with fold 0."""
        is_plain = set(map(type, values)) == {dt.datetime}
        return is_plain and set(map(_ZONE_AND_FOLD, values)) == {(None, 0)}


@attrs.frozen(repr=False)
class LocalTimeTypeInfo(TypeInformation[dt.datetime]):
    """The type of a column of instants: a datetime, stored as a local time, or None.

    Args:
        time_zone: The session's zone: functions see instants in it, and naive datetimes are read in it.
    """

    shown: ClassVar[str] = "timestamp"
    accepts_none: ClassVar[bool] = True
    written: ClassVar[frozenset[type]] = frozenset({dt.datetime, NO_VALUE})

    time_zone: str = attrs.field(eq=False)
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.timestamp("us", "UTC"))

    def freeze(self, value: Any) -> Any:
        """Return the datetime as a naive one in the zone."""
        if (type(value) is dt.datetime and value.tzinfo is None) or value is None:
            return value
        moment = plain(value)
        if isinstance(moment, dt.datetime):
            found = _whole_micros(moment)
            try:
                if found is not None:
                    return found if found.tzinfo is None else local_time(found, self.time_zone)
            except OverflowError:
                raise self._misfit(value, "its year in that zone is not in 1 to 9999") from None
        raise self._misfit(value, _remedy(value, _OF_MS, "give a datetime"))

    def are_stored(self, values: Sequence[Any]) -> bool:
        """Return whether all are plain datetimes without a time zone."""
        is_plain = set(map(type, values)) == {dt.datetime}
        return is_plain and set(map(_ZONE, values)) == {None}

    def to_arrow(self, stored: Sequence[Any]) -> Column:
        """Write the instants of local times.

        Raises:
            StateValueError: The clocks of the zone never show a local time.
        """
        try:
            return to_instants(stored, self.time_zone).cast(self.arrow_type)
        except MISFITS:
            for each in stored:
                self._check_shown(each)
            raise

    def _write(self, values: Sequence[Any]) -> Column | None:
        zones = _zones_of(values)
        if _NAIVE.isdisjoint(zones):
            return super()._write(values)
        is_sure = zones == _NAIVE and self.written.issuperset(map(type, values))
        return to_instants(values, self.time_zone).cast(self.arrow_type) if is_sure else None

    def _check_shown(self, value: dt.datetime | None) -> None:
        try:
            to_instants([value], self.time_zone)
        except MISFITS:
            raise self._misfit(
                value, f"{self.time_zone} never shows that time: give one with its time zone"
            ) from None

    def from_arrow(self, column: Column) -> list[Any]:
        """Read the instants as local times."""
        return to_local_times(column, self.time_zone)

    def _takes(self) -> str:
        return f"a datetime.datetime with a time zone, or one that clocks in {self.time_zone} show"


@attrs.frozen(repr=False)
class IntervalTypeInfo(TypeInformation[dt.timedelta]):
    """The type of a column of intervals: a timedelta, or None."""

    shown: ClassVar[str] = "interval"
    takes: ClassVar[str] = "a datetime.timedelta within 64 bits of microseconds"
    accepts_none: ClassVar[bool] = True
    written: ClassVar[frozenset[type]] = frozenset({dt.timedelta, NO_VALUE})
    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.duration("us"))

    def freeze(self, value: Any) -> Any:
        """Return the timedelta itself."""
        if value is None:
            return None
        length = plain(value)
        # A timedelta of pandas has nanoseconds, which a column cannot keep.
        if isinstance(length, dt.timedelta) and not getattr(length, "nanoseconds", 0):
            made = dt.timedelta(length.days, length.seconds, length.microseconds)
            if is_int64(made // dt.timedelta.resolution):
                return made
        raise self._misfit(value, "for a number of ms use timedelta(milliseconds=...)")


_ZONE = attrgetter("tzinfo")
_ZONE_AND_FOLD = attrgetter("tzinfo", "fold")
_NAIVE = frozenset({None})


def _zones_of(values: Sequence[Any]) -> set[dt.tzinfo | None]:
    """Return the time zones of datetimes.

    Raises:
        TypeError: A value is no datetime.
    """
    try:
        return set(map(_ZONE, values))
    except AttributeError:  # a value is None, or no datetime
        pass
    try:
        return set(map(_ZONE, filter(None, values)))
    except AttributeError as error:
        raise TypeError from error


def _whole_micros(moment: dt.datetime) -> dt.datetime | None:
    """Return a plain datetime for one of a subclass, such as pandas'; None if there is no equal one."""
    if getattr(moment, "nanosecond", 0):
        return None
    try:
        day = moment.year, moment.month, moment.day
        clock = moment.hour, moment.minute, moment.second, moment.microsecond
        return dt.datetime(*day, *clock, moment.tzinfo, fold=moment.fold)
    except (TypeError, ValueError):  # pandas' NaT is a datetime whose year is NaN
        return None


def _remedy(value: Any, of_ms: str, of_datetime: str) -> str:
    """Return the remedy for a value that does not fit a column of dates or times.

    Args:
        value: The value that was refused.
        of_ms: An expression that makes a fitting value of ms since 1970.
        of_datetime: The words that say how to make one of a datetime.
    """
    moment = plain(value)
    if moment is None or getattr(moment, "year", 0) != getattr(moment, "year", 0):
        return "use None for a missing one"  # NumPy's or pandas' NaT; pandas' has NaN as its year
    if getattr(moment, "nanosecond", 0) or type(moment).__name__ == "datetime64":
        return "round it to microseconds"
    if is_int(moment):
        return f"for ms since 1970 use {of_ms}"
    return of_datetime if isinstance(moment, dt.datetime) else "convert it"


# Instants and local times

# A change of clocks shortly before or after the times may still repeat one of them.
_MARGIN = dt.timedelta(days=1)
_DAYS = dt.timedelta(days=14)
_END_OF_TABLES = 2037
"""Arrow knows no change of clocks after that year, but Python does; here Arrow's answer counts."""


def to_instant(local: dt.datetime, time_zone: str) -> dt.datetime:
    """Return a datetime as an instant in UTC; a naive one is a local time in `time_zone`."""
    if local.tzinfo is None:
        if local.year >= _END_OF_TABLES:
            instant: dt.datetime = to_instants([local], time_zone)[0].as_py()
            return instant.astimezone(dt.timezone.utc)
        local = local.replace(tzinfo=_zone_of(time_zone))
    return local.astimezone(dt.timezone.utc)


def local_time(instant: dt.datetime, time_zone: str) -> dt.datetime:
    """Return an instant as a naive datetime in `time_zone`; its `fold` says which hour it is."""
    if instant.year >= _END_OF_TABLES:
        local: dt.datetime = to_local_times(pa.array([instant]), time_zone)[0]
        return local
    return instant.astimezone(_zone_of(time_zone)).replace(tzinfo=None)


def to_instants(values: Sequence[Any], time_zone: str) -> pa.Array:
    """Make a column of instants from naive datetimes and None.

    Raises:
        ArrowException: Clocks in the zone never show a time, because they went forward over it.
    """
    naive = pa.array(values, _MICROS)
    first = _first(naive, time_zone)
    if not _may_repeat(naive, time_zone):
        return first
    # The two readings differ only for times that the clocks show twice.
    second = pc.assume_timezone(naive, time_zone, ambiguous="latest", nonexistent="raise")
    twice = pc.not_equal(first, second)
    if not pc.any(twice).as_py():
        return first
    folded = pa.array([value is not None and bool(value.fold) for value in values])
    return pc.if_else(pc.and_(twice, folded), second, first)


def to_local_times(instants: pa.Array, time_zone: str) -> list[Any]:
    """Return the naive datetimes of a column of instants, with their `fold`."""
    instants = instants.cast(pa.timestamp("us", tz=time_zone))
    local = pc.local_timestamp(instants)
    values: list[Any] = local.to_numpy(zero_copy_only=False).tolist()
    if _may_repeat(local, time_zone):
        second = pc.not_equal(_first(local, time_zone), instants)
        for at in pc.indices_nonzero(second).to_pylist():
            values[at] = values[at].replace(fold=1)
    return values


@lru_cache(maxsize=16)
def _zone_of(name: str) -> dt.tzinfo:
    """Return a time zone by a name of Spark and Arrow, such as America/New_York or +02:00."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        epoch = pa.scalar(0, pa.timestamp("us", tz=name)).as_py()
        zone: dt.tzinfo = epoch.tzinfo
        return zone


def _first(local: pa.Array, time_zone: str) -> pa.Array:
    return pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="raise")


def _may_repeat(local: pa.Array, time_zone: str) -> bool:
    """Return whether clocks may go back around these times; to check all of them would be slow."""
    zone = _zone_of(time_zone)
    if zone.utcoffset(None) is not None:
        return False  # the offset is the same at all times
    ends = pc.min_max(local).as_py()
    least, greatest = ends["min"], ends["max"]
    if least is None:
        return False
    try:
        before, after = least - _MARGIN, greatest + _MARGIN
    except OverflowError:
        return True
    # Clocks never go forward and back again within so few days.
    return after - before > _DAYS or zone.utcoffset(before) != zone.utcoffset(after)
