# SPDX-License-Identifier: Apache-2.0
"""The forms in which changes may come to a view."""

from __future__ import annotations

import pytest
from view_support import change

from pyflinklike import Row
from pyflinklike.errors import ValueDecodeError
from pyflinklike.views import MaterializedView


def test_changes_of_an_upsert_function_are_applied(tmp_path):
    """The row is the value; deletes delete."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply([change("insert", "a", Row(n=1)), change("insert", "b", Row(n=2))], 0)
        view.apply(
            [
                change("update_before", "a", Row(n=1)),
                change("update_after", "a", Row(n=3)),
                change("delete", "b", Row(n=2)),
            ],
            1,
        )

        assert (Row(n=3), None, 1) == (view.get("a"), view.get("b"), len(view))
        assert [Row(n=3)] == view.query({"key": "a"})


@pytest.mark.parametrize(
    "rows",
    [
        [change("update_after", "a", 2), change("update_before", "a", 1)],
        [change("update_after", "a", 2)],
        [change("delete", "a", 1), change("insert", "a", 2)],
        [change("update_before", "a", None), change("update_after", "a", 2)],
    ],
    ids=["shuffled", "without retraction", "deleted in between", "the old row untold"],
)
def test_an_update_may_come_in_several_forms(tmp_path, rows):
    """In any order of its two halves, or as the new row alone."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply([change("insert", "a", 1)], 0)
        view.apply(rows, 1)

        assert 2 == view["a"]


def test_changes_may_be_bare_tuples(view):
    """Of key, op, value and diff, and perhaps an error."""
    view.apply([("a", "insert", Row(n=1), 1), ("b", "insert", Row(n=2), 1, None)], 0)
    view.apply([("b", "delete", Row(n=2), -1)], 1)

    assert {"a": Row(n=1)} == view.as_of(1)


def test_changes_may_be_flat(view):
    """`op` and `diff` beside the columns are no part of the row."""
    view.apply(
        [{"id": "a", "n": 1, "op": "insert", "diff": 1}, Row(id="b", op="insert", diff=1)], 0
    )
    view.apply([{"id": "b", "op": "delete", "diff": -1}], 1)

    assert ({"id": "a", "n": 1}, None) == (view.get("a"), view.get("b"))


def test_the_key_of_a_change_may_be_in_its_value(view):
    """Where it has neither the columns nor `key`."""
    view.apply([{"op": "insert", "diff": 1, "value": {"id": "a", "n": 1}}], 0)

    assert {"id": "a", "n": 1} == view["a"]


def test_a_differential_has_signs_only(tmp_path):
    """+1 inserts, -1 deletes."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply([{"key": "a", "value": 1, "diff": 1}, {"key": "b", "value": 1, "diff": 1}], 0)
        view.apply([{"key": "a", "value": 1, "diff": -1}], 1)

        assert {"b": 1} == dict(view.as_of(1))


def test_a_null_value_is_a_row(tmp_path):
    """None is data; a delete says so."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply([change("insert", "a", None)], 0)

        assert None is view["a"]
        assert "a" in view


def test_an_error_is_raised_where_it_is_read(tmp_path):
    """And only there, until a good row takes its place."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply(
            [
                change("insert", "a", None, error="no number"),
                change("insert", "b", 1, error=None),
                change("insert", None, None, error="no key"),
            ],
            0,
        )

        assert 1 == view["b"]
        assert "a" in view
        with pytest.raises(ValueDecodeError, match="no number"):
            view.get("a")
        with pytest.raises(ValueDecodeError, match="no key"):
            view.query(allow_scan=True)
        view.apply([change("delete", None, None, error="no key"), change("insert", "a", 2)], 1)
        assert [2, 1] == view.query(allow_scan=True)
