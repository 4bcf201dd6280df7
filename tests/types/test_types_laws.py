# SPDX-License-Identifier: Apache-2.0
"""Laws of all types: freezing, columns, keys and Arrow files give back what they were given."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from type_support import DOUBLE, INTEGRAL, LONG, PICKLED, STRING, same

from pyflinklike.types import Instant, Types
from pyflinklike.types.row import row_class


def _ints(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


OBJECTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner),
    max_leaves=4,
)
SCALARS = [
    *((type_info, _ints(bits)) for type_info, bits in INTEGRAL),
    (Types.FLOAT(), st.floats(width=32)),
    (DOUBLE, st.floats()),
    (Types.BOOLEAN(), st.booleans()),
    (STRING, st.text()),
    (Types.CHAR(), st.characters(codec="utf-8")),
    (Types.BIG_INT(), st.integers() | st.integers(10**4_400, 10**4_500)),
    (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    (Types.INSTANT(), st.builds(Instant, _ints(64), st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), st.datetimes()),
    (PICKLED, OBJECTS),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
]


def _maybe(type_info, values):
    return st.none() | values if type_info.accepts_none else values


def _lists(make, part):
    type_info, values = part
    none_fits = make in (Types.BASIC_ARRAY, Types.OBJECT_ARRAY)
    elements = st.none() | values if none_fits else _maybe(type_info, values)
    return make(type_info), st.lists(elements, max_size=3)


def _maps(part):
    type_info, values = part
    keys = st.integers(-3, 3)
    return Types.MAP(LONG, type_info), st.dictionaries(keys, _maybe(type_info, values), max_size=3)


def _fields(parts):
    return st.tuples(*(st.none() | values for _, values in parts))


def _rows(parts):
    names = [f"field {i}" for i in range(len(parts))]
    row_type = Types.ROW_NAMED(names, [type_info for type_info, _ in parts])
    return row_type, _fields(parts).map(row_class(tuple(names))._make)


def _tuples(parts):
    return Types.TUPLE([type_info for type_info, _ in parts]), _fields(parts)


PARTS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(lambda part: _lists(Types.LIST, part)),
        inner.map(lambda part: _lists(Types.OBJECT_ARRAY, part)),
        inner.map(_maps),
        st.lists(inner, max_size=3).map(_rows),
        st.lists(inner, max_size=3).map(_tuples),
    ),
    max_leaves=4,
)
COLUMNS = PARTS.flatmap(
    lambda part: st.tuples(st.just(part[0]), st.lists(_maybe(*part), max_size=5))
)


def is_immutable(stored):
    """Whether nobody can change what is stored."""
    if isinstance(stored, tuple):
        return all(map(is_immutable, stored))
    return stored is None or isinstance(stored, (int, float, str, bytes, Instant, dt.date, dt.time))


@settings(deadline=None)
@given(COLUMNS)
def test_thaw_gives_back_what_was_frozen(column):
    """A value survives freeze and thaw, and what is stored is immutable and hashable."""
    type_info, values = column
    for value in values:
        stored = type_info.freeze(value)
        assert is_immutable(stored)
        hash(stored)
        assert same(value, type_info.thaw(stored))
        assert stored == type_info.freeze(type_info.thaw(stored))
        if type_info.is_identity:
            assert stored is type_info.thaw(stored)


class Text(str):
    """A text that is not stored as it is."""

    __slots__ = ()


VALUES = [
    *(None, True, 0, 1, -129, 2**15, -(2**31) - 1, 2**63, 0.5, -0.0, 0.1, math.nan, math.inf),
    *("", "a", "ab", "\u00e9", "\ud800", Text("a"), b"x", (1,), ("a", 1), [1], Decimal("1.0")),
    *(dt.date(2000, 1, 1), dt.time(1), dt.datetime(2000, 1, 1), dt.datetime(2000, 1, 1, fold=1)),
    *(dt.datetime(2000, 1, 1, tzinfo=dt.timezone.utc), Instant(1, 2)),
]
"""What types take as it is, what they convert, and what they refuse."""


@pytest.mark.parametrize("inside", [None, Types.TUPLE, lambda kinds: Types.ROW_NAMED(["f"], kinds)])
def test_values_that_are_stored_are_frozen_to_what_they_are(inside):
    """All of them, whatever stands among them: by itself, in a tuple and in a row."""
    found = set()
    make = {None: lambda value: value, Types.TUPLE: lambda value: (value,)}
    form = make.get(inside, lambda value: row_class(("f",))._make([value]))
    for part, _ in SCALARS:
        type_info = part if inside is None else inside([part])
        for first, second in itertools.product(VALUES, VALUES):
            values = [form(first), form(second)]
            if type_info.are_stored(values):
                found.add(repr(part))
                frozen = [type_info.freeze(value) for value in values]
                assert repr(values) == repr(frozen)
                assert list(map(type, values)) == list(map(type, frozen))
                assert inside is not None or None not in values
    assert {"Byte", "Long", "Float", "Double", "Boolean", "String", "TimestampTypeInfo"} <= found


def test_no_nan_is_stored_as_it_is():
    """There are many, of which one is stored."""
    assert (True, False) == (DOUBLE.are_stored([0.5]), DOUBLE.are_stored([0.5, math.nan]))


def test_plain_values_are_stored():
    """Also in rows, and beside None in a field."""
    row_type = Types.ROW_NAMED(["a", "b", "c"], [STRING, LONG, Types.SQL_TIMESTAMP()])
    make = row_class(("a", "b", "c"))._make
    rows = [make(("\u00e9", 1, dt.datetime(2000, 1, 1))), make(("", None, None))]
    assert (True, False, False) == (
        row_type.are_stored(rows),
        row_type.are_stored([*rows, ("a", 1, None)]),
        row_type.are_stored([*rows, None]),
    )


@settings(deadline=None)
@given(COLUMNS, st.booleans())
def test_columns_give_back_what_was_stored(column, with_null):
    """A column, also sliced, of the declared type holds the stored values, None as null."""
    type_info, values = column
    stored = [type_info.freeze(value) for value in values] + [None] * with_null
    written = type_info.to_arrow(stored)
    written.validate(full=True)
    assert type_info.arrow_type == written.type
    assert sum(value is None for value in stored) == written.null_count
    assert stored == type_info.from_arrow(written)
    assert same(stored, type_info.from_arrow(written))
    assert stored[1:3] == type_info.from_arrow(written.slice(1, 2))
    assert [] == type_info.from_arrow(written.slice(0, 0))


@settings(deadline=None)
@given(COLUMNS)
def test_keys_survive_columns(column):
    """Keys are hashable and come back from a column equal, and of the same class."""
    type_info, values = column
    keys = [type_info.freeze_key(value) for value in values if value is not None]
    read = type_info.from_arrow(type_info.to_arrow(keys))
    assert keys == read
    assert list(map(hash, keys)) == list(map(hash, read))
    assert list(map(type, keys)) == list(map(type, read))
    for key in keys:
        assert key == type_info.freeze_key(type_info.thaw_key(key))


@settings(deadline=None, max_examples=30)
@given(PARTS)
def test_types_are_values(part):
    """A type is equal to its pickled copy, hashes alike and has the same signature."""
    type_info, _ = part
    other = pickle.loads(pickle.dumps(type_info))
    assert type_info == other
    assert hash(type_info) == hash(other)
    assert type_info.signature == other.signature
    assert type_info.arrow_type == other.arrow_type


@given(COLUMNS)
@settings(deadline=None, max_examples=30)
def test_columns_survive_arrow_files(column):
    """A column read from an IPC stream gives the same values."""
    type_info, values = column
    stored = [type_info.freeze(value) for value in values]
    batch = pa.record_batch([type_info.to_arrow(stored)], names=["value"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    read = pa.ipc.open_stream(sink.getvalue()).read_all()["value"].combine_chunks()
    assert stored == type_info.from_arrow(read)
