# SPDX-License-Identifier: Apache-2.0
"""RocksDBUpsertBackend's directory is the only copy: what is damaged of it is told, never lost.

HYPOTHESIS_PROFILE=thorough tries a hundred times as many places.
"""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

from rocksdb_support import Damage, flips, losses

from pyflinklike.errors import CorruptStateError
from pyflinklike.upsert import (
    Consolidating,
    FinalizedValue,
    MergeValue,
    PutValue,
    RocksDBUpsertBackend,
    UpsertState,
)

KEYS = [f"key-{number:03}" for number in range(150)]
EVERY = 5 if settings().max_examples > 1_000 else 600


def merge_of(value, diff=1):
    """An operand."""
    sketch = Consolidating()
    sketch.merge_update(value, diff)
    return MergeValue(sketch, diff)


def put_all(backend, number):
    """A value for every third key."""
    values = [(key, FinalizedValue(f"{key} {number}", number)) for key in KEYS[number::3]]
    backend.multi_put([(key, PutValue(value, None)) for key, value in values])


def fill(path):
    """Three lives: values, operands that nobody folds, and more of both; the backend, still open."""
    backend = RocksDBUpsertBackend(path)
    put_all(backend, 0)
    put_all(backend, 1)
    backend.close()
    backend = RocksDBUpsertBackend(path)
    backend.multi_merge([(key, merge_of(key)) for key in KEYS[2::3]])
    backend.close()
    backend = RocksDBUpsertBackend(path)
    backend.multi_merge([(key, merge_of("gone")) for key in KEYS[2::3]])
    backend.multi_merge([(key, merge_of("gone", -1)) for key in KEYS[2::3]])
    return backend


def held(path, keys=KEYS):
    """Everything in a directory, read by a backend that is then closed."""
    backend = RocksDBUpsertBackend(path)
    try:
        found = [each.value for each in UpsertState(backend).multi_get(keys)]
        assert len(keys) == backend.totals().processed_puts
    finally:
        backend.close()
    return found


EXPECTED = [
    FinalizedValue(f"{key} {at % 3}", at % 3) if at % 3 < 2 else FinalizedValue(key, None)
    for at, key in enumerate(KEYS)
]


@pytest.fixture(params=["closed", "killed"])
def saved(request, tmp_path) -> Path:
    """A directory as it is after a close, or as a killed process leaves it: much is in the log."""
    backend = fill(tmp_path / "backend")
    if request.param == "killed":
        shutil.copytree(tmp_path / "backend", tmp_path / "saved")
        backend.close()
    else:
        backend.close()
        shutil.copytree(tmp_path / "backend", tmp_path / "saved")
    return tmp_path / "saved"


def verdict_on(saved: Path, damage: Damage | None) -> str:
    """What becomes of a copy of the directory with that damage."""
    trial = saved.parent / "trial"
    shutil.rmtree(trial, ignore_errors=True)
    shutil.copytree(saved, trial)
    if damage is not None:
        damage.inflict(trial / damage.file.name)
    try:
        return "harmless" if held(trial) == EXPECTED else "SILENT"
    except CorruptStateError:
        return "refused"


def files_of(saved: Path) -> list[Path]:
    """All files with contents, but the text that RocksDB writes for people."""
    return [file for file in sorted(saved.iterdir()) if file.stat().st_size and file.name != "LOG"]


def test_what_a_life_leaves_is_there_in_the_next(saved):
    """Operands that nobody folded included, whose sums end in another process."""
    assert "harmless" == verdict_on(saved, None)


def test_no_flipped_bit_is_silent(saved):
    """In any file; only damage to what RocksDB does not need is harmless."""
    verdicts = Counter()
    for damage in flips(files_of(saved), EVERY):
        verdict = verdict_on(saved, damage)
        assert verdict != "SILENT", damage.name
        verdicts[verdict] += 1

    assert verdicts["refused"] >= 10


def test_no_lost_file_is_silent(saved):
    """Gone, empty, or cut short."""
    for damage in losses(files_of(saved)):
        assert verdict_on(saved, damage) != "SILENT", damage.name


def test_a_number_of_changes_that_is_gone_is_no_damage(saved):
    """As in a directory of an older version; it is noted again."""
    (saved / "WRITTEN").unlink()

    assert EXPECTED == held(saved)
    assert (saved / "WRITTEN").stat().st_size


class Recorded:
    """A RocksDB after each of whose writes a copy of its files is made, as a crash would leave them."""

    def __init__(self, db, directory, images):
        self._db, self._directory, self._images = db, directory, images

    def __getattr__(self, name):
        return getattr(self._db, name)

    def write(self, *arguments):
        """Write, and copy."""
        self._db.write(*arguments)
        image = self._images / str(len(list(self._images.iterdir())))
        shutil.copytree(self._directory, image)


def test_a_crash_in_the_midst_of_a_fold_leaves_each_operand_pending_or_folded_in(tmp_path):
    """Never both, and never neither: after each write to the disk the states add up."""
    images = tmp_path / "images"
    images.mkdir()
    backend = RocksDBUpsertBackend(tmp_path / "backend")
    keys = [f"{number:05}" for number in range(2_500)]
    for number in range(3):
        backend.multi_merge([(key, merge_of(key, (1, 1, -1)[number])) for key in keys])
    backend._db = Recorded(backend._db, tmp_path / "backend", images)
    backend.multi_get([])
    backend.close()

    expected = [FinalizedValue(key, None) for key in keys]
    assert 3 == len(list(images.iterdir()))
    for image in images.iterdir():
        assert expected == held(image, keys)
