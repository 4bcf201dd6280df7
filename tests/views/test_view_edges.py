# SPDX-License-Identifier: Apache-2.0
"""`MaterializedView` at its edges: equal keys, extreme values, other programs, who may read it."""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import stat
import sys
from contextlib import closing
from decimal import Decimal

import pytest

from pyflinklike import Row
from pyflinklike.errors import (
    DeclarationValueError,
    OrderKeyError,
    StateStoreError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types import Types
from pyflinklike.upsert import UpsertFunction
from pyflinklike.views import MaterializedView

NAN, SIGNALLING = float("nan"), Decimal("sNaN")
EQUAL = [1, 1.0, True, Decimal(1)]


def nested(depth):
    """So many lists within one another."""
    value = 1
    for _ in range(depth):
        value = [value]
    return value


# Keys that are equal, and not the same


@pytest.fixture
def equal(view):
    """A row for each of the keys that Python takes for one."""
    view.apply([{"id": key, "type": type(key).__name__} for key in EQUAL], 0)
    return view


NAMES = ["int", "float", "bool", "Decimal"]


def types_of(rows):
    """What tells the rows apart."""
    return [row["type"] for row in rows]


def test_equal_keys_are_told_apart_by_all_reads(equal):
    """One by one, together, in the past, and as a mapping that is copied to none."""
    many, past = equal.get_many(EQUAL), equal.as_of(0)

    assert NAMES == types_of(equal.get(key) for key in EQUAL)
    assert NAMES == types_of(many[key] for key in EQUAL) == types_of(many.values())
    assert NAMES == types_of(past[key] for key in EQUAL)
    assert set(NAMES) == set(types_of(past.values())) == {row["type"] for _, row in past.items()}
    assert [4, 4, 4] == [len(many), len(past), len(list(past))]
    assert past == equal.as_of(0) == many == past.get_many(EQUAL)
    assert 1.0 not in equal.get_many([1])


def test_equal_keys_are_told_apart_by_queries(equal):
    """By a lookup of one or several, and by a scan of part of a key."""
    assert NAMES == types_of(equal.query({"id": EQUAL}))
    assert ["bool"] == types_of(equal.query({"id": True}))
    assert ["bool"] == types_of(equal.query({"id": True, "type": lambda _: True}))
    with equal.changes(where={"id": 1.0}, start="earliest", timeout=0) as changes:
        assert ["float"] == types_of(change.after for change in changes)


def test_equal_parts_of_keys_are_told_apart(tmp_path):
    """In a scan for one column of two."""
    with MaterializedView("v", key=["a", "b"], path=tmp_path) as view:
        view.apply([{"a": key, "b": 0, "type": type(key).__name__} for key in EQUAL], 0)

        assert ["bool"] == types_of(view.query({"a": True}, allow_scan=True))
        assert ["int", "Decimal"] == types_of(
            view.query({"a": [1, Decimal(1)]}, allow_scan=True, limit=2)
        )


def test_rows_by_key_are_a_mapping(view):
    """Equal to the dict with the same keys and rows, and to nothing else."""
    view.apply([{"id": "a"}, {"id": "b"}], 0)
    found = view.get_many(["a", "b", "x", "a"])

    assert {"a": {"id": "a"}, "b": {"id": "b"}} == found == dict(found)
    assert "{'a': {'id': 'a'}, 'b': {'id': 'b'}}" == repr(found)
    assert (["a", "b"], "x" in found, found.get("x", 7)) == (list(found), False, 7)
    assert found != {"a": {"id": "a"}}
    assert found != [("a", 1)]
    with pytest.raises(KeyError, match="'x'"):
        found["x"]


# Values


@pytest.mark.parametrize(
    "number", [10**5_000, -(10**5_000), 2**64, -(2**63) - 1, 2**71 - 1], ids=int.bit_length
)
def test_ints_of_any_size_come_back(view, number):
    """Python refuses to write more than 4,300 digits."""
    view.apply([{"id": "a", "n": number}], 0)

    assert number == view["a"]["n"]


@pytest.mark.parametrize("make", [nested, lambda depth: Row(x=nested(depth - 1))])
def test_rows_are_nested_as_deep_as_they_can_be_read(view, make):
    """From any thread; what is deeper is refused, and not when it is read."""
    view.apply([{"id": "a", "x": make(99)}], 0)
    assert make(99) == view["a"]["x"]
    for depth in (100, 1_000, 100_000):
        with pytest.raises(StateValueError, match="100 levels"):
            view.apply([{"id": "a", "x": make(depth)}], 1)


@pytest.mark.parametrize(
    "key",
    [
        dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime.max.replace(tzinfo=dt.timezone(dt.timedelta(hours=-2))),
        SIGNALLING,
        1 << 8 * 255,
        10**5_000,
        "\ud800",
        ((1, [2]),),
    ],
    ids=lambda key: type(key).__name__,
)
def test_a_key_that_could_not_be_read_back_is_refused(view, key):
    """When it comes, not when all are read; wherever it is asked for."""
    with pytest.raises(StateValueError, match="a key of a view"):
        view.apply([{"id": key}], 0)
    for ask in (view.get, lambda key: view.query({"id": [key]}), lambda key: view.changes(key=key)):
        with pytest.raises(StateValueError, match="a key of a view"):
            ask(key)


def test_a_key_is_nested_as_deep_as_it_can_be_read(view):
    """What is deeper is refused."""
    key = 1
    for _ in range(50):
        key = (key,)
    view.apply([{"id": key}], 0)
    assert [key] == list(view.as_of(0))
    for more in (1, 500, 5_000):
        deeper = key
        for _ in range(more):
            deeper = (deeper,)
        with pytest.raises(StateValueError, match="50 deep"):
            view.get(deeper)


@pytest.mark.parametrize("batch_id", [-(2**63), 2**63 - 1, 0])
def test_batch_ids_reach_to_the_edges_of_64_bits(view, batch_id):
    """Together with their neighbours they are one run."""
    ids = [each for each in (batch_id - 1, batch_id, batch_id + 1) if -(2**63) <= each < 2**63]
    assert [True] * len(ids) == [view.apply([], each) for each in ids]

    assert [False] * len(ids) == [view.apply([], each) for each in ids]
    view.verify()


def test_what_is_no_int_of_64_bits_is_refused(view):
    """As a batch id, a watermark or an event time."""
    for batch_id in (2**63, 10**5_000):
        with pytest.raises(StateValueError, match="64 bits"):
            view.apply([], batch_id)
    with pytest.raises(StateValueError, match="64 bits"):
        view.apply([], 0, watermark=2**63)
    assert view.apply([], 0)


@pytest.mark.parametrize("argument", ["name", "key", "order_by"])
def test_names_are_valid_unicode(tmp_path, argument):
    """A file's name and SQLite's text can hold no lone surrogate."""
    arguments = {"name": "v", "key": "id", argument: "\udcff"}
    with pytest.raises(DeclarationValueError, match="udcff"):
        MaterializedView(path=tmp_path, **arguments)


@pytest.mark.skipif(
    os.environ.get("HYPOTHESIS_PROFILE") != "thorough", reason="takes some GB of memory"
)
def test_a_row_of_a_gigabyte_is_refused_by_its_size(view):
    """Before anything is written; SQLite holds no more."""
    with pytest.raises(StateValueError, match="less than 1 GB"):
        view.apply([{"id": 1, "data": bytes(1_000_000_000)}], 0)


# Orders that are no place


@pytest.mark.parametrize("order", [NAN, Decimal("NaN"), SIGNALLING], ids=repr)
def test_no_place_in_an_order_is_refused(tmp_path, order):
    """Nothing would ever come after it: by views and by upserts alike."""
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        view.apply([{"id": 1, "at": 5}], 0)
        with pytest.raises(StateValueError, match="must not have NaN"):
            view.apply([{"id": 1, "at": order}], 1)
        view.apply([{"id": 1, "at": 6}], 1)
        assert 6 == view[1]["at"]
    function = UpsertFunction(value="v", order_key="at", value_type=Types.LONG(), on_error="raise")
    with (
        KeyedProcessHarness(function, key_selector=lambda row: row.id) as harness,
        pytest.raises(OrderKeyError, match="place in the order"),
    ):
        harness.process_element(Row(id=1, v=1, at=order))


@pytest.mark.parametrize("order", [NAN, SIGNALLING], ids=repr)
def test_a_change_without_a_place_in_the_order_gives_way_to_any_row(tmp_path, order):
    """Changes are not judged by it, so it may be in the view."""
    with MaterializedView("v", key="id", order_by="at", path=tmp_path) as view:
        value = {"id": 1, "at": order}
        view.apply([{"op": "insert", "diff": 1, "value": value}], 0)
        view.apply([{"id": 1, "at": -5}], 1)

        assert -5 == view[1]["at"]


# Other programs and processes


def test_a_batch_that_another_process_applies_meanwhile_is_applied_once(tmp_path):
    """While its rows are read: it is asked for again in the transaction that writes."""
    with (
        MaterializedView("v", key="id", path=tmp_path) as one,
        MaterializedView("v", key="id", path=tmp_path) as other,
    ):

        def rows():
            assert other.apply([{"id": 1, "by": "other"}], 0)
            yield {"id": 1, "by": "one"}

        with one.changes(timeout=0) as changes:
            assert not one.apply(rows(), 0)
            assert [] == list(changes)
        assert "other" == one[1]["by"]
        assert 1 == len(one)
        one.verify()


def test_what_was_applied_is_on_the_disk(view):
    """A loss of power takes nothing back: SQLite syncs its log with each commit."""
    assert [(2,)] == view._database._writer.execute("PRAGMA synchronous").fetchall()
    assert [("wal",)] == view._database._writer.execute("PRAGMA journal_mode").fetchall()


def test_a_file_that_another_program_holds_is_not_full(view):
    """The message tells what to end."""
    view._database._writer.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(view.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StateStoreError, match="locked; another program holds it"):
            view.apply([{"id": 1}], 0)
        other.execute("ROLLBACK")

    assert view.apply([{"id": 1}], 0)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="sqlite3 has limits from Python 3.11 on")
def test_a_row_that_is_too_large_for_sqlite_is_not_damage(view):
    """It is the row that is wrong, not the file."""
    view._database._writer.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    with pytest.raises(StateValueError, match="less than 1 GB"):
        view.apply([{"id": 1, "data": bytes(20_000)}], 0)

    assert view.apply([{"id": 1}], 0)


def test_an_error_of_a_condition_is_no_damage(view):
    """Though it may come from a database of the caller's."""
    view.apply([{"id": 1}], 0)

    def raising(_):
        msg = "theirs"
        raise sqlite3.DatabaseError(msg)

    with pytest.raises(UserFunctionError, match="theirs"):
        view.query(raising, allow_scan=True)


def test_only_its_owner_may_read_a_view(tmp_path):
    """Its log, its index of the log and its mark, and the directories that it made."""
    before = os.umask(0)
    try:
        with MaterializedView("v", key="id", path=tmp_path / "a" / "b") as view:
            view.apply([{"id": 1}], 0)
            files = sorted(view.path.parent.iterdir())
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in files}
            made = {stat.S_IMODE(each.stat().st_mode) for each in list(view.path.parents)[:2]}
    finally:
        os.umask(before)

    assert (
        dict.fromkeys(["v.sqlite", "v.sqlite-mark", "v.sqlite-shm", "v.sqlite-wal"], 0o600) == modes
    )
    assert {0o700} == made
