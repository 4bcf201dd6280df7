# SPDX-License-Identifier: Apache-2.0
"""Which types grow into which, and that no value is lost or changed by it."""

from __future__ import annotations

import copy
import datetime as dt
import pickle

import pytest
from growth_support import WIDER, growing
from hypothesis import given, settings
from hypothesis import strategies as st
from type_support import same

from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.testing.strategies import values_of
from pyflinklike.types import Types
from pyflinklike.types.catalog import type_of
from pyflinklike.types.schema_evolution import NoMigrationError, growth

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
            with pytest.raises(NoMigrationError, match="does not grow into"):
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
    with pytest.raises(NoMigrationError, match=why) as caught:
        growth(stored, declared)
    assert caught.value.remedy.startswith("Savepoint.")


@settings(max_examples=settings().max_examples // 5)
@given(growing())
def test_signatures_tell_the_same_as_types(pair):
    """A reader without the program finds the same growth."""
    growth(type_of(pair.stored.signature), type_of(pair.declared.signature))


def test_a_character_that_is_none_is_damage():
    """It does not become a text unseen."""
    with pytest.raises(ValueError, match="one character"):
        growth(Types.CHAR(), TEXT)(TEXT.to_arrow(["ab"]))


def test_a_field_with_a_default_has_it_where_it_was_not_stored():
    """Also where another field goes: then it is no field that was renamed."""
    old = row(a=INT, user=TEXT)
    new = Types.ROW_NAMED(["n", "user"], [LONG, TEXT], defaults={"n": 7})
    column = growth(old, new)(old.to_arrow([(1, "u"), None]))
    assert [(7, "u"), None] == new.from_arrow(column)
    later = Types.ROW_NAMED(["n", "user"], [LONG, TEXT], defaults={"n": 8})
    assert [(7, "u"), None] == later.from_arrow(growth(new, later)(column))


DEFAULTS = [
    (Types.BOOLEAN(), st.booleans()),
    (LONG, st.integers(-(2**63), 2**63 - 1)),
    (Types.DOUBLE(), st.floats(allow_nan=False, allow_infinity=False)),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (TEXT, st.text()),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
    (Types.BIG_INT(), st.integers()),
    (Types.SQL_DATE(), st.none()),
]


@given(st.sampled_from(DEFAULTS), st.data())
def test_a_default_survives_in_the_signature(kind_and_values, data):
    """Whatever it is: a reader without the program finds the same type, and none that differs."""
    kind, values = kind_and_values
    value = data.draw(values)
    made = Types.LIST(Types.ROW_NAMED(["it's", "b"], [kind, kind], defaults={"b": value}))
    assert made == type_of(made.signature)
    assert made != Types.LIST(Types.ROW_NAMED(["it's", "b"], [kind, kind]))
    stored = Types.LIST(Types.ROW_NAMED(["it's"], [kind]))
    (found,) = made.from_arrow(growth(stored, made)(stored.to_arrow([((None,),)])))
    expected = None if value is None else kind.freeze(value)
    assert same([None, expected], list(found[0]))


@pytest.mark.parametrize(
    "copied",
    [lambda kind: pickle.loads(pickle.dumps(kind)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_a_default_survives_in_a_copy(copied):
    """A worker has the type that the driver declared, in rows within rows, too."""
    inner = Types.ROW_NAMED(["x", "y"], [Types.STRING(), Types.LONG()], defaults={"x": "none"})
    kind = Types.ROW_NAMED(["a", "b"], [Types.LONG(), inner], defaults={"a": 7, "b": None})

    assert (kind, kind.signature) == (copied(kind), copied(kind).signature)


@pytest.mark.parametrize(
    ("defaults", "error", "says"),
    [
        ({"c": 1}, DeclarationValueError, "of the fields"),
        ({"a": "x"}, DeclarationValueError, "default of field 'a' must fit its type"),
        ({"d": dt.date(2024, 1, 1)}, DeclarationValueError, "must be None, a bool"),
        ({"f": float("nan")}, DeclarationValueError, "a finite number"),
        (7, DeclarationTypeError, "must be a dict"),
    ],
    ids=["name", "type", "date", "nan", "no dict"],
)
def test_a_default_that_cannot_be_one_is_refused(defaults, error, says):
    """When the type is made."""
    names, types = ["a", "d", "f"], [INT, Types.SQL_DATE(), Types.DOUBLE()]
    with pytest.raises(error, match=says):
        Types.ROW_NAMED(names, types, defaults=defaults)
