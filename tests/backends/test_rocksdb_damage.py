# SPDX-License-Identifier: Apache-2.0
"""Damage to the local files of the RocksDB backend: nothing is lost, and nobody notices.

What is damaged is rebuilt from the log in the same batch.  HYPOTHESIS_PROFILE=thorough tries
a hundred times as many places.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

pytest.importorskip("rocksdict", reason="rocksdict is not installed (the extra `rocksdb`)")

from rocksdb_support import KEYS, LARGE, Damaged, flips, losses

IS_THOROUGH = settings().max_examples > 1_000
EVERY = 20 if IS_THOROUGH else 2_000


@pytest.fixture(scope="module")
def damaged():
    """A key group after two tasks."""
    with tempfile.TemporaryDirectory() as directory:
        yield Damaged(Path(directory))


@pytest.fixture(scope="module")
def expected(damaged):
    """What the next two tasks give where nothing is damaged."""
    return damaged.run()


def test_the_tasks_read_what_is_on_the_disk(damaged, expected):
    """Without damage they are warm, so that the other tests mean something."""
    outputs, contents = expected
    loads = []
    again = damaged.run(before=lambda operator: loads.append(operator.metrics.warm_loads))

    assert (expected, {1}) == (again, set(loads))
    assert len(KEYS) == len(contents["value"])
    assert 300 < len(contents["list"])
    assert {"_read", "_change", "_range"} <= {each[1] for each in outputs if each[0] == LARGE}


def test_no_flipped_bit_changes_anything(damaged, expected):
    """In any file, in about every so many bytes."""
    files = [file for file in damaged.files if not file.name.startswith(("LOG", "OPTIONS"))]
    for damage in flips(files, EVERY):
        assert expected == damaged.run(damage), damage.name


def test_no_lost_file_changes_anything(damaged, expected):
    """Gone, empty, or cut short."""
    files = [file for file in damaged.files if not file.name.startswith(("LOG", "OPTIONS"))]
    for damage in losses(files):
        assert expected == damaged.run(damage), damage.name


class Unreadable:
    """A RocksDB whose blocks are all damaged: it takes what is written and gives nothing back."""

    def __init__(self, db):
        self.write, self.close = db.write, db.close

    def _refuse(self, *_, **__):
        raise Exception("Corruption: block checksum mismatch")

    get = items = keys = iter = _refuse


class Failing:
    """Damages RocksDB's files before the n-th use of a state."""

    def __init__(self, at):
        self._left = at
        self.uses = 0

    def __call__(self, operator):
        self.uses += 1
        self._left -= 1
        if self._left == 0:
            store = operator.backend._ensure_database()
            store._db = Unreadable(store._db)


def test_wherever_the_disk_fails_a_batch_goes_on(damaged, expected):
    """At every verb of every kind of state, in the commit and after it."""
    counting = Failing(0)
    damaged.run(before=counting)
    for at in range(1, counting.uses + 1, 1 if IS_THOROUGH else 7):
        assert expected == damaged.run(before=Failing(at)), f"use {at} of {counting.uses}"
