# SPDX-License-Identifier: Apache-2.0
"""What a batch does to a view: once, whole or not at all, the highest order first."""

from __future__ import annotations

import sqlite3

import pytest
from view_support import change

from pyflinklike.errors import StateValueError
from pyflinklike.views import MaterializedView

# What a batch is


def test_ids_that_touch_are_kept_as_one_run(view):
    """So that what is known of the past does not grow with it."""
    for number in [*range(0, 300, 2), *range(1, 300, 2)]:
        view.apply([], number)

    with sqlite3.connect(view.path) as other:
        assert [("", 0, 299)] == other.execute("SELECT source, first, last FROM seen").fetchall()
    other.close()


@pytest.mark.parametrize(
    "bad",
    [
        {"n": 1},
        ("a", 1),
        "a",
        {"id": "a", "n": object()},
        {"id": ["a"]},
        {"id": "a", "n": "\ud800"},
        {"id": "a", "op": "login", "diff": 1},
        {"id": "a", "op": "delete", "diff": 1},
        change("insert", "a", 1, diff=2),
    ],
    ids=[
        "without key",
        "without names",
        "no row",
        "no type",
        "unordered key",
        "no Unicode",
        "no op",
        "a sign that contradicts",
        "no sign",
    ],
)
def test_a_batch_with_a_bad_row_is_refused_whole(view, bad):
    """It can be sent again when it is mended."""
    view.apply([{"id": "a", "n": 0}], 0)

    with pytest.raises(StateValueError):
        view.apply([{"id": "a", "n": 5}, bad], 1)
    assert (0, 0) == (view["a"]["n"], view.freshness.batch_id)
    assert view.apply([{"id": "a", "n": 5}], 1)


@pytest.mark.parametrize("batch_id", [None, "0", 1.0, True, 2**63])
def test_a_batch_id_is_an_int(view, batch_id):
    """Of 64 bits, as Spark's."""
    with pytest.raises(StateValueError, match="batch id"):
        view.apply([], batch_id)


# Order


def test_the_highest_order_of_a_batch_wins(tmp_path):
    """Wherever it stands, by several columns as by one."""
    with MaterializedView("v", key="id", order_by=["term", "at"], path=tmp_path) as view:
        view.apply([{"id": "a", "term": t, "at": at} for t, at in [(1, 9), (2, 1), (1, 10)]], 0)

        assert {"id": "a", "term": 2, "at": 1} == view["a"]


def test_anything_is_newer_than_no_order(tmp_path):
    """None sorts lowest."""
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        view.apply([{"id": "a", "at": None}, {"id": "a", "at": -1}], 0)

        assert -1 == view["a"]["at"]


def test_orders_that_cannot_be_compared_are_refused(tmp_path):
    """Rather than one being taken for the greater."""
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        with pytest.raises(StateValueError, match="one type"):
            view.apply([{"id": "a", "at": 1}, {"id": "a", "at": "2"}], 0)
        with pytest.raises(StateValueError, match="ordered by"):
            view.apply([{"id": "a"}], 0)
