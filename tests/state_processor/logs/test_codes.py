# SPDX-License-Identifier: Apache-2.0
"""Codes of rows, and the last row of each code, against dicts."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike._changelog.stored_table import codes_of, last_of_each, numbers

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
