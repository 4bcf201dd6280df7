# SPDX-License-Identifier: Apache-2.0
"""The backend for state larger than memory: working state in RocksDB on the local disk.

Each task of a query opens a RocksDB of its own, with all its key groups.  While
a batch works on a key group, what it reads and writes is in memory; when the
batch has done with the group, one write brings the disk from the former
committed state to this one, nonce included.  A group whose batch failed is
therefore what it was, and its nonce says so.

What cannot be read of the disk is rebuilt from the log while the batch runs: the
directory is dropped, the current key group goes on in memory, and the other ones are
rebuilt when they are needed.

In memory is what a batch touches of one key group, and the times of the group's
timers; where the batch before touched most of the group, also up to 16 MiB of each
of its tables.  A group that has to be rebuilt from its log is in memory as a whole
while that happens: take enough key groups.
"""

from __future__ import annotations

import hashlib
import pickle
import struct
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.rocksdb.local_store import LOG, LocalStore, require_rocksdict
from pyflinklike.backends.rocksdb.many import RocksManyTable
from pyflinklike.backends.rocksdb.options import PredefinedOptions
from pyflinklike.backends.rocksdb.ordered import new_table
from pyflinklike.backends.rocksdb.single import RocksSingleTable
from pyflinklike.backends.rocksdb.table import RocksTableData
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    LocalStateError,
)
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.table import Scope, TableChanges, TableSpec

__all__ = ["EmbeddedRocksDBStateBackend", "PredefinedOptions", "RocksDBKeyedStateBackend"]

_TRANSFER_THREADS = 4
_LAYOUT = 2
"""How rows are written; a group that was written otherwise is read from the log again."""
_group_prefix = struct.Struct(">cI")


@attrs.define(init=False, unsafe_hash=True)
class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps working state in RocksDB, as Flink's backend of that name.

    The setters change the object and return None, as PyFlink's do.  A query uses the
    settings there are when it starts.

    Args:
        enable_incremental_checkpointing: Accepted and remembered; what a commit writes is
            always the changes alone.
        j_embedded_rocks_db_state_backend: A Java object, which cannot be used here.

    Raises:
        DeclarationTypeError: `enable_incremental_checkpointing` is not None, True or False.
        DeclarationError: A Java object is given.
    """

    _incremental: bool
    _paths: tuple[str, ...]
    _predefined: PredefinedOptions

    def __init__(
        self,
        enable_incremental_checkpointing: bool | None = None,
        j_embedded_rocks_db_state_backend: None = None,
    ) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            msg = (
                "enable_incremental_checkpointing must be None, True or False, "
                f"got {enable_incremental_checkpointing!r}; it makes no difference here"
            )
            raise DeclarationTypeError(msg)
        if j_embedded_rocks_db_state_backend is not None:
            msg = (
                "there is no Flink in this JVM, got a Java state backend "
                f"{j_embedded_rocks_db_state_backend!r}; leave it out"
            )
            raise DeclarationError(msg)
        self._incremental = bool(enable_incremental_checkpointing)
        self._paths = ()
        self._predefined = PredefinedOptions.DEFAULT

    def create_keyed_state_backend(self, scope: Scope, owner: str) -> RocksDBKeyedStateBackend:
        """A backend for one operator instance, with the settings there are now.

        Raises:
            HostError: rocksdict is not installed.
        """
        require_rocksdict()
        return RocksDBKeyedStateBackend(scope, owner, self._paths, self._predefined)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Where RocksDB's files go on every worker; a task takes one of them.

        Without any: Spark's local directories, or the directory for temporary files.

        Raises:
            DeclarationTypeError, DeclarationValueError: One is not an absolute path.
        """
        for path in paths:
            if not isinstance(path, str):
                msg = f"a storage path must be a str, got {path!r}; write it as a text"
                raise DeclarationTypeError(msg)
            if not path.removeprefix("file://").startswith("/"):
                msg = f"a storage path must be absolute and local, got {path!r}; begin it with /"
                raise DeclarationValueError(msg)
        self._paths = tuple(path.removeprefix("file://") for path in paths)

    def get_db_storage_paths(self) -> list[str]:
        """The paths that were set."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """What the constructor was given."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Tune RocksDB for a kind of disk.

        Raises:
            DeclarationTypeError: It is none of `PredefinedOptions`.
        """
        if not isinstance(options, PredefinedOptions):
            msg = (
                "set_predefined_options takes one of PredefinedOptions, "
                f"got {options!r}; for example PredefinedOptions.FLASH_SSD_OPTIMIZED"
            )
            raise DeclarationTypeError(msg)
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """What RocksDB is tuned for."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Refused: a factory of options is a Java class.

        Raises:
            DeclarationValueError: Always.
        """
        msg = (
            "RocksDB runs in the Python worker, where no Java class can be loaded, got the "
            f"options factory {options_factory_class_name!r}; use set_predefined_options()"
        )
        raise DeclarationValueError(msg)

    def get_options(self) -> str | None:
        """None: there is no factory of options."""
        return None

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Refused: no file is transferred to or from a checkpoint.

        Raises:
            DeclarationError: Always.
        """
        msg = (
            "state is made durable by Spark's state store and no file of RocksDB is transferred, "
            f"got {number_of_transfering_threads!r} transfer threads; leave this call out"
        )
        raise DeclarationError(msg)

    def get_number_of_transfer_threads(self) -> int:
        """Flink's default, 4; without effect."""
        return _TRANSFER_THREADS

    def __str__(self) -> str:
        return "EmbeddedRocksDBStateBackend"


class RocksDBKeyedStateBackend:
    """Tables over one RocksDB, which is opened when it is first needed."""

    is_persistent = True

    def __init__(
        self, scope: Scope, owner: str, paths: tuple[str, ...], predefined: PredefinedOptions
    ) -> None:
        self.scope = scope
        self.owner = owner
        self._paths = paths
        self._predefined = predefined
        self._tables: dict[str, RocksSingleTable | RocksManyTable] = {}
        self._forms: dict[str, str] = {}
        self._index = 0
        self._group: dict[str, Any] = {}
        self._store: LocalStore | None = None
        self._taken: set[int] = set()
        self._logged: Callable[[], Iterable[TableChanges]] | None = None

    def _opened(self) -> LocalStore:
        if self._store is None or not self._store.is_open:
            self._store = LocalStore(self._paths, self.owner, self._predefined.to_options)
        return self._store

    def rebuild_from(self, logged: Callable[[], Iterable[TableChanges]] | None) -> None:
        """Where the current key group can be rebuilt from, if the disk cannot be read."""
        self._logged = logged

    def _rebuild(self, error: LocalStateError) -> None:
        """Take the current key group into memory as its log has it, under what the batch did."""
        if self._store is not None:
            self._store.discard()
        if self._logged is None:
            raise error
        LOG.warning("key group %d is rebuilt from its log, for: %s", self._index, error)
        known = {name: table.data for name, table in self._tables.items()}
        for table in self._tables.values():
            table.point_at(RocksTableData(), b"")
        try:
            for changes in self._logged():
                self.apply(changes)
        finally:
            rebuilt = {name: table.data for name, table in self._tables.items()}
            for name, table in self._tables.items():
                self._point(table, known[name])
        for name, table in self._tables.items():
            table.take_over(rebuilt[name])

    def table(self, spec: TableSpec) -> RocksSingleTable | RocksManyTable:
        """The table of a state, created at its first use."""
        table = self._tables.get(spec.name)
        if table is None:
            table = self._tables[spec.name] = new_table(
                spec, self.scope, self._opened, self._rebuild
            )
            self._forms[spec.name] = _form_of(spec)
            self._point(table, self._group.setdefault(spec.name, RocksTableData()))
        return table

    def _point(self, table: RocksSingleTable | RocksManyTable, data: RocksTableData) -> None:
        table.point_at(data, _range_of(self._index)[0] + _name_of(table.spec.name))

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group."""
        self._index = index
        self._group = tables
        for name, table in self._tables.items():
            data = tables.get(name)
            if data is None:
                data = tables[name] = RocksTableData()
            self._point(table, data)

    def drain(self) -> list[TableChanges]:
        """What changed since the last drain."""
        return [table.drain() for table in self._tables.values()]

    def discard_changes(self) -> None:
        """Forget what changed."""
        for table in self._tables.values():
            table.drain()

    def apply(self, changes: TableChanges) -> None:
        """Take over restored entries."""
        self._tables[changes.spec.name].apply(changes)

    def contents(self) -> list[TableChanges]:
        """Every entry of the key group."""
        return [table.contents() for table in self._tables.values()]

    def count(self) -> int:
        """How many entries the key group holds in all tables."""
        return sum(table.count() for table in self._tables.values())

    def take_warm(self, index: int) -> WorkingState | None:
        """The key group as it is on disk, unless it was taken and not kept since."""
        if index in self._taken:
            return None
        try:
            stored = self._opened().get(_meta_of(index))
        except LocalStateError:
            return None
        if stored is None:
            return None
        self._taken.add(index)
        layout, *rest = pickle.loads(stored)  # noqa: S301 - see rocksdb_store
        if layout != _LAYOUT:
            return None
        bases, *fields = rest
        for name, (form, size, *_) in bases.items():
            if size and self._forms.get(name) != form:
                # Not declared yet, or otherwise, such as with stamps that these entries have
                # not: they must be read from the log, which tells what they are.
                return None
        group = WorkingState(index, *fields)
        for name, (_, *base) in bases.items():
            group.tables[name] = RocksTableData(True, *base)
        return group

    def keep_warm(self, state: WorkingState) -> None:
        """Bring the disk to the committed state of a key group, in one write.

        Raises:
            LocalStateError: What is on the disk cannot be read; the group is not kept.
            HostError: The disk cannot be written to.
        """
        index, tables = state.index, state.tables
        current = self._index, self._group
        self.enter(index, tables)
        puts: dict[bytes, bytes | None] = {}
        for table in self._tables.values():
            puts.update(table.unsaved())
        dense = {name for name, table in self._tables.items() if table.is_dense()}
        stored = {
            name: (self._forms.get(name), data.size, data.cursor, name in dense)
            for name, data in tables.items()
        }
        fields: tuple[Any, ...] = (
            *(state.nonce, state.next_sequence, {}, {}),
            *(state.declared, state.declarations, state.pending, state.rewrite),
        )
        puts[_meta_of(index)] = pickle.dumps((_LAYOUT, stored, *fields), 5)
        is_new = not any(data.is_based for data in tables.values())
        self._opened().write(puts, _range_of(index) if is_new else None)
        for name, (_, *base) in stored.items():
            tables[name] = RocksTableData(True, *base)
        self.enter(*current)
        self._taken.discard(index)

    def close(self) -> None:
        """Forget the tables, and release the directory."""
        self._tables.clear()
        self._group = {}
        self.release()

    def release(self) -> None:
        """Write to the disk what RocksDB has in memory, and let go of the directory until it is needed."""
        self._taken.clear()
        if self._store is not None:
            self._store.close()

    def discard(self) -> None:
        """Close, and delete what is on the disk."""
        self.close()
        if self._store is not None:
            self._store.delete()


def _form_of(spec: TableSpec) -> str:
    """What entries on disk must have been written as to be a table's own."""
    types = [each and each.signature for each in (spec.user_key_type, spec.value_type)]
    return repr((spec.kind, spec.shape.value, spec.paired, *types))


def _range_of(index: int) -> tuple[bytes, bytes]:
    """Where all entries of a key group lie."""
    return _group_prefix.pack(b"g", index), _group_prefix.pack(b"g", index + 1)


def _meta_of(index: int) -> bytes:
    """Where the rest of a key group lies: all of it but tables and timers."""
    return _group_prefix.pack(b"m", index)


def _name_of(table: str) -> bytes:
    """A table's part of the keys on disk."""
    return hashlib.blake2b(table.encode("utf-8", "surrogatepass"), digest_size=8).digest()
