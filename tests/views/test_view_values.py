# SPDX-License-Identifier: Apache-2.0
"""Values of rows come back from a view as they were put in."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import namedtuple
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Row
from pyflinklike.errors import CorruptStateError
from pyflinklike.views.row_codec import decode_row, encode_row

_zones = st.sampled_from(
    [None, dt.timezone.utc, dt.timezone(dt.timedelta(hours=-3)), ZoneInfo("Europe/Berlin")]
)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(timezones=_zones, allow_imaginary=False),
    st.timedeltas(),
)
_names = st.lists(st.text(min_size=1, max_size=3), max_size=3, unique=True)
values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.dictionaries(st.integers() | st.dates() | st.tuples(st.text()), inner, max_size=3),
        _names.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, inner))).map(
            lambda fields: Row(**fields)
        ),
    ),
    max_leaves=8,
)


def same(one, other):
    """Whether two values are equal, of the same types, all the way down."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return all(map(same, one, other))
    if isinstance(one, (dt.datetime, dt.time)):
        return (one.fold, str(one)) == (other.fold, str(other))
    return str(one) == str(other)


@given(values)
def test_all_values_of_rows_come_back(value):
    """Equal, and of the type they were."""
    assert same(value, decode_row(encode_row(value)))


def test_relatives_of_rows_come_back_as_rows():
    """Spark's rows, named tuples, byte arrays and NumPy's scalars have a form of ours."""
    numpy = pytest.importorskip("numpy")
    point = namedtuple("point", ["x", "y"])(1, bytearray(b"y"))

    assert same(Row(x=1, y=b"y"), decode_row(encode_row(point)))
    assert same(
        [1, 0.5, Decimal("1.50")],
        decode_row(encode_row([numpy.int64(1), numpy.float64(0.5), Decimal("1.50")])),
    )


@given(st.binary(max_size=40))
def test_damaged_rows_are_told(data):
    """By an error of ours, or they are rows."""
    with contextlib.suppress(CorruptStateError):
        decode_row(data)
