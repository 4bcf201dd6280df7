# SPDX-License-Identifier: Apache-2.0
"""Which types grow into which, and that no value is lost or changed by it."""

from __future__ import annotations

import pytest
from growth_support import WIDER, growing
from hypothesis import given
from hypothesis import strategies as st
from type_support import same

from pyflinklike.testing.strategies import values_of
from pyflinklike.types import Types
from pyflinklike.types.growth import UngrownError, growth
from pyflinklike.types.signature import type_of

SCALARS = [
    *(Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT()),
    *(Types.FLOAT(), Types.DOUBLE(), Types.BIG_DEC(), Types.CHAR(), Types.STRING()),
    *(Types.INSTANT(), Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()),
    *(Types.PICKLED_BYTE_ARRAY(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
]
INT, LONG, TEXT = Types.INT(), Types.LONG(), Types.STRING()


def row(**fields):
    """The type of a row."""
    return Types.ROW_NAMED(list(fields), list(fields.values()))


@given(growing(), st.data())
def test_a_grown_column_holds_what_the_model_says(pair, data):
    """Of every pair and any values, None included; and the column is of the declared type."""
    values = data.draw(st.lists(values_of(pair.stored), max_size=6))
    stored = [None if each is None else pair.stored.freeze(each) for each in values]
    column = growth(pair.stored, pair.declared)(pair.stored.to_arrow(stored))
    column.validate(full=True)
    assert pair.declared.arrow_type == column.type
    found = pair.declared.from_arrow(column)
    for value, each in zip(values, found, strict=True):
        expected = None if value is None else pair.cast(value)
        if expected is not None:
            expected = pair.declared.thaw(pair.declared.freeze(expected))
        assert same(expected, None if each is None else pair.declared.thaw(each))


@pytest.mark.parametrize("stored", SCALARS, ids=repr)
def test_a_scalar_grows_into_what_the_table_says_and_nothing_else(stored):
    """All pairs."""
    for declared in SCALARS:
        if stored == declared or (stored, declared) in WIDER:
            growth(stored, declared)
        else:
            with pytest.raises(UngrownError, match="does not grow into"):
                growth(stored, declared)


@pytest.mark.parametrize(
    ("stored", "declared", "why"),
    [
        pytest.param(row(a=INT), row(b=INT), r"\['a'\] go and \['b'\] come", id="renamed"),
        pytest.param(row(a=LONG), row(a=INT), "field 'a': Long does not grow", id="narrower field"),
        pytest.param(row(a=row(b=LONG)), row(a=row(b=TEXT)), "field 'a': field 'b'", id="nested"),
        pytest.param(INT, Types.LIST(INT), "does not grow", id="value to list"),
        pytest.param(Types.LIST(INT), Types.OBJECT_ARRAY(INT), "does not grow", id="kind of list"),
        pytest.param(Types.LIST(LONG), Types.LIST(INT), "an element: Long", id="element"),
        pytest.param(Types.MAP(INT, INT), Types.MAP(LONG, INT), "keys of a map stay", id="map key"),
        pytest.param(Types.MAP(TEXT, LONG), Types.MAP(TEXT, INT), "a value of a map", id="map"),
        pytest.param(Types.TUPLE([INT]), Types.TUPLE([INT, INT]), "tuple of 1 fields", id="tuple"),
        pytest.param(Types.TUPLE([INT]), Types.ROW([INT]), "does not grow", id="tuple to row"),
    ],
)
def test_what_does_not_grow_says_why(stored, declared, why):
    """And which verb of a savepoint does it."""
    with pytest.raises(UngrownError, match=why) as caught:
        growth(stored, declared)
    assert caught.value.remedy.startswith("Savepoint.")


@given(growing())
def test_signatures_tell_the_same_as_types(pair):
    """A reader without the program finds the same growth."""
    growth(type_of(pair.stored.signature), type_of(pair.declared.signature))


def test_a_character_that_is_none_is_damage():
    """It does not become a text unseen."""
    with pytest.raises(ValueError, match="one character"):
        growth(Types.CHAR(), TEXT)(TEXT.to_arrow(["ab"]))
