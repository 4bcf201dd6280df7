# SPDX-License-Identifier: Apache-2.0
"""Stored columns as other tools see them, and back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.state_processor._logs.column_values import show_column, store_column
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
