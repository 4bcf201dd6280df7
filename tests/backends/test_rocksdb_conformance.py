# SPDX-License-Identifier: Apache-2.0
"""The RocksDB backend: the suite of all backends, and the model.

What the suite does fits into the overlay of one batch.  `Restless` therefore
brings everything to the disk whenever changes are drained, so that the suite
also sees entries of which some are on disk and some are not.  The machine that compares
with the model ends batches by itself.
"""

from __future__ import annotations

import shutil
import tempfile

import attrs
import pytest
from agreement import agreement_machine
from hypothesis import settings
from rocksdb_tasks import in_directory

from pyflinklike import HashMapStateBackend, PredefinedOptions, StateBackend
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.rocksdb.rocksdb_backend import RocksDBKeyedStateBackend
from pyflinklike.conformance import StateBackendConformance
from pyflinklike.state.table import Shape


class RestlessKeyedStateBackend(RocksDBKeyedStateBackend):
    """Writes to the disk whenever nothing is left to log, each group to a range of its own."""

    def __init__(self, *arguments, most_packed):
        super().__init__(*arguments)
        self._seen = []
        self._most_packed = most_packed

    def table(self, spec):
        table = super().table(spec)
        if spec.shape is not Shape.SINGLE:
            table.most_packed = self._most_packed
        return table

    def enter(self, index, tables):
        where = next((at for at, seen in enumerate(self._seen) if seen is tables), None)
        if where is None:
            where = len(self._seen)
            self._seen.append(tables)
        super().enter(where, tables)

    def drain(self):
        changes = super().drain()
        self._settle()
        return changes

    def discard_changes(self):
        super().discard_changes()
        self._settle()

    def _settle(self):
        if any(seen is self._data for seen in self._seen):
            index, tables = self._index, self._data
            RocksDBKeyedStateBackend.enter(self, index, tables)
            group = KeyGroupState(index, bytes(16), tables=tables)
            entered, self.enter = self.enter, super().enter
            self.cache(group)
            self.enter = entered


@attrs.frozen
class Restless(StateBackend):
    """Makes these."""

    path: str
    most_packed: int = 128

    def create_keyed_state_backend(self, current, owner):
        return RestlessKeyedStateBackend(
            current,
            owner,
            (self.path,),
            PredefinedOptions.DEFAULT,
            most_packed=self.most_packed,
        )


class SpreadKeyedStateBackend(RocksDBKeyedStateBackend):
    """Gives each entry a row of its own."""

    def table(self, spec):
        table = super().table(spec)
        if spec.shape is not Shape.SINGLE:
            table.most_packed = 1
        return table


@attrs.frozen
class Spread(StateBackend):
    """Makes these."""

    path: str

    def create_keyed_state_backend(self, current, owner):
        return SpreadKeyedStateBackend(current, owner, (self.path,), PredefinedOptions.DEFAULT)


class LoadedKeyedStateBackend(RocksDBKeyedStateBackend):
    """Has RocksDB take in a file for each group that is new to it, however small."""

    def _ensure_database(self):
        database = super()._ensure_database()
        database.most_in_batch = 1
        return database


@attrs.frozen
class Loaded(StateBackend):
    """Makes these."""

    path: str

    def create_keyed_state_backend(self, current, owner):
        return LoadedKeyedStateBackend(current, owner, (self.path,), PredefinedOptions.DEFAULT)


@pytest.fixture(scope="module")
def scratch():
    """A directory of the module."""
    with tempfile.TemporaryDirectory() as path:
        yield path


class TestEmbeddedRocksDBStateBackend(StateBackendConformance):
    """As it is."""

    @pytest.fixture(autouse=True)
    def _place(self, scratch):
        self._scratch = scratch

    def state_backend(self) -> StateBackend:
        """In a directory of the module."""
        return in_directory(self._scratch)


class TestRestless(TestEmbeddedRocksDBStateBackend):
    """With entries on the disk."""

    def state_backend(self) -> StateBackend:
        """In a directory of the module."""
        return Restless(self._scratch)


class TestSpread(TestEmbeddedRocksDBStateBackend):
    """With a row on the disk for each entry of a key that has more than one."""

    def state_backend(self) -> StateBackend:
        """In a directory of the module."""
        return Restless(self._scratch, most_packed=1)


_MACHINES = tempfile.mkdtemp(prefix="pyflinklike-tests-")
HISTORIES = settings(max_examples=max(8, settings().max_examples // 5), stateful_step_count=30)


@pytest.fixture(scope="module", autouse=True)
def _without_machines():
    yield
    shutil.rmtree(_MACHINES, ignore_errors=True)


TestAgreement = agreement_machine(HashMapStateBackend(), in_directory(_MACHINES)).TestCase
TestAgreement.settings = HISTORIES

TestSpreadAgreement = agreement_machine(HashMapStateBackend(), Spread(_MACHINES)).TestCase
TestSpreadAgreement.settings = HISTORIES

TestLoadedAgreement = agreement_machine(HashMapStateBackend(), Loaded(_MACHINES)).TestCase
TestLoadedAgreement.settings = HISTORIES

TestBackgroundAgreement = agreement_machine(in_directory(_MACHINES), background=True).TestCase
TestBackgroundAgreement.settings = HISTORIES

TestNamespacedAgreement = agreement_machine(
    HashMapStateBackend(), in_directory(_MACHINES), namespaced=True
).TestCase
TestNamespacedAgreement.settings = HISTORIES
