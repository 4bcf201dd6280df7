# SPDX-License-Identifier: Apache-2.0
"""Copies of elements: equal, of the same classes, and without a part that both could change."""

from __future__ import annotations

import threading
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import OutputError
from pyflinklike.pyflink.common import Row, RowKind
from pyflinklike.types.copies import are_unchangeable, as_given, copy_value
from pyflinklike.types.row import Row as FixedRow

FIXED = st.one_of(st.integers(0, 2), st.none(), st.booleans(), st.binary(max_size=1))


class Point:
    """A class of a user's."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return type(other) is Point and self.x == other.x

    def __hash__(self):
        return 0


class Color(Enum):
    """Whose members are one object each."""

    RED = 1


def parts(inner):
    """What holds others."""
    lists = st.lists(inner, max_size=2)
    return st.one_of(
        *(lists, lists.map(tuple), st.dictionaries(st.integers(0, 1), inner, max_size=2)),
        *(lists.map(lambda values: Row(*values)), inner.map(Point)),
        lists.map(lambda values: Row.of_kind(RowKind.DELETE, **dict(zip("ab", values)))),
    )


def changeable(value):
    """The numbers of all objects within a value that can be changed."""
    if isinstance(value, (list, tuple, Row)):
        inner = set().union(*map(changeable, value))
        return inner if type(value) is tuple else inner | {id(value)}
    if isinstance(value, dict):
        return {id(value)}.union(*map(changeable, value.values()))
    return {id(value)} | changeable(value.x) if isinstance(value, Point) else set()


@given(st.recursive(FIXED, parts, max_leaves=6))
def test_a_copy_is_equal_and_shares_nothing_that_can_be_changed(value):
    """However deep it is."""
    copy = copy_value(value)

    assert (value, type(value), repr(value).split(" object")[0]) == (
        copy,
        type(copy),
        repr(copy).split(" object")[0],
    )
    assert not changeable(value) & changeable(copy)


def test_a_copy_of_what_holds_itself_does_so_too():
    """It goes by pickle."""
    value = [1]
    value.append(value)

    copy = copy_value(value)

    assert copy[1] is copy
    assert copy is not value


def test_a_member_of_an_enum_is_its_own_copy():
    """Programs compare them by identity, also where pickle would not find their class."""
    assert Color.RED is copy_value([Color.RED])[0]


def test_what_cannot_be_pickled_is_itself_as_it_is_given():
    """A function may give a lock to the next one; a copy of its own is refused."""
    value = [threading.Lock()]

    assert value is as_given(value)
    with pytest.raises(OutputError, match="leave out locks"):
        copy_value(value)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (True, 1),
        (True, "a"),
        (True, (1, None)),
        (True, FixedRow(n=1)),
        (False, [1]),
        (False, {}),
        (False, (1, [])),
        (False, FixedRow(n=[])),
        (False, Row(1)),
        (False, Point(1)),
    ],
)
def test_which_values_nobody_can_change(expected, value):
    """Numbers and texts, and rows and tuples of them; nested ones are not looked into."""
    assert expected == are_unchangeable([0, value])
