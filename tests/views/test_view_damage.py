# SPDX-License-Identifier: Apache-2.0
"""A damaged view file is refused, whatever bit was flipped: it never answers wrongly."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from contextlib import closing

import pytest

from pyflinklike.errors import CorruptStateError, IncompatibleStateError, PyflinklikeError
from pyflinklike.views import MaterializedView

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
FLIPS = 20_000 if THOROUGH else 60
BATCHES = 4


def opened(path, **options):
    """The view of these tests."""
    return MaterializedView("v", key="id", path=path, clock=lambda: 7, **options)


def small(number):
    """Rows that come, change and go, all on one page."""
    return [{"id": key, "n": number} for key in range(12) if key % 5 != number % 5]


def many(number):
    """Rows on several levels of pages, with deletes."""
    choice = random.Random(number)
    if number == 0:
        return [{"id": f"user-{key:04}", "text": "x" * choice.randrange(60)} for key in range(300)]
    rows = [{"id": f"user-{choice.randrange(400):04}", "text": "y" * 50} for _ in range(40)]
    gone = [{"id": f"user-{choice.randrange(300):04}", "op": "delete"} for _ in range(20)]
    return rows + [{**row, "diff": -1} for row in gone]


def large(number):
    """Rows of several pages each."""
    choice = random.Random(number)
    return [{"id": key, "blob": choice.randbytes(9_000)} for key in range(number, number + 8)]


LAYOUTS = {"small": small, "many": many, "large": large}


def answers(view, keys):
    """All that a view can be asked."""
    past = [view.as_of(number) for number in range(BATCHES)]
    with view.changes(start="earliest", timeout=0) as changes:
        told = list(changes)
    return (
        view.query(allow_scan=True),
        [view.get(key) for key in keys],
        (len(view), view.freshness[:2]),
        [(dict(each), len(each), [each.get(key) for key in keys[::5]]) for each in past],
        told,
        [view.apply([{"id": "never"}], number) for number in range(BATCHES)],
    )


def files_of(directory, make, *, is_closed):
    """The files of a view, of a writer that ended well or was killed."""
    view = opened(directory / "live")
    for number in range(BATCHES):
        view.apply(make(number), number)
    if is_closed:
        view.close()
    kept = directory / "kept"
    shutil.copytree(view.path.parent, kept)
    (kept / "v.sqlite-shm").unlink(missing_ok=True)  # SQLite makes it anew
    view.close()
    return kept


def place(choice, size):
    """A byte to flip, more often where pages keep their structure."""
    at = choice.randrange(size)
    return at // 4096 * 4096 + choice.randrange(min(size, 110)) if choice.random() < 0.4 else at


@pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flipped_bit_is_refused_or_does_no_harm(tmp_path, layout, is_closed):
    """In the file, in SQLite's log and in the mark; what is answered is what was written."""
    make = LAYOUTS[layout]
    keys = [*sorted({row["id"] for n in range(BATCHES) for row in make(n)}), "nobody", -1]
    kept = files_of(tmp_path, make, is_closed=is_closed)
    shutil.copytree(kept, tmp_path / "truth")
    with opened(tmp_path / "truth") as view:
        truth = answers(view, keys)
    choice = random.Random(f"{layout} {is_closed}")
    files = [file for file in sorted(kept.iterdir()) if file.stat().st_size]
    refused = 0
    for trial in range(FLIPS):
        file = choice.choices(files, [max(10_000, each.stat().st_size) for each in files])[0]
        flipped = shutil.copytree(kept, tmp_path / f"flipped-{trial}")
        data = bytearray(file.read_bytes())
        at, bit = place(choice, len(data)) % len(data), choice.randrange(8)
        data[at] ^= 1 << bit
        (flipped / file.name).write_bytes(data)
        try:
            with opened(flipped) as view:
                assert truth == answers(view, keys), (file.name, at, bit)
        except PyflinklikeError:
            refused += 1
        shutil.rmtree(flipped)

    assert refused > FLIPS / 20


def changed(path, *statements):
    """The file after SQL that is none of ours, which keeps SQLite's own structure whole."""
    with closing(sqlite3.connect(path / "v.sqlite", isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


@pytest.fixture
def path(tmp_path):
    """The directory of a view with some history."""
    with opened(tmp_path) as view:
        for number in range(BATCHES):
            view.apply(small(number), number)
    return tmp_path


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM rows WHERE key = (SELECT min(key) FROM rows)",
        "UPDATE rows SET row = (SELECT max(row) FROM rows)",
        "UPDATE rows SET row = r.row, checksum = r.checksum FROM (SELECT * FROM rows LIMIT 1) AS r",
        "UPDATE rows SET key = x'7f' WHERE key = (SELECT min(key) FROM rows)",
        "UPDATE rows SET row = CAST(row AS TEXT)",
        "UPDATE rows SET checksum = CAST(checksum AS BLOB)",
        "INSERT INTO rows SELECT x'7f', row, checksum FROM rows LIMIT 1",
        "DELETE FROM changes WHERE seq = 3",
        "DELETE FROM changes WHERE key = (SELECT min(key) FROM changes)",
        "UPDATE changes SET before = NULL",
        "UPDATE changes SET position = position + 100",
        "DELETE FROM batches",
        "DELETE FROM batches WHERE seq = (SELECT max(seq) FROM batches)",
        "DELETE FROM batches WHERE seq = (SELECT min(seq) FROM batches)",
        "UPDATE batches SET batch_id = 9 WHERE seq = 2",
        "UPDATE batches SET source = CAST(x'ff' AS TEXT)",
        "UPDATE batches SET size = size + 1",
        "DELETE FROM seen",
        "UPDATE seen SET last = last + 1",
        "INSERT INTO seen VALUES ('', 100, 200, 1)",
        "UPDATE about SET identity = identity + 1",
        "DELETE FROM about",
    ],
)
def test_a_line_that_no_view_wrote_is_told_when_it_is_opened(path, statement):
    """Missing, moved, changed or added, in each table."""
    changed(path, statement)

    with pytest.raises(CorruptStateError, match="restore"):
        opened(path)


@pytest.mark.parametrize(
    ("statement", "read"),
    [
        ("UPDATE rows SET row = (SELECT max(row) FROM rows)", lambda view: view.get(1)),
        ("DELETE FROM rows WHERE key = x'1505'", lambda view: view.query(allow_scan=True)),
        ("DELETE FROM rows WHERE key = x'1505'", lambda view: dict(view.as_of(3))),
        ("UPDATE changes SET before = x'00'", lambda view: view.as_of(0).get(1)),
        ("DELETE FROM changes WHERE seq = 3", lambda view: list(earliest(view))),
        ("DELETE FROM changes WHERE seq = 3", lambda view: dict(view.as_of(1))),
        ("UPDATE batches SET applied_at = 8", lambda view: view.freshness),
        ("UPDATE seen SET last = 9", lambda view: view.apply([], 9)),
    ],
)
def test_damage_while_a_view_is_open_is_told_when_it_is_read(path, statement, read):
    """By what is read, and by what a scan does not find."""
    with opened(path) as view:
        changed(path, statement)

        with pytest.raises(CorruptStateError, match="restore"):
            read(view)


def earliest(view):
    """All the past there is."""
    return view.changes(start="earliest", timeout=0)


def test_an_open_view_can_be_looked_through(path):
    """For services that run for months."""
    with opened(path) as view:
        view.verify()
        changed(path, "DELETE FROM rows WHERE key = x'1505'")

        with pytest.raises(CorruptStateError, match="'rows'"):
            view.verify()


def test_a_view_may_be_opened_without_looking_through_it(path):
    """What is read is checked all the same."""
    changed(path, "UPDATE rows SET row = x'00' WHERE key = x'1505'")
    with opened(path, verified=False) as view:
        assert 2 == view[8]["n"]
        with pytest.raises(CorruptStateError, match="checksum"):
            view.get(5)


def test_a_row_of_another_view_is_no_row(tmp_path):
    """Even one of the same key and bytes: each file has an identity."""
    for name in ("one", "other"):
        with opened(tmp_path / name) as view:
            view.apply(small(0), 0)
    with closing(sqlite3.connect(tmp_path / "one" / "v.sqlite", isolation_level=None)) as mixed:
        mixed.execute("ATTACH ? AS other", (str(tmp_path / "other" / "v.sqlite"),))
        mixed.execute("INSERT OR REPLACE INTO rows SELECT * FROM other.rows LIMIT 1")

    with pytest.raises(CorruptStateError, match="checksum"):
        opened(tmp_path / "one")


# What was acknowledged


def test_batches_whose_log_is_lost_are_missed(tmp_path):
    """A killed writer's last batches are in SQLite's log only, which may be lost with no error."""
    kept = files_of(tmp_path, many, is_closed=False)
    with closing(sqlite3.connect(kept / "v.sqlite")) as other:
        other.execute("SELECT count(*) FROM rows")  # SQLite has put the log into the file
    with opened(kept) as view:
        view.apply(small(4), 4)
        half = shutil.copytree(kept, tmp_path / "half")
    (half / "v.sqlite-wal").unlink()

    with pytest.raises(CorruptStateError, match=r"4 of 5.*'.*v\.sqlite-mark'"):
        opened(half)
    (half / "v.sqlite-mark").unlink()  # as the message says
    with opened(half) as view:
        assert 3 == view.freshness.batch_id
        assert view.apply(small(4), 4)


@pytest.mark.parametrize("content", [b"", b"x"])
def test_a_view_whose_file_is_gone_does_not_begin_anew_silently(path, content):
    """Its mark tells that there was one."""
    (path / "v.sqlite").unlink()
    (path / "v.sqlite").write_bytes(content)

    with pytest.raises(CorruptStateError):
        opened(path)


def test_the_mark_of_another_file_says_nothing(tmp_path, path):
    """A view that was put in the place of another one is its own."""
    with opened(tmp_path / "other") as view:
        view.apply(small(0), 0)
    shutil.copy(tmp_path / "other" / "v.sqlite", path / "v.sqlite")

    with opened(path) as view:
        assert 0 == view.freshness.batch_id


# Other programs' files


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON batches BEGIN DELETE FROM rows; END",
        "CREATE VIEW w AS SELECT * FROM rows",
        "CREATE TABLE more (a)",
        "CREATE INDEX more ON rows (row)",
        "DROP INDEX changes_by_seq",
        "ALTER TABLE rows ADD COLUMN more",
        "PRAGMA user_version = 2",
    ],
)
def test_a_file_with_other_tables_than_ours_is_refused(path, statement):
    """A trigger would run with every batch."""
    changed(path, statement)

    with pytest.raises(CorruptStateError, match=r"must (have the tables|be of the format)"):
        opened(path)


def test_a_file_of_another_application_is_refused(path):
    """Though its tables are those of a view."""
    changed(path, "PRAGMA application_id = 7")

    with pytest.raises(IncompatibleStateError, match="another program"):
        opened(path)
