# SPDX-License-Identifier: Apache-2.0
"""Rows of expected keys, which RocksDB reads in one call: nobody sees it, but for the time it takes."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocksdb_tasks import MAP, NONCE, VALUE, contents, found, in_directory, kept, leave

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.errors import LocalStateError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Shape, TableChanges, TableSpec
from pyflinklike.types import Types

KEYS = "abcd"


class Counted:
    """A RocksDB that counts how often it is asked for rows."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self.asked: list[int] = []

    def get(self, keys: bytes | list[bytes]) -> Any:
        """The rows, or the row of one key."""
        self.asked.append(len(keys) if isinstance(keys, list) else 1)
        return self._db.get(keys)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def counted(backend: Any) -> Counted:
    """Have the database of a backend count."""
    database = backend._ensure_database()
    database._db = Counted(database._db)
    counts: Counted = database._db
    return counts


@pytest.mark.parametrize("name", ["value", "map", "list"])
def test_rows_of_expected_keys_are_read_in_one_call(tmp_path, name):
    """When the first of them is needed, for all of them."""
    leave(tmp_path)
    backend, tables, _ = found(tmp_path)
    counts = counted(backend)
    backend.expect(["c", "a", "missing", "a", "b"])
    assert [] == counts.asked
    read = []
    for backend.current.key in ("a", "missing", "b", "c", "a"):
        read.append(tables[name].items())

    assert [4] == counts.asked
    assert [5 if name != "value" else 1, 0] == list(map(len, read[:2]))
    backend.close()


def test_a_table_that_no_record_uses_is_not_read(tmp_path):
    """Each table reads ahead by itself."""
    leave(tmp_path)
    backend, tables, _ = found(tmp_path)
    counts = counted(backend)
    backend.expect("abc")
    for backend.current.key in "abc":
        tables["value"].put(None, "new")

    assert [3] == counts.asked
    backend.close()


def test_what_was_read_ahead_in_vain_leaves_no_trace(tmp_path):
    """It is not in the overlay, so the batch did not use most entries, and nothing is written."""
    leave(tmp_path)
    backend, tables, group = found(tmp_path)
    before = contents(backend)
    backend.expect("abc")
    backend.current.key = "b"
    tables["value"].get(None)

    assert ({"b"}, False) == (set(tables["value"].data.entries), tables["value"].is_dense())
    assert [] == [each for each in backend.drain() if len(each)]
    assert [] == [row for table in tables.values() for row in table.rows_to_write()]
    assert before == contents(backend)
    kept(backend, group)
    assert not any(each.is_dense for each in group.tables.values())
    backend.close()


def test_rows_read_ahead_are_bounded_in_memory(tmp_path):
    """Rows beyond the bound are read when they are needed."""
    leave(tmp_path)
    backend, tables, _ = found(tmp_path)
    tables["value"].most_ahead = 0
    counts = counted(backend)
    backend.expect("abc")
    read = []
    for backend.current.key in "abc":
        read.append(tables["value"].get(None))

    assert ([1, 1, 1], ["value a", "value b", "value c"]) == (counts.asked, read)
    backend.close()


def test_namespaces_and_entries_of_the_group_are_not_expected(tmp_path):
    """The key of a record does not say where their entries lie."""
    backend = in_directory(tmp_path).create_keyed_state_backend(CurrentKey(), "query/0")
    long = Types.LONG()
    pairs = backend.table(TableSpec("pairs", Shape.SINGLE, "value", long, namespace_type=long))
    shared = backend.table(TableSpec("shared", Shape.SINGLE, "value", long, per_group=True))
    group = KeyGroupState(3, NONCE)
    backend.enter(3, group.tables)
    for backend.current.key in "ab":
        backend.current.namespace = 7
        pairs.put(None, ord(backend.current.key))
        shared.put(None, 9)
    kept(backend, group)
    backend.enter(3, backend.pop_cached(3).tables)
    counts = counted(backend)
    backend.expect("ab")
    backend.current.key = "b"

    assert ([ord("b"), 9], [1, 1]) == ([pairs.get(None), shared.get(None)], counts.asked)
    backend.close()


def test_a_key_that_rocksdb_refuses_is_refused_where_it_is_used(tmp_path):
    """Not at the record before it, which the error would name."""
    leave(tmp_path)
    backend, tables, _ = found(tmp_path)
    backend.expect(["a", frozenset()])
    backend.current.key = "a"

    assert "value a" == tables["value"].get(None)
    backend.close()


# A model of dicts

_keys = st.sampled_from(KEYS)
_values = st.sampled_from("xyz")
_user_keys = st.integers(0, 2)
STEPS = st.one_of(
    st.tuples(st.just("expect"), st.lists(_keys, max_size=6)),
    st.tuples(st.just("put"), _keys, _user_keys, _values),
    st.tuples(st.just("delete"), _keys, _user_keys),
    st.tuples(st.sampled_from(["clear", "read"]), _keys),
    st.tuples(st.just("sweep"), _values),
    st.tuples(st.sampled_from(["scan", "keep", "damage", "task"])),
)


class Modelled:
    """A value state and a map state in RocksDB, and the dicts that they must be."""

    def __init__(self, path: str, most_packed: int) -> None:
        self._path, self._most_packed = path, most_packed
        self.model: dict[str, dict[tuple[str, Any], str]] = {"value": {}, "map": {}}
        self._group = KeyGroupState(3, NONCE)
        self._open()

    def _open(self) -> None:
        self._backend: Any = in_directory(self._path).create_keyed_state_backend(
            CurrentKey(), "query/0"
        )
        self._tables = {spec.name: self._backend.table(spec) for spec in (VALUE, MAP)}
        self._tables["map"].most_packed = self._most_packed
        self._enter()

    def _enter(self) -> None:
        self._backend.enter(3, self._group.tables)
        logged = {name: dict(entries) for name, entries in self.model.items()}
        self._backend.rebuild_from(lambda: self._logged(logged))

    def _logged(self, model: dict[str, dict[tuple[str, Any], str]]) -> Iterator[Any]:
        for name, table in self._tables.items():
            changes = TableChanges(table.spec)
            for (key, user_key), entry in model[name].items():
                changes.keys.append(key)
                changes.user_keys.append(user_key)
                changes.entries.append(entry)
            yield changes

    def run(self, step: tuple[Any, ...]) -> None:
        """Take a step on both, and compare."""
        verb, *arguments = step
        getattr(self, f"_{verb}")(*arguments)
        self._backend.current.key = "none of them"
        sizes = {name: table.count() for name, table in self._tables.items()}
        assert {name: len(entries) for name, entries in self.model.items()} == sizes

    def _expect(self, keys: list[str]) -> None:
        self._backend.expect(keys)

    def _put(self, key: str, user_key: int, value: str) -> None:
        self._backend.current.key = key
        self._tables["value"].put(None, value)
        self._tables["map"].put(user_key, value)
        self.model["value"][key, None] = self.model["map"][key, user_key] = value

    def _delete(self, key: str, user_key: int) -> None:
        self._backend.current.key = key
        self._tables["value"].delete(None)
        self._tables["map"].delete(user_key)
        self.model["value"].pop((key, None), None)
        self.model["map"].pop((key, user_key), None)

    def _clear(self, key: str) -> None:
        self._backend.current.key = key
        for name, table in self._tables.items():
            table.clear()
            self.model[name] = {at: each for at, each in self.model[name].items() if at[0] != key}

    def _read(self, key: str) -> None:
        self._backend.current.key = key
        assert self.model["value"].get((key, None), MISSING) == self._tables["value"].get(None)
        mine = {at[1]: each for at, each in self.model["map"].items() if at[0] == key}
        assert mine == dict(self._tables["map"].items())

    def _sweep(self, dead: str) -> None:
        for name, table in self._tables.items():
            table.sweep_all(lambda entry: entry == dead)
            kept = {at: each for at, each in self.model[name].items() if each != dead}
            self.model[name] = kept

    def _scan(self) -> None:
        for name, table in self._tables.items():
            there = [((key, user_key), entry) for key, user_key, entry in table.scan()]
            assert sorted(self.model[name].items(), key=repr) == sorted(there, key=repr)

    def _keep(self) -> None:
        with contextlib.suppress(LocalStateError):
            kept(self._backend, self._group)
        self._go_on()

    def _go_on(self) -> None:
        group = self._backend.pop_cached(3)
        self._group = group or KeyGroupState(3, NONCE)
        self._enter()
        if group is None:
            for changes in self._logged(self.model):
                self._backend.apply(changes)

    def _damage(self) -> None:
        """No row can be read from now on."""
        database = self._backend._ensure_database()
        database._db = Unreadable(database._db)

    def _task(self) -> None:
        """Keep the group, and go on in another task."""
        self._keep()
        self._backend.close()
        self._open()
        self._go_on()

    def close(self) -> None:
        """Delete it all."""
        self._backend.discard()


class Unreadable:
    """A RocksDB whose blocks are all damaged: it takes what is written and gives nothing back."""

    def __init__(self, db: Any) -> None:
        self.write, self.close, self.flush = db.write, db.close, db.flush
        self.ingest_external_file = db.ingest_external_file

    def _refuse(self, *_: Any, **__: Any) -> Any:
        msg = "Corruption: block checksum mismatch"
        raise OSError(msg)

    get = items = keys = iter = _refuse


@settings(max_examples=max(60, settings().max_examples))
@given(st.lists(STEPS, max_size=25), st.sampled_from([1, 128]), st.sampled_from([1, 8192]))
def test_states_are_dicts_whichever_keys_were_expected(steps, most_packed, most_in_batch):
    """Also if keys are cleared, swept or scanned unread, and if files are loaded or damaged."""
    with tempfile.TemporaryDirectory() as path, pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalDatabase, "most_in_batch", most_in_batch)
        modelled = Modelled(path, most_packed)
        try:
            for step in steps:
                modelled.run(step)
            modelled.run(("scan",))
        finally:
            modelled.close()
