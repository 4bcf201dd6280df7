# SPDX-License-Identifier: Apache-2.0
"""Rows: a tuple with names that costs what a tuple costs."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.types.row import Row, row_class


def test_fields_are_read_by_name_position_and_attribute():
    """A named row gives a field by index, by key and by attribute."""
    row = Row(a=1, b="x")
    assert (1, "x", "x", 1) == (row[0], row["b"], row.b, row.a)
    assert "x" == row[-1]
    assert (1,) == row[:1]


def test_positional_and_named_values_do_not_mix():
    """A row takes positional values or named fields, not both."""
    with pytest.raises(ValueError, match="not both"):
        Row(1, a=2)


@pytest.mark.parametrize("name", ["count", "index", "cls", "self", "values", "__hash__", "a b"])
def test_any_name_is_a_field(name):
    """A field may be called as a method of tuple, or as no identifier at all."""
    row = Row(**{name: 7, "other": 8})
    assert 7 == row[name]
    assert {name: 7, "other": 8} == row.as_dict()
    assert hash((7, 8)) == hash(row)


def test_fields_hide_the_methods_of_tuple():
    """`count` and `index` are read as attributes when they are fields."""
    row = Row(count=3, index=4)
    assert (3, 4) == (row.count, row.index)


def test_fields_do_not_hide_the_methods_of_row():
    """A field called `as_dict` is read by key, and the method stays."""
    row = Row(as_dict=1)
    assert {"as_dict": 1} == row.as_dict()


def test_repr_tells_named_from_unnamed():
    """The reprs are PyFlink's."""
    assert "Row(a=1, b='x')" == repr(Row(a=1, b="x"))
    assert "<Row(1, 'x')>" == repr(Row(1, "x"))


def test_rows_are_equal_if_values_and_names_are():
    """Names count between rows; another tuple is compared by values."""
    assert Row(a=1) == Row(a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(a=1) == (1,)
    assert (1,) == Row(a=1)
    assert Row(1) == Row(1)
    assert not Row(a=1) != Row(a=1)
    assert Row(a=1) != 1


def test_hash_is_the_hash_of_the_tuple():
    """A row finds what its tuple was stored under."""
    assert "x" == {(1, 2): "x"}[Row(a=1, b=2)]
    assert 1 == len({Row(a=1), Row(a=1)})


@pytest.mark.parametrize("row", [Row(a=1, count=[2]), Row(1, "x"), Row(), Row(_fields=1)])
def test_rows_survive_pickle_and_copy(row):
    """Pickle and copy keep values, names and class."""
    copies = [pickle.loads(pickle.dumps(row, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)]
    for other in [*copies, copy.copy(row), copy.deepcopy(row)]:
        assert row == other
        assert type(row) is type(other)


def test_rows_survive_cloudpickle():
    """What Spark ships to its workers keeps its names, and so does a class of rows."""
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    row = Row(a=1, count=2)
    other = pickle.loads(cloudpickle.dumps(row))
    assert row == other
    assert type(row) is type(other)
    assert row == pickle.loads(cloudpickle.dumps(type(row)))(1, 2)


def test_missing_fields_are_named():
    """A wrong name is a KeyError, a ValueError or an AttributeError that lists the fields."""
    row = Row(a=1, b=2)
    with pytest.raises(KeyError, match=r"fields \['a', 'b'\], got 'nope'"):
        row["nope"]
    with pytest.raises(ValueError, match="'nope'"):
        row["nope"]
    with pytest.raises(AttributeError, match=r"fields \['a', 'b'\], got 'nope'"):
        row.nope  # noqa: B018
    with pytest.raises(KeyError, match="no field names"):
        Row(1)["a"]
    with pytest.raises(IndexError):
        row[2]


def test_rows_are_immutable():
    """Assignment is refused, and the message shows what to do instead."""
    row = Row(a=1)
    with pytest.raises(AttributeError, match=r"_replace\(a=\.\.\.\)"):
        row.a = 2
    with pytest.raises(TypeError, match="_replace"):
        row["a"] = 2
    assert Row(a=1) == row


def test_replace_makes_another_row():
    """`_replace` changes fields by name in a new row."""
    row = Row(a=1, b=2)
    assert Row(a=1, b=3) == row._replace(b=3)
    assert Row(a=1, b=2) == row
    with pytest.raises(KeyError, match="'c'"):
        row._replace(c=1)


def test_as_dict_needs_names():
    """An unnamed row has no dict."""
    with pytest.raises(ValueError, match="set_field_names"):
        Row(1).as_dict()


def test_as_dict_turns_inner_rows_on_request():
    """`recursive` reaches rows in rows, lists and dicts."""
    row = Row(a=Row(b=1), c=[Row(d=2)], e={"f": Row(g=3)})
    assert Row(b=1) == row.as_dict()["a"]
    assert {"a": {"b": 1}, "c": [{"d": 2}], "e": {"f": {"g": 3}}} == row.as_dict(recursive=True)


@given(st.dictionaries(st.text(max_size=3), st.integers()))
def test_dict_of_a_row_has_its_fields_in_order(fields):
    """Also of one that was pickled, and unpacked into another dict; rows inside stay rows."""
    row = pickle.loads(pickle.dumps(Row(**fields, inner=Row(b=1))))
    expected = [*fields.items(), ("inner", Row(b=1))]
    assert (expected, expected) == ([*dict(row).items()], [*{**row}.items()])


def test_fields_are_passed_on_as_arguments():
    """By their names."""
    assert {"b": 2, "a": 1} == dict(**Row(b=2, a=1))


@pytest.mark.parametrize("make", [dict, lambda row: {**row}])
def test_a_row_without_names_is_no_dict(make):
    """Its values are not taken for pairs of a key and a value."""
    with pytest.raises(ValueError, match=r"needs field names, got .*; call set_field_names first"):
        make(Row(("a", 1), ("b", 2)))


def test_a_field_called_keys_is_read_as_any_other():
    """The method gives way to it; the dict is had by name of another method."""
    row = Row(keys=0, other=1)
    assert (0, 0, {"keys": 0, "other": 1}) == (row.keys, row["keys"], row.as_dict())


def test_unnamed_rows_can_be_named_once():
    """`set_field_names` names a row for good."""
    row = Row(1, 2)
    row.set_field_names(["a", "b"])
    assert 2 == row.b
    assert ["a", "b"] == row.field_names()
    row.set_field_names(["a", "b"])
    with pytest.raises(ValueError, match="keeps its names"):
        row.set_field_names(["c", "d"])
    with pytest.raises(ValueError, match="2 values"):
        Row(1, 2).set_field_names(["a"])


def test_a_row_of_names_makes_rows():
    """`Row("a", "b")` can be called with values, as PyFlink's."""
    person = Row("name", "age")
    assert Row(name="Alice", age=11) == person("Alice", 11)
    assert person.field_names() is None


def test_classes_are_shared_and_rows_have_no_dict():
    """One schema is one class, and its rows hold nothing but their values."""
    cls = row_class(("a", "b"))
    row = cls._make((1, 2))
    assert type(Row(a=3, b=4)) is cls
    assert cls(1, 2) == cls(b=2, a=1) == row
    assert not hasattr(row, "__dict__")
    assert sys.getsizeof(row) <= sys.getsizeof((1, 2)) + 16
    with pytest.raises(ValueError, match="1 values"):
        cls(1)
    with pytest.raises(ValueError, match="exactly"):
        cls(a=1)


@pytest.mark.parametrize("names", [("a", "a"), (1, 2)])
def test_names_must_be_strings_that_differ(names):
    """A schema with a name twice, or a name that is no string, is refused."""
    with pytest.raises(ValueError, match="differ"):
        row_class(names)
