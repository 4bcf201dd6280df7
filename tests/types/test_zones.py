# SPDX-License-Identifier: Apache-2.0
"""Local times of the session's zone and back: no instant is lost where clocks go back."""

from __future__ import annotations

import datetime as dt
import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.key_codec import AnyKeyTypeInfo
from pyflinklike.types.time_types import local_time, to_instant, to_instants, to_local_times

UTC = dt.timezone.utc
ZONES = ["UTC", "America/New_York", "Europe/Dublin", "Australia/Lord_Howe", "+05:30"]
FIRST = dt.datetime(2024, 11, 3, 5, 30, tzinfo=UTC)
SECOND = FIRST + dt.timedelta(hours=1)
SPRING = dt.datetime(2024, 3, 10, 7, 30, tzinfo=UTC)

ANYWHEN = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1), timezones=st.just(UTC))
AROUND_A_CHANGE = st.integers(-(10**10), 10**10).map(
    lambda micros: FIRST + dt.timedelta(microseconds=micros)
)


def _column(instants):
    return pa.array(instants, pa.timestamp("us", tz="UTC"))


@given(st.sampled_from(ZONES), st.lists(st.none() | ANYWHEN | AROUND_A_CHANGE, max_size=8))
def test_an_instant_is_the_same_after_a_local_time(zone, instants):
    """By columns and one by one, in every zone, with None."""
    local = to_local_times(_column(instants), zone)

    assert _column(instants).cast(pa.int64()) == to_instants(local, zone).cast(pa.int64())
    assert local == [each and local_time(each, zone) for each in instants]
    assert [each and each.fold for each in local] == [
        each and local_time(each, zone).fold for each in instants
    ]
    assert instants == [each and to_instant(each, zone) for each in local]


@pytest.mark.parametrize("zone", ["America/New_York", "UTC"])
def test_fold_tells_the_second_of_two_hours(zone):
    """In New York 05:30Z and 06:30Z are both 01:30; in UTC nothing comes twice."""
    local = to_python(_column([FIRST, SECOND, SPRING]), zone)

    folds = [0, 1, 0] if zone == "America/New_York" else [0, 0, 0]
    assert folds == [each.fold for each in local]
    assert (local[0] == local[1]) is (zone == "America/New_York")


@given(st.integers(-270 * 366 * 86_400_000, 270 * 365 * 86_400_000))
def test_a_datetime_of_ms_by_the_remedy_of_messages_is_exact(ms):
    """From 1700 to 2239; beyond, a float of seconds has no room for milliseconds."""
    epoch = dt.datetime(1970, 1, 1, tzinfo=UTC)
    assert epoch + dt.timedelta(milliseconds=ms) == dt.datetime.fromtimestamp(ms / 1000, UTC)


@pytest.mark.parametrize("others", [0, 300])
def test_a_local_time_that_no_clock_shows_is_refused(others):
    """Clocks went forward over it: alone, and among times of a whole year."""
    near = [dt.datetime(2024, 1, 1) + dt.timedelta(days=each) for each in range(others)]
    shown, gap = dt.datetime(2024, 3, 10, 3), dt.datetime(2024, 3, 10, 2, 59)
    assert len(near) + 1 == len(to_instants([*near, shown], "America/New_York"))
    with pytest.raises(pa.ArrowException):
        to_instants([*near, gap], "America/New_York")


instant_keys = pytest.importorskip("pyflinklike.spark._wire.schema", exc_type=ImportError)


def _type(zone="America/New_York"):
    kind = pa.struct(
        [
            ("at", pa.timestamp("us", tz="UTC")),
            ("in", pa.struct([("x", pa.int32()), ("at", pa.timestamp("us", tz="UTC"))])),
            ("wall", pa.timestamp("us")),
        ]
    )
    return instant_keys.InstantKeyTypeInfo(kind, zone)


WALL = dt.datetime(2024, 11, 3, 1, 30)


def _records(*instants):
    return [
        _column(instants),
        pa.StructArray.from_arrays(
            [pa.array([1] * len(instants), pa.int32()), _column(instants)], ["x", "at"]
        ),
        pa.array([WALL] * len(instants), pa.timestamp("us")),
    ]


@pytest.mark.parametrize("zone", ZONES)
def test_a_key_of_instants_is_stored_as_such_whatever_the_zone(zone):
    """At any depth; a timestamp without a zone stays as it is, and what a function sees finds the same state."""
    key_type = pickle.loads(pickle.dumps(_type(zone)))
    keys = key_type.frozen(_records(FIRST, SECOND, SPRING))

    assert keys == _type("Asia/Tokyo").frozen(_records(FIRST, SECOND, SPRING))
    assert key_type.signature == AnyKeyTypeInfo().signature
    assert (FIRST, (1, FIRST), WALL) == AnyKeyTypeInfo().thaw(keys[0])
    seen = [key_type.thaw_key(key) for key in keys]
    local = [local_time(each, zone) for each in (FIRST, SECOND, SPRING)]
    assert [(each, (1, each), WALL) for each in local] == seen
    assert keys == [key_type.freeze_key(key) for key in seen]
    assert keys == key_type.from_arrow(key_type.to_arrow(keys))


def test_a_stored_key_of_a_local_time_is_refused():
    """It was written before keys were instants: which one it is nobody knows."""
    stored = AnyKeyTypeInfo().to_arrow([AnyKeyTypeInfo().freeze((WALL, (1, None), WALL))])
    with pytest.raises(IncompatibleStateError, match="kept by the instant, got a key"):
        _type().from_arrow(stored)
