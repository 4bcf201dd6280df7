# SPDX-License-Identifier: Apache-2.0
"""Columns of all types that Spark hands over, and values as a program has them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from pyflinklike.types.time_types import local_time

ZONE = "America/New_York"
"""The session's time zone: not UTC, and one where clocks go back."""

INSTANT = pa.timestamp("us", tz="UTC")
WALL_TIME = pa.timestamp("us")
MONEY = pa.decimal128(12, 3)

_INSTANTS = st.datetimes(
    dt.datetime(1890, 1, 1), dt.datetime(2190, 1, 1), timezones=st.just(dt.timezone.utc)
)
_SCALARS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(allow_nan=False, width=32),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(max_size=8),
    pa.binary(): st.binary(max_size=8),
    pa.date32(): st.dates(),
    INSTANT: _INSTANTS.map(lambda instant: local_time(instant, ZONE)),
    WALL_TIME: st.datetimes(),
    MONEY: st.decimals(-999_999_999, 999_999_999, places=3),
    pa.duration("us"): st.timedeltas(dt.timedelta(days=-99_999), dt.timedelta(days=99_999)),
    pa.null(): st.none(),
}
_NAMES = st.sampled_from(["id", "at", "count", "a name", "ä", "op"])


@st.composite
def kinds(draw: st.DrawFn, depth: int = 2) -> pa.DataType:
    """The type of a column: of a scalar or, up to so deep, of a list, a map or a struct."""
    if not depth or draw(st.booleans()):
        return draw(st.sampled_from(list(_SCALARS)))
    shape = draw(st.sampled_from(["list", "map", "struct"]))
    if shape == "list":
        return pa.list_(draw(kinds(depth - 1)))
    if shape == "map":
        return pa.map_(draw(st.sampled_from([pa.string(), pa.int64()])), draw(kinds(depth - 1)))
    names = draw(st.lists(_NAMES, min_size=1, max_size=3, unique=True))
    return pa.struct([(name, draw(kinds(depth - 1))) for name in names])


def values_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a column as a program has them, None among them; a struct is a tuple."""
    if pa.types.is_list(kind):
        of_kind: st.SearchStrategy[Any] = st.lists(values_of(kind.value_type), max_size=3)
    elif pa.types.is_map(kind):
        keys = _SCALARS[kind.key_type]
        of_kind = st.dictionaries(keys, values_of(kind.item_type), max_size=3)
    elif pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        of_kind = st.tuples(*(values_of(field.type) for field in fields))
    else:
        of_kind = _SCALARS[kind]
    return st.none() | of_kind


@st.composite
def schemas(draw: st.DrawFn) -> pa.Schema:
    """The columns of records or of an output."""
    names = draw(st.lists(_NAMES, min_size=1, max_size=4, unique=True))
    return pa.schema([(name, draw(kinds())) for name in names])


def rows_of(schema: pa.Schema) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Rows of these columns."""
    return st.lists(st.tuples(*(values_of(field.type) for field in schema)), max_size=6)
