# SPDX-License-Identifier: Apache-2.0
"""Stored columns as other tools see them, and back."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.stored_table import codes_of, last_of_each, numbers
from pyflinklike.state_processor._logs.column_values import show_column, store_column
from pyflinklike.state_processor._logs.state_infos import owner_of
from pyflinklike.testing.strategies import type_infos, values_of
from pyflinklike.types import Types


@given(st.data(), type_infos(), st.booleans())
def test_a_slice_of_a_column_is_shown_as_its_rows_are(data, declared, saved):
    """Wherever it begins, nulls included; and is stored again."""
    values = [
        declared.freeze(value) for value in data.draw(st.lists(values_of(declared), max_size=4))
    ]
    column = declared.to_arrow([None, *values])
    start = data.draw(st.integers(0, len(column)))
    part = show_column(column.slice(start), declared, saved=saved)

    assert repr(show_column(column, declared, saved=saved).to_pylist()[start:]) == repr(
        part.to_pylist()
    )
    if saved:
        back = store_column(part, declared, "test", nullable=True)
        assert repr(column.to_pylist()[start:]) == repr(back.to_pylist())


@pytest.mark.parametrize(
    ("declared", "value"),
    [
        (Types.LIST(Types.INSTANT()), [None]),
        (Types.MAP(Types.STRING(), Types.BIG_INT()), {"a": 2**70}),
    ],
    ids=repr,
)
def test_a_slice_with_nulls_of_nested_values_is_shown(declared, value):
    """Arrow takes no mask beside the offsets of a slice."""
    column = declared.to_arrow([declared.freeze(value), None, declared.freeze(value)])
    sliced = show_column(column.slice(1), declared, saved=False)

    assert show_column(column, declared).slice(1).equals(sliced)
    assert isinstance(sliced, (pa.ListArray, pa.MapArray))


# Codes of rows

ROWS = st.lists(
    st.tuples(
        st.none() | st.sampled_from(["", "a", "b"]),
        st.none() | st.integers(-2, 2),
        st.none() | st.lists(st.integers(0, 1), max_size=2).map(tuple),
    )
)


@given(ROWS, st.sets(st.integers(0, 2)))
def test_rows_have_one_code_where_all_columns_are_equal(rows, chosen):
    """Numbered as they come first, nulls like any value; without columns all rows are equal."""
    types = [pa.string(), pa.int64(), pa.list_(pa.int8())]
    columns = [pa.array([row[at] for row in rows], types[at]) for at in sorted(chosen)]
    known = {}
    expected = [
        known.setdefault(tuple(row[at] for at in sorted(chosen)), len(known)) for row in rows
    ]

    assert expected == codes_of(columns, len(rows)).to_pylist()


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans())))
def test_the_last_row_of_each_code_is_in_the_order_of_the_codes(rows):
    """Rows that do not count are skipped; a code of which none counts has none."""
    codes = codes_of([pa.array([code for code, _ in rows], pa.int64())], len(rows))
    places = [at if counts else None for at, (_, counts) in enumerate(rows)]
    expected = {}
    for at, (code, counts) in enumerate(rows):
        expected[code] = at if counts else expected.get(code)

    found = last_of_each(codes, pa.array(places, pa.int64()))
    assert [*expected.values()] == found.to_pylist()
    assert [*range(len(rows))] == numbers(len(rows)).to_pylist()


# Records


@pytest.mark.parametrize(
    ("table", "owner"), [("last", "last"), ("kv/time", "kv"), ("a/b", "a/b"), ("a", "a")]
)
def test_a_table_belongs_to_a_state_or_to_a_store(table, owner):
    """A store has several; a state with a slash in its name is none of another's."""
    assert owner == owner_of(table, {"last", "kv", "a", "a/b"})
