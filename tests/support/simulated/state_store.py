# SPDX-License-Identifier: Apache-2.0
"""Spark's RocksDB state store, as far as it decides what is found: versions, and who wrote them.

A store is of one operator and partition.  The micro-batch with number N loads version N and commits
version N + 1 (`StatefulOperatorStateInfo.storeVersion`).  A commit writes a changelog; now and then
a snapshot is taken, which the maintenance thread uploads later (`RocksDB.commit`, `doMaintenance`).
Version N is the latest snapshot up to N with the changelogs behind it.  An executor keeps a store
that it has committed and goes on with it, if it is asked for just that version.

* Format 1: version N is `N.changelog` and `N.zip`.  A later attempt of the same batch overwrites
  them, and no one is told (`RocksDB.loadWithoutCheckpointId`).
* Format 2: each load draws a unique id, the files of the commit carry it, and the driver writes the
  ids into the commit log.  A changelog begins with its lineage: the ids of the versions before it
  (`RocksDB.loadWithCheckpointId`).

A store that mixes versions of two attempts is possible in format 1 alone.  Every commit has a token
and names the token it was made from, which Spark does not: so the simulation knows of such a
mixture, and an error of ours about damaged state is then the right end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from simulated.choices import Choices
from simulated.file_system import FileSystem

__all__ = ["Change", "Contents", "LoadedStore", "StateStores", "StoreError"]


class StoreError(Exception):
    """Spark itself cannot load or commit a version."""


class Contents:
    """What a store holds: blobs by variable, grouping key and number; and timers."""

    __slots__ = ("blobs", "timers")

    def __init__(self) -> None:
        self.blobs: dict[tuple[str, int], dict[int, bytes]] = {}
        self.timers: set[tuple[int, int]] = set()

    def copy(self) -> Contents:
        """Return contents of which a change changes no others."""
        copied = Contents()
        copied.blobs = {key: dict(mine) for key, mine in self.blobs.items()}
        copied.timers = set(self.timers)
        return copied

    def change(self, kind: str, key: Any, at: int, blob: bytes | None) -> None:
        """Apply one change of a changelog."""
        if kind == "put":
            assert blob is not None
            self.blobs.setdefault(key, {})[at] = blob
        elif kind == "clear":
            self.blobs.pop(key, None)
        elif kind == "timer":
            self.timers.add((at, key))
        else:
            self.timers.discard((at, key))


Change = tuple[str, Any, int, "bytes | None"]


@attrs.frozen
class _Changelog:
    changes: tuple[Change, ...]
    token: int
    base: int
    lineage: tuple[tuple[int, str], ...]


@attrs.frozen
class _Snapshot:
    contents: Contents
    version: int
    token: int
    unique_id: str


@attrs.define
class LoadedStore:
    """A store in an executor's memory, which one attempt holds at a time."""

    operator: int
    partition: int
    version: int = -1
    unique_id: str = ""
    session_id: str = ""
    token: int = 0
    lineage: tuple[tuple[int, str], ...] = ()
    contents: Contents = attrs.field(factory=Contents)
    changes: list[Change] = attrs.field(factory=list)
    snapshot_at: int = 0
    waiting: _Snapshot | None = None
    is_held: bool = False

    def put(self, key: tuple[str, int], at: int, blob: bytes) -> None:
        """Store a blob."""
        self._change(("put", key, at, blob))

    def clear(self, key: tuple[str, int]) -> None:
        """Remove all blobs of a grouping key."""
        self._change(("clear", key, 0, None))

    def register(self, key: int, time: int) -> None:
        """Register a timer, for a time in ms."""
        self._change(("timer", key, time, None))

    def delete(self, key: int, time: int) -> None:
        """Delete a timer that may be gone."""
        self._change(("no timer", key, time, None))

    def _change(self, change: Change) -> None:
        self.contents.change(*change)
        self.changes.append(change)


_DAMAGE = (*(0.0,) * 7, 0.03)
"""How often a file is damaged: in one of eight runs."""


class StateStores:
    """The stores of a query on a file system.

    Args:
        files: Where they lie.
        format_version: Spark's `checkpointFormatVersion`: 1 or 2.
        choices: Decide when snapshots are taken.
        may_be_damaged: Whether a file may be damaged on its disk.
    """

    def __init__(
        self,
        files: FileSystem,
        format_version: int,
        choices: Choices,
        *,
        may_be_damaged: bool = True,
    ) -> None:
        self.files = files
        self.format_version = format_version
        self.min_deltas = choices.integer("deltas before a snapshot", 1, 6)
        self.retained = choices.integer("versions that are kept", 2, 6)
        self.mixed: set[tuple[int, int]] = set()
        """Stores in which versions of two attempts were mixed."""
        self.damaged: set[tuple[int, int]] = set()
        """Stores of which a file was damaged on its disk."""
        self._choices = choices.within("files")
        self._damage = choices.one_of("damage", _DAMAGE) if may_be_damaged else 0.0
        self._tokens = 0

    def load(self, store: LoadedStore, version: int, unique_id: str) -> None:
        """Bring a store to a version.

        Args:
            store: What the executor has.
            version: The number of the micro-batch.
            unique_id: In format 2 the id in the commit log; empty at version 0.

        Raises:
            StoreError: A file is missing.
        """
        store.changes.clear()
        store.is_held = True
        if store.version != version or store.unique_id != unique_id:
            store.version = -1
            self._read(store, version, unique_id)
        self._tokens += 1
        store.session_id = f"{self._tokens:06x}" if self.format_version == 2 else ""

    def commit(self, store: LoadedStore) -> str:
        """Write a version, and return its unique id.

        Raises:
            StoreError: The store was not loaded.
        """
        version = store.version + 1
        self._tokens += 1
        token, unique_id = self._tokens, store.session_id
        log = _Changelog(tuple(store.changes), token, store.token, store.lineage)
        if self._choices.happens("file is damaged", self._damage):
            log = self._damage_changelog(log, store)
        self.files.replace(self._path(store, version, unique_id, "changelog"), log)
        store.version, store.unique_id, store.token = version, unique_id, token
        store.lineage = (*store.lineage, (version, unique_id))
        store.changes.clear()
        store.is_held = False
        if version - store.snapshot_at >= self.min_deltas:
            store.snapshot_at = version
            store.waiting = _Snapshot(store.contents.copy(), version, token, unique_id)
        return unique_id

    def abort(self, store: LoadedStore) -> None:
        """Give up what an attempt has changed: the next one loads from files (`RocksDB.rollback`)."""
        store.version, store.is_held = -1, False
        store.changes.clear()

    def maintain(self, store: LoadedStore, committed: Callable[[int, str], bool]) -> None:
        """Upload the snapshot that waits, and delete old versions (`RocksDBFileManager`).

        Args:
            store: What an executor has; no attempt holds it.
            committed: Says whether a version with its unique id is in the commit log.
        """
        if store.waiting is not None:
            mine, store.waiting = store.waiting, None
            if self._choices.happens("snapshot is damaged", self._damage):
                self._damage_snapshot(mine, store)
            path = self._path(store, mine.version, mine.unique_id, "zip")
            self.files.replace(path, mine)
        self._delete_old(store, committed)

    def contents(self, operator: int, partition: int, version: int, unique_id: str) -> Contents:
        """Return what files hold of a version, as a reader of state finds it."""
        store = LoadedStore(operator, partition)
        self._read(store, version, unique_id)
        return store.contents

    def changes(
        self, operator: int, partition: int, version: int, unique_id: str
    ) -> tuple[Change, ...]:
        """Return what the commit of a version has written, as the change feed tells it."""
        store = LoadedStore(operator, partition)
        log: _Changelog = self.files.read(self._path(store, version, unique_id, "changelog"))
        return log.changes

    @contextmanager
    def edit(
        self, operator: int, partition: int, version: int, unique_id: str = ""
    ) -> Iterator[Contents]:
        """Yield what files hold of a version, and have them hold what becomes of it.

        No executor hears of it: one that has the version in its memory goes on with that.
        """
        store = LoadedStore(operator, partition)
        self._read(store, version, unique_id)
        yield store.contents
        snapshot = _Snapshot(store.contents, version, store.token, unique_id)
        self.files.replace(self._path(store, version, unique_id, "zip"), snapshot)

    def _damage_changelog(self, log: _Changelog, store: LoadedStore) -> _Changelog:
        written = [at for at, change in enumerate(log.changes) if change[3]]
        if not written:
            return log
        at = self._choices.one_of("damaged blob", written)
        kind, key, number, blob = log.changes[at]
        assert blob is not None
        changes = list(log.changes)
        changes[at] = kind, key, number, self._flip_bit(blob, store)
        return attrs.evolve(log, changes=tuple(changes))

    def _damage_snapshot(self, snapshot: _Snapshot, store: LoadedStore) -> None:
        groups = snapshot.contents.blobs
        held = [(key, at) for key, blobs in groups.items() for at, blob in blobs.items() if blob]
        if held:
            key, at = held[self._choices.integer("damaged blob", 0, len(held) - 1)]
            groups[key][at] = self._flip_bit(groups[key][at], store)

    def _flip_bit(self, blob: bytes, store: LoadedStore) -> bytes:
        """Return a blob in which a bit is another, as bad memory or a bad disk has it."""
        position = self._choices.integer("damaged byte", 0, len(blob) - 1)
        flipped = bytearray(blob)
        flipped[position] ^= 1 << self._choices.integer("damaged bit", 0, 7)
        self.damaged.add((store.operator, store.partition))
        return bytes(flipped)

    # Files

    def _path(self, store: LoadedStore, version: int, unique_id: str, kind: str) -> Any:
        return "state", store.operator, store.partition, version, unique_id, kind

    def _read(self, store: LoadedStore, version: int, unique_id: str) -> None:
        store.lineage, store.token = (), 0
        store.contents, store.snapshot_at = Contents(), 0
        if version == 0:
            store.version, store.unique_id = 0, ""
            return
        behind = self._behind(store, version, unique_id)
        if self._snapshots(store, behind):
            first = self._snapshots(store, behind)[-1]
            snapshot: _Snapshot = self.files.read(self._path(store, *first, "zip"))
            store.contents, store.token = snapshot.contents.copy(), snapshot.token
            store.snapshot_at = first[0]
            store.lineage = (first,)
            behind = [each for each in behind if each[0] > first[0]]
        elif not behind or behind[0][0] != 1:
            msg = f"no snapshot before the changelogs {behind}"
            raise StoreError(msg)
        for each in behind:
            path = self._path(store, *each, "changelog")
            if not self.files.exists(path):
                msg = f"no file {path}"
                raise StoreError(msg)
            log: _Changelog = self.files.read(path)
            if log.base != store.token:
                self.mixed.add((store.operator, store.partition))
            for change in log.changes:
                store.contents.change(*change)
            store.token = log.token
            store.lineage = (*store.lineage, each)
        store.version, store.unique_id = version, unique_id

    def _behind(self, store: LoadedStore, version: int, unique_id: str) -> list[tuple[int, str]]:
        """Return the versions up to one, in order, with their ids."""
        if self.format_version == 1:
            return [(each, "") for each in range(1, version + 1)]
        if self.files.exists(self._path(store, version, unique_id, "zip")):
            return [(version, unique_id)]
        path = self._path(store, version, unique_id, "changelog")
        if not self.files.exists(path):
            msg = f"no file {path}"
            raise StoreError(msg)
        return [*self.files.read(path).lineage, (version, unique_id)]

    def _snapshots(
        self, store: LoadedStore, behind: list[tuple[int, str]]
    ) -> list[tuple[int, str]]:
        return [each for each in behind if self.files.exists(self._path(store, *each, "zip"))]

    def _delete_old(self, store: LoadedStore, committed: Callable[[int, str], bool]) -> None:
        paths = [(path[3], path) for path in self._files_of(store)]
        if not paths:
            return
        oldest = max(version for version, _ in paths) - self.retained + 1
        snapshots = [
            version
            for version, path in paths
            if path[5] == "zip" and version <= oldest and committed(version, path[4])
        ]
        if not snapshots:
            return
        for version, path in paths:
            if version < max(snapshots):
                self.files.delete(path)

    def _files_of(self, store: LoadedStore) -> Iterator[Any]:
        return self.files.under("state", store.operator, store.partition)
