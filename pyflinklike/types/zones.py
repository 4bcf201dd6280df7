# SPDX-License-Identifier: Apache-2.0
"""Between instants and the local times of the session, both ways without loss.

A function sees an instant as PySpark shows it: a naive `datetime` in the session's time zone.  When
clocks go back, an hour comes twice; as everywhere in Python, `fold` is 1 in the second one (PEP
495).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["local_time", "to_instant", "to_instants", "to_local_times"]

_MICROS = pa.timestamp("us")
_MARGIN = dt.timedelta(days=1)
_DAYS = dt.timedelta(days=14)
_END_OF_TABLES = 2037
"""Arrow knows no change of clocks after that year, and Python does; columns decide."""


@lru_cache(maxsize=16)
def zone_of(name: str) -> dt.tzinfo:
    """Return a time zone by a name of Spark and Arrow, such as America/New_York or +02:00."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError):
        epoch = pa.scalar(0, pa.timestamp("us", tz=name)).as_py()
        zone: dt.tzinfo = epoch.tzinfo
        return zone


def to_instant(local: dt.datetime, time_zone: str) -> dt.datetime:
    """Return a datetime as an instant in UTC; one without a zone is taken to be in `time_zone`."""
    if local.tzinfo is None:
        if local.year >= _END_OF_TABLES:
            instant: dt.datetime = to_instants([local], time_zone)[0].as_py()
            return instant.astimezone(dt.timezone.utc)
        local = local.replace(tzinfo=zone_of(time_zone))
    return local.astimezone(dt.timezone.utc)


def local_time(instant: dt.datetime, time_zone: str) -> dt.datetime:
    """Return an instant as a naive datetime in `time_zone`, with its `fold`."""
    if instant.year >= _END_OF_TABLES:
        local: dt.datetime = to_local_times(pa.array([instant]), time_zone)[0]
        return local
    return instant.astimezone(zone_of(time_zone)).replace(tzinfo=None)


def to_instants(values: Sequence[Any], time_zone: str) -> pa.Array:
    """Make the column of instants of naive datetimes and None."""
    naive = pa.array(values, _MICROS)
    first = _first(naive, time_zone)
    if not _may_repeat(naive, time_zone):
        return first
    second = pc.assume_timezone(naive, time_zone, ambiguous="latest", nonexistent="earliest")
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


def _first(local: pa.Array, time_zone: str) -> pa.Array:
    return pc.assume_timezone(local, time_zone, ambiguous="earliest", nonexistent="earliest")


def _may_repeat(local: pa.Array, time_zone: str) -> bool:
    """Return whether clocks may go back where these times lie: a look at all of them is slow."""
    zone = zone_of(time_zone)
    if zone.utcoffset(None) is not None:
        return False  # the same offset at all times
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
