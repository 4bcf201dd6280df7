# SPDX-License-Identifier: Apache-2.0
"""A view's file from its making to its end, and what arguments it refuses."""

from __future__ import annotations

import pickle
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    IncompatibleStateError,
    StateStoreError,
    StoreClosedError,
)
from pyflinklike.views import MaterializedView
from pyflinklike.views.file_database import CommitMark


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


WRITER = """
import itertools, sys
from pyflinklike.views import MaterializedView

with MaterializedView("v", key="id", path=sys.argv[1]) as view:
    for number in itertools.count():
        view.apply([{"id": key, "n": number} for key in range(20)], number)
        print(number, flush=True)
"""


def test_a_view_is_opened_while_another_process_applies_batches(tmp_path):
    """A batch that is applied meanwhile is not taken for one that is missing."""
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    refusals, behind = [], []
    with writer:
        writer.stdout.readline()
        for _ in range(80):
            acknowledged = int(writer.stdout.readline())
            try:
                with MaterializedView("v", key="id", path=tmp_path) as view:
                    behind += [acknowledged] if view.freshness.batch_id < acknowledged else []
            except CorruptStateError as error:
                refusals.append(str(error))
        writer.kill()
    assert ([], []) == (refusals, behind)


def test_a_late_acknowledgement_does_not_hide_a_later_one(tmp_path):
    """Of two processes that apply batches, the slower one may acknowledge an earlier batch last."""
    one, other = (CommitMark(tmp_path / "v.sqlite", "the view") for _ in range(2))
    one.write(5, 7)
    other.write(5, 6)
    found = [one.read()]
    other.write(6, 1)  # another file in its place
    found.append(one.read())
    one.close()
    other.close()
    assert [(5, 7), (6, 1)] == found


def test_an_unpickled_view_is_opened_again(tmp_path, monkeypatch):
    """By the arguments it was made with, and at the same file from another directory."""
    arguments = {"key": ("id", "part"), "order_by": "n", "history": 3, "verified": False}
    monkeypatch.chdir(tmp_path)
    with MaterializedView("v", path="views", **arguments) as one:
        pickled = pickle.dumps(one.foreach_batch)
        monkeypatch.chdir("/")
        with pickle.loads(pickled).__self__ as other:
            monkeypatch.chdir(tmp_path)
            row = {"id": "a", "part": 1, "n": 2}
            assert other.apply([row], 0)
            assert other.apply([{**row, "n": 1}], 1)  # dropped: its order is lower
            assert (row, row) == (one["a", 1], other["a", 1])
            assert (one.path, 3) == (tmp_path / "views" / "v.sqlite", other.history)


def test_a_view_that_cannot_be_opened_is_not_unpickled(tmp_path):
    """It says why, as opening it by hand does."""
    with MaterializedView("v", key="id", path=tmp_path / "views") as view:
        pickled = pickle.dumps(view)
    view.path.write_bytes(b"no database" * 100)
    with pytest.raises(CorruptStateError, match="'v'"):
        pickle.loads(pickled)


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


def test_a_relative_path_stays_where_it_was_when_the_process_moves(tmp_path, monkeypatch):
    """A thread that reads for the first time opens the file anew."""
    monkeypatch.chdir(tmp_path)
    with MaterializedView("v", key="id", path="views") as view:
        view.apply([{"id": 7, "n": 3}], 0)
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        with ThreadPoolExecutor(1) as other:
            assert {"id": 7, "n": 3} == other.submit(view.get, 7).result()
    assert (tmp_path / "views" / "v.sqlite") == view.path
