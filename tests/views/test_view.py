# SPDX-License-Identifier: Apache-2.0
"""`MaterializedView`: what it takes, what it answers, and what it refuses."""

from __future__ import annotations

import contextlib
import datetime as dt
import sqlite3
from collections import namedtuple
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Row
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    NullKeyError,
    StateStoreError,
    StateValueError,
    StoreClosedError,
    ValueDecodeError,
)
from pyflinklike.views import Freshness, MaterializedView, ScanDisabledError, UnknownBatchError
from pyflinklike.views.codec import decode_row, encode_row


class Time:
    """A clock that is set by assignment."""

    now = 1_000

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    """The time of the view."""
    return Time()


@pytest.fixture
def view(tmp_path, clock):
    """An empty view by `id`."""
    with MaterializedView("prices", key="id", path=tmp_path, clock=clock) as opened:
        yield opened


def change(op, key, value, diff=None, **more):
    """A row as `UpsertFunction` yields it."""
    diff = diff or (1 if op in ("insert", "update_after") else -1)
    return Row(key=key, op=op, value=value, diff=diff, **more)


# Pull queries


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


def test_a_later_row_takes_the_place_of_the_one_before(view):
    """Within a batch and across batches."""
    view.apply([{"id": "a", "n": 1}, {"id": "a", "n": 2}], 0)
    assert 2 == view["a"]["n"]

    view.apply([{"id": "a", "n": 3}], 1)
    assert (3, 1) == (view["a"]["n"], len(view))


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


def test_equal_keys_of_different_types_are_different(view):
    """As everywhere in pyflinklike."""
    view.apply([{"id": 1}], 0)

    assert (None, None) == (view.get(1.0), view.get(True))


def test_no_key_is_none(view):
    """Neither one asked for nor one of a row."""
    with pytest.raises(StateValueError):
        view.get(None)
    with pytest.raises(NullKeyError, match="'prices'"):
        view.apply([{"id": "a"}, {"id": None}], 0)
    assert None is view.get("a")


# What a batch is


def test_a_batch_id_seen_before_is_ignored(view):
    """Its rows are not even looked at."""
    assert view.apply([{"id": "a", "n": 1}], 0)

    assert not view.apply(iter([{"id": "a", "n": 2}, "no row"]), 0)
    assert 1 == view["a"]["n"]


def test_batch_ids_may_come_in_any_order(view):
    """Each is applied once, however long ago."""
    applied = [3, 1, 2, 7, 0, 5, 4, 6, 10]
    for number in applied:
        assert view.apply([{"id": number}], number)

    assert [False] * len(applied) == [view.apply([{"id": -1}], number) for number in applied]
    assert view.apply([], 8)
    assert len(applied) == len(view)


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


# Changes


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


def test_a_retraction_without_a_new_row_removes_the_row(tmp_path):
    """As where a filter took the other half."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply([change("insert", "a", 1)], 0)
        view.apply([change("update_before", "a", 1)], 1)

        assert "a" not in view


def test_a_delete_of_an_unknown_key_does_nothing(tmp_path):
    """As the tombstone after a delete."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        view.apply([change("delete", "a", None)], 0)

        assert 0 == len(view)


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


# Order


@pytest.mark.parametrize(
    ("order", "kept"), [(4, "old"), (5, "old"), (6, "new"), (None, "old")], ids=str
)
def test_a_stale_plain_row_is_dropped(tmp_path, order, kept):
    """One whose order is not greater than that of the row it would replace."""
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        view.apply([{"id": "a", "at": 5, "n": "old"}], 0)
        view.apply([{"id": "a", "at": order, "n": "new"}], 1)

        assert kept == view["a"]["n"]


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


def test_changes_are_not_judged_by_order(tmp_path):
    """Something ordered them already."""
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        view.apply([{"id": "a", "at": 5}], 0)
        view.apply([{"id": "a", "at": 4, "op": "update_after", "diff": 1}], 1)

        assert 4 == view["a"]["at"]


# The past


def test_a_view_can_be_asked_for_the_past(view):
    """It is a mapping as the view was after a batch."""
    view.apply([{"id": "a", "n": 1}, {"id": "b", "n": 1}], 10)
    view.apply([{"id": "a", "n": 2}, {"id": "b", "op": "delete", "diff": -1}], 11)
    view.apply([{"id": "b", "n": 3}, {"id": "c", "n": 3}], 12)
    past = view.as_of(10)

    assert {"a": {"id": "a", "n": 1}, "b": {"id": "b", "n": 1}} == past
    assert (2, ["a", "b"]) == (len(past), list(past))
    assert {"a": {"id": "a", "n": 2}} == view.as_of(11)
    assert (None, 1) == (view.as_of(11).get("b"), past["b"]["n"])
    assert [1] == [row["n"] for row in past.query({"id": ["b", "c"]})]
    assert {"a", "b"} == past.get_many("abc").keys()
    with pytest.raises(KeyError):
        past["c"]
    with pytest.raises(ScanDisabledError):
        past.query()


def test_the_past_is_kept_for_as_many_batches_as_the_history(tmp_path):
    """One that was asked for in time is refused once it is gone."""
    with MaterializedView("v", key="id", path=tmp_path, history=2) as view:
        for number in range(3):
            view.apply([{"id": "a", "n": number}], number)
        kept = view.as_of(1)

        assert 1 == kept["a"]["n"]
        for number in (0, 3, -1):
            with pytest.raises(UnknownBatchError, match="history"):
                view.as_of(number)
        view.apply([], 3)
        with pytest.raises(UnknownBatchError):
            kept.get("a")


def test_a_history_of_one_batch_keeps_no_past(tmp_path):
    """Nor any rows of it."""
    with MaterializedView("v", key="id", path=tmp_path, history=1) as view:
        for number in range(3):
            view.apply([{"id": "a", "n": number}], number)

        assert {"a": {"id": "a", "n": 2}} == view.as_of(2)
        with sqlite3.connect(view.path) as other:
            assert [(0,)] == other.execute("SELECT count(*) FROM changes").fetchall()
        other.close()


# Freshness


def test_an_empty_view_is_not_fresh(view):
    """Nothing was applied."""
    assert Freshness(None, None, None) == view.freshness


def test_freshness_is_by_batches_where_no_event_time_is_known(view, clock):
    """The lag is the time since the last batch."""
    view.apply([], 4)
    clock.now = 1_250

    assert (4, None, 250) == view.freshness


def test_freshness_is_by_the_watermark_where_one_is_known(tmp_path, clock):
    """It never goes back, and what the caller says counts as well."""
    with MaterializedView("v", key="id", path=tmp_path, event_time="at", clock=clock) as view:
        view.apply([{"id": 1, "at": 700}, {"id": 2, "at": 900}, {"id": 3, "at": None}], 0)
        assert (0, 900, 100) == view.freshness

        view.apply([{"id": 1, "at": 800}], 1)
        assert (1, 900, 100) == view.freshness

        view.apply([], 2, watermark=dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.timezone.utc))
        assert (2, 1_000, 0) == view.freshness


def test_an_order_of_datetimes_tells_the_event_time(tmp_path, clock):
    """One of numbers does not: they may be offsets."""
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 600_000)
    with MaterializedView("times", key="id", order_by="at", path=tmp_path, clock=clock) as view:
        view.apply([{"id": 1, "at": at}], 0)
        assert (0, 600, 400) == view.freshness
    with MaterializedView("offsets", key="id", order_by="at", path=tmp_path, clock=clock) as view:
        view.apply([{"id": 1, "at": 600}], 0)
        assert None is view.freshness.watermark


# Life


def test_a_view_is_there_when_it_is_opened_again(tmp_path, clock):
    """Rows, past, freshness and the batch ids that were applied."""
    with MaterializedView("v", key="id", path=tmp_path, clock=clock) as view:
        view.apply([{"id": "a", "n": 1}], 0)
        view.apply([{"id": "a", "n": 2}], 1)
    with MaterializedView("v", key="id", path=tmp_path, clock=clock) as view:
        assert not view.apply([{"id": "a", "n": 3}], 1)
        assert ({"id": "a", "n": 2}, 1) == (view["a"], view.as_of(0)["a"]["n"])
        assert (1, None, 0) == view.freshness


def test_two_may_open_a_view_at_once(tmp_path):
    """Another process sees each batch when it is committed, and may write as well."""
    with (
        MaterializedView("v", key="id", path=tmp_path) as one,
        MaterializedView("v", key="id", path=tmp_path) as other,
    ):
        one.apply([{"id": "a"}], 0)
        assert {"id": "a"} == other["a"]

        assert not other.apply([{"id": "b"}], 0)
        assert other.apply([{"id": "b"}], 1)
        assert 2 == len(one)


def test_a_closed_view_refuses(view):
    """Whatever it is asked; closing again does nothing."""
    view.close()
    view.close()

    for use in (
        lambda: view.get("a"),
        lambda: view.apply([], 0),
        view.changes,
        lambda: view.freshness,
        lambda: len(view),
    ):
        with pytest.raises(StoreClosedError, match="'prices'"):
            use()


def test_views_share_a_directory(tmp_path):
    """Each in its own file; a path that names a file is one."""
    with (
        MaterializedView("a", key="id", path=tmp_path) as a,
        MaterializedView("b", key="id", path=str(tmp_path)) as b,
    ):
        a.apply([{"id": 1}], 0)
        assert 0 == len(b)
    file = tmp_path / "deep" / "c.db"
    with MaterializedView("c", key="id", path=file) as c:
        assert file == c.path
    assert file.is_file()


def test_a_file_of_another_view_is_refused(tmp_path):
    """By name, or by key."""
    file = tmp_path / "v.sqlite"
    MaterializedView("v", key="id", path=file).close()

    with pytest.raises(IncompatibleStateError, match="'w'"):
        MaterializedView("w", key="id", path=file)
    with pytest.raises(IncompatibleStateError, match="'no'"):
        MaterializedView("v", key="no", path=file)


def test_a_file_of_another_program_is_left_alone(tmp_path):
    """Byte for byte."""
    text = tmp_path / "text.db"
    text.write_text("no database " * 1_000)
    with pytest.raises(CorruptStateError, match="must be the file"):
        MaterializedView("v", key="id", path=text)
    other = tmp_path / "other.db"
    connection = sqlite3.connect(other)
    connection.execute("CREATE TABLE rows (a)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(IncompatibleStateError, match="another program"):
        MaterializedView("v", key="id", path=other)

    assert before == other.read_bytes()


def test_a_full_disk_fails_the_batch(view):
    """Whole, by an error of ours; it can be sent again."""
    view.apply([{"id": "a"}], 0)
    pages = view._database._writer.execute("PRAGMA page_count").fetchone()[0]
    view._database._writer.execute(f"PRAGMA max_page_count = {pages}")
    rows = [{"id": n, "text": "x" * 1_000} for n in range(100)]
    with pytest.raises(StateStoreError, match="full"):
        view.apply(rows, 1)
    assert (1, 0) == (len(view), view.freshness.batch_id)

    view._database._writer.execute("PRAGMA max_page_count = 1000000")
    assert view.apply(rows, 1)
    assert 101 == len(view)


def test_a_damaged_file_is_told_when_it_is_read(tmp_path):
    """By an error of ours."""
    with MaterializedView("v", key="id", path=tmp_path) as view:
        view.apply([{"id": n, "text": "x" * 100} for n in range(1_000)], 0)
    data = bytearray(view.path.read_bytes())
    data[4_096 * 2 :] = b"\xff" * (len(data) - 4_096 * 2)
    view.path.write_bytes(data)

    with (
        pytest.raises(CorruptStateError, match="restore"),
        MaterializedView("v", key="id", path=tmp_path) as view,
    ):
        view.query(allow_scan=True)


def test_a_view_of_a_later_format_is_refused(tmp_path):
    """By name of what would read it."""
    file = tmp_path / "v.db"
    MaterializedView("v", key="id", path=file).close()
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(CorruptStateError, match="99"):
        MaterializedView("v", key="id", path=file)


def test_a_path_that_cannot_be_written_to_is_refused(tmp_path):
    """By name."""
    (tmp_path / "file").write_text("")

    with pytest.raises(StateStoreError, match="another path"):
        MaterializedView("v", key="id", path=tmp_path / "file" / "v.db")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"name": ""}, DeclarationValueError),
        ({"name": "a/b"}, DeclarationValueError),
        ({"name": 1}, DeclarationTypeError),
        ({"key": []}, DeclarationValueError),
        ({"key": ["a", "a"]}, DeclarationValueError),
        ({"key": 1}, DeclarationTypeError),
        ({"order_by": 1}, DeclarationTypeError),
        ({"path": None}, DeclarationTypeError),
        ({"history": 0}, DeclarationValueError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_when_a_view_is_made(tmp_path, arguments, error):
    """By what was got."""
    with pytest.raises(error, match="got"):
        MaterializedView(**{"name": "v", "key": "id", "path": tmp_path, **arguments})


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"where": 1}, DeclarationTypeError),
        ({"where": {1: 2}}, DeclarationTypeError),
        ({"limit": -1}, DeclarationValueError),
        ({"limit": 1.0}, DeclarationTypeError),
    ],
    ids=str,
)
def test_wrong_arguments_of_a_query_are_refused(view, arguments, error):
    """By what was got."""
    with pytest.raises(error, match="got"):
        view.query(**{"allow_scan": True, **arguments})


# Values

_zones = st.sampled_from(
    [None, dt.timezone.utc, dt.timezone(dt.timedelta(hours=-3)), ZoneInfo("Europe/Berlin")]
)
_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False),
    st.dates(),
    st.times(),
    st.datetimes(timezones=_zones, allow_imaginary=False),
    st.timedeltas(),
)
_names = st.lists(st.text(min_size=1, max_size=3), max_size=3, unique=True)
values = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=3),
        st.dictionaries(st.integers() | st.dates() | st.tuples(st.text()), inner, max_size=3),
        _names.flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, inner))).map(
            lambda fields: Row(**fields)
        ),
    ),
    max_leaves=8,
)


def same(one, other):
    """Whether two values are equal, of the same types, all the way down."""
    if type(one) is not type(other) or one != other:
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return all(map(same, one, other))
    if isinstance(one, (dt.datetime, dt.time)):
        return (one.fold, str(one)) == (other.fold, str(other))
    return str(one) == str(other)


@given(values)
def test_all_values_of_rows_come_back(value):
    """Equal, and of the type they were."""
    assert same(value, decode_row(encode_row(value)))


def test_relatives_of_rows_come_back_as_rows():
    """Spark's rows, named tuples, byte arrays and NumPy's scalars have a form of ours."""
    numpy = pytest.importorskip("numpy")
    point = namedtuple("point", ["x", "y"])(1, bytearray(b"y"))

    assert same(Row(x=1, y=b"y"), decode_row(encode_row(point)))
    assert same(
        [1, 0.5, Decimal("1.50")],
        decode_row(encode_row([numpy.int64(1), numpy.float64(0.5), Decimal("1.50")])),
    )


@given(st.binary(max_size=40))
def test_damaged_rows_are_told(data):
    """By an error of ours, or they are rows."""
    with contextlib.suppress(CorruptStateError):
        decode_row(data)
