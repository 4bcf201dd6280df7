# SPDX-License-Identifier: Apache-2.0
"""Pull queries: by key, by scan, and what they refuse."""

from __future__ import annotations

import pytest
from view_support import change

from pyflinklike import Row
from pyflinklike.errors import NullKeyError, StateValueError
from pyflinklike.views import MaterializedView, ScanDisabledError


def test_a_row_comes_back_as_it_was_put_in(view):
    """Mappings as dicts, rows as rows."""
    view.apply([{"id": "a", "n": 1}, Row(id="b", n=2)], 0)

    assert {"id": "a", "n": 1} == view.get("a")
    assert Row(id="b", n=2) == view["b"]


def test_a_missing_key_has_no_row(view):
    """`get` gives the default, `[]` raises, `get_many` leaves it out."""
    view.apply([{"id": "a"}], 0)

    assert (None, 7) == (view.get("x"), view.get("x", 7))
    assert {"a": {"id": "a"}} == view.get_many(["a", "x"])
    assert "x" not in view
    with pytest.raises(KeyError):
        view["x"]


def test_a_row_that_was_read_is_the_readers_own(view):
    """Changing it changes nothing."""
    view.apply([{"id": "a", "tags": ["x"]}], 0)
    view.get("a")["tags"].append("spoilt")

    assert {"id": "a", "tags": ["x"]} == view.get("a")


def test_a_query_by_key_needs_no_scan(view):
    """One key or several, with further conditions on what is found."""
    view.apply([{"id": each, "n": n} for n, each in enumerate("abc")], 0)

    assert [{"id": "b", "n": 1}] == view.query({"id": "b"})
    assert [0, 2] == [row["n"] for row in view.query({"id": ["a", "c", "x", "a"]})]
    assert [2] == [row["n"] for row in view.query({"id": {"a", "c"}, "n": lambda n: n > 0})]
    assert [] == view.query({"id": "a", "n": 5})


@pytest.mark.parametrize(
    "where",
    [None, {}, {"n": 1}, {"id": lambda key: key == "a"}, lambda row: row["id"] == "a"],
    ids=["all", "no column", "another column", "a predicate of the key", "a callable"],
)
def test_any_other_query_is_a_scan_and_must_be_allowed(view, where):
    """Also of an empty view, and with a limit: it would be slow once there are rows."""
    with pytest.raises(ScanDisabledError, match="allow_scan=True"):
        view.query(where, limit=1)

    assert [] == view.query(where, allow_scan=True)


def test_a_scan_filters_and_stops_at_the_limit(view):
    """Rows come in the order of their keys."""
    view.apply([{"id": n, "even": n % 2 == 0} for n in (3, -1, 2, 10, 4)], 0)

    assert [-1, 2, 3, 4, 10] == [row["id"] for row in view.query(allow_scan=True)]
    assert [2, 4] == [row["id"] for row in view.query({"even": True}, 2, allow_scan=True)]
    assert [10] == [r["id"] for r in view.query(lambda row: row["id"] > 4, allow_scan=True)]
    assert [] == view.query(limit=0, allow_scan=True)


def test_a_query_for_an_unknown_column_is_refused(view):
    """A slip of the pen must not look like an empty answer."""
    view.apply([{"id": "a"}], 0)

    with pytest.raises(StateValueError, match="'price'"):
        view.query({"id": "a", "price": 1})
    with pytest.raises(StateValueError, match="'price'"):
        view.query({"price": 1, "id": lambda key: key > "b"}, allow_scan=True)


def test_a_column_that_only_some_rows_have_is_none_in_the_others(view):
    """As after a column was added."""
    view.apply([{"id": "a"}, {"id": "b", "n": 1}, {"id": "c", "n": 2}], 0)

    assert [{"id": "c", "n": 2}] == view.query({"n": 2}, allow_scan=True)
    assert [{"id": "a"}] == view.query({"n": None}, allow_scan=True)


def test_a_view_is_not_iterated_over_by_accident(view):
    """That would be a scan nobody allowed."""
    with pytest.raises(ScanDisabledError):
        list(view)


def test_a_key_of_several_columns_is_a_tuple(tmp_path):
    """In all queries; a query names each column."""
    with MaterializedView("v", key=["shop", "id"], path=tmp_path) as view:
        view.apply([{"shop": "x", "id": 1, "n": 5}, change("insert", Row(shop="y", id=2), 7)], 0)

        assert 5 == view["x", 1]["n"]
        assert {("x", 1): {"shop": "x", "id": 1, "n": 5}, ("y", 2): 7} == dict(view.as_of(0))
        assert [7] == view.query({"shop": ["x", "y"], "id": [2]})
        with pytest.raises(ScanDisabledError):
            view.query({"shop": "x"})


def test_a_key_given_as_a_list_of_one_column_is_plain(tmp_path):
    """One column is one column."""
    with MaterializedView("v", key=["id"], path=tmp_path) as view:
        view.apply([{"id": 1}], 0)

        assert {"id": 1} == view[1]


def test_no_key_is_none(view):
    """Neither one asked for nor one of a row."""
    with pytest.raises(StateValueError):
        view.get(None)
    with pytest.raises(NullKeyError, match="'prices'"):
        view.apply([{"id": "a"}, {"id": None}], 0)
    assert None is view.get("a")
