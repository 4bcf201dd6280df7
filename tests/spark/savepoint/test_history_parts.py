# SPDX-License-Identifier: Apache-2.0
"""What tasks of a batch leave when it is read, and who may begin with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from history_support import Event, HistoryQuery
from test_history_law import expiring, sessions_of_tumbling

from pyflinklike.errors import CorruptStateError, DeclarationValueError
from pyflinklike.state_processor import is_savepoint, open_savepoint
from pyflinklike.state_processor._savepoints.history_parts import begin_history
from pyflinklike.state_processor._savepoints.manifest import SavedHistory, SavedSource
from pyflinklike.state_processor._savepoints.savepoint_directory import check_savepoint
from pyflinklike.state_processor._savepoints.savepoint_location import savepoint_location_of

NOW = 50_000
EVENTS = [Event("a", 1_000, 8), Event("b", 1_003, 2), Event("c", 1_009, 4)]
QUERY = HistoryQuery(lambda frame: expiring(frame, max_parallelism=4), 1)
CHAIN = HistoryQuery(lambda frame: sessions_of_tumbling(frame, max_parallelism=2), 1)


def rows_of(path: Path) -> Any:
    """The state "seen" of a savepoint, by key."""
    rows = open_savepoint(path).dataset("seen").to_table().to_pylist()
    return sorted((row["key"], row["user_key"]) for row in rows)


def begin(path: Path, run: str, uid: str = "Expiring") -> None:
    """What the driver of a batch notes before it is read."""
    source = SavedSource(None, "json", "/in", is_bounded=True, position={"found": []})
    history = SavedHistory(run, (source,), 1)
    begin_history(savepoint_location_of(path), history, uid, 4)


def notes(path: Path) -> list[Path]:
    """The notes of its tasks."""
    return sorted(path.glob("_history/*/*.json"))


def read(path: Path, events: list[Event] = EVENTS, **options: Any) -> Any:
    """Read a batch, of several tasks, without making the savepoint whole."""
    return QUERY.read(events, NOW, path, **{"tasks": 4, **options})


def test_a_batch_that_was_read_is_a_savepoint(tmp_path):
    """Whoever opens it first writes the manifest, and deletes all that only its tasks needed."""
    path = tmp_path / "savepoint"
    read(path)
    before = is_savepoint(path), (path / "_manifest.json").exists()
    saved = open_savepoint(path)

    assert (True, False) == before
    assert (1_008, NOW) == (saved.manifest.watermark, saved.manifest.processing_time)
    assert [("a", 8), ("b", 2), ("c", 4)] == rows_of(path)
    assert ["_manifest.json", "operators"] == sorted(each.name for each in path.iterdir())
    assert [] == check_savepoint(saved)[0]


def test_a_batch_that_was_not_read_is_refused(tmp_path):
    """It says how much there is, and what to do."""
    begin(tmp_path / "savepoint", "run")

    assert not is_savepoint(tmp_path / "savepoint")
    with pytest.raises(CorruptStateError, match=r"got 0 of 4 key groups of operator 'Expiring'"):
        open_savepoint(tmp_path / "savepoint")


def test_a_batch_of_which_a_task_is_missing_is_refused(tmp_path):
    """As where a driver was killed, or only some rows were taken."""
    path = tmp_path / "savepoint"
    read(path)
    notes(path)[0].unlink()

    with pytest.raises(CorruptStateError, match=r"got 3 of 4 key groups .*run the batch again"):
        open_savepoint(path)


def test_an_operator_that_was_not_read_is_refused(tmp_path):
    """A chain gives one savepoint of all its operators, or none."""
    path = tmp_path / "savepoint"
    CHAIN.read(EVENTS, NOW, path)
    assert 2 == len(notes(path))
    second = next(each for each in notes(path) if "EventTimeSession" in each.read_text())
    second.unlink()

    with pytest.raises(CorruptStateError, match=r"0 of 2 key groups of operator 'EventTimeSession"):
        open_savepoint(path)


def test_a_task_that_ran_twice_counts_once(tmp_path):
    """One of both notes is taken, and the files of the other attempt go."""
    path = tmp_path / "savepoint"
    read(path)
    read(path, execution=1)
    assert 8 == len(notes(path))

    assert [("a", 8), ("b", 2), ("c", 4)] == rows_of(path)
    assert [] == check_savepoint(open_savepoint(path))[0]


def test_files_of_a_task_that_failed_do_not_count(tmp_path):
    """It wrote no note."""
    path = tmp_path / "savepoint"
    read(path)
    (folder,) = path.glob("operators/*/states/seen")
    (folder / "part-dead-0.parquet").write_bytes(b"half")

    assert [("a", 8), ("b", 2), ("c", 4)] == rows_of(path)
    assert not (folder / "part-dead-0.parquet").exists()


def test_a_batch_after_one_that_broke_off_takes_its_place(tmp_path):
    """Its tasks may still write: their notes are of another run."""
    path = tmp_path / "savepoint"
    begin(path, "former")
    stale = path / "_history" / "former" / "task.json"
    read(path)
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")

    assert [("a", 8), ("b", 2), ("c", 4)] == rows_of(path)


@pytest.mark.parametrize("is_open", [False, True])
def test_a_savepoint_that_is_whole_is_not_written_again(tmp_path, is_open):
    """Whether somebody has opened it or not."""
    path = tmp_path / "savepoint"
    read(path)
    if is_open:
        open_savepoint(path)

    with pytest.raises(DeclarationValueError, match=r"must not exist before .* got a savepoint"):
        begin(path, "second")


def test_a_directory_of_something_else_stays(tmp_path):
    """An empty one is taken."""
    (tmp_path / "empty").mkdir()
    begin(tmp_path / "empty", "run")
    (tmp_path / "file").write_text("")

    with pytest.raises(DeclarationValueError, match="got a directory"):
        begin(tmp_path, "run")


def test_two_operators_of_one_uid_are_refused(tmp_path):
    """Each finds its own state by it."""
    begin(tmp_path / "savepoint", "run")

    with pytest.raises(DeclarationValueError, match=r"different uids, got 'Expiring' twice"):
        begin(tmp_path / "savepoint", "run")


@pytest.mark.parametrize("name", ["_history.json", "_history/*/*.json"])
def test_a_note_that_was_changed_is_refused(tmp_path, name):
    """A wrong number in it would lose a key group."""
    path = tmp_path / "savepoint"
    read(path)
    note = min(path.glob(name))
    note.write_text(note.read_text().replace("00", "01", 1))

    with pytest.raises(CorruptStateError, match="must be as it was written"):
        open_savepoint(path)


def test_an_empty_history_is_a_savepoint_of_nothing(tmp_path):
    """Every key group gets its last row, so all of them are noted."""
    path = tmp_path / "savepoint"
    rows = read(path, [])
    saved = open_savepoint(path)

    assert [] == rows == rows_of(path)
    assert saved.manifest.watermark is None


def test_the_manifest_tells_of_the_history(tmp_path):
    """With the sources, and where each of them ends."""
    path = tmp_path / "savepoint"
    begin(path, "0" * 32)
    QUERY.read(EVENTS, NOW, path, execution=1)
    manifest = open_savepoint(path).manifest
    source = SavedSource(None, "json", "/in", is_bounded=True, position={"found": []})

    assert SavedHistory("0" * 32, (source,), 1) == manifest.history
    assert manifest == open_savepoint(path).manifest
