# SPDX-License-Identifier: Apache-2.0
"""The backend for state larger than memory: working state in RocksDB on the local disk.

Each task of a query opens its own RocksDB, with all its key groups.  While a batch works on a key group,
everything that it reads and writes is in memory.  When the batch is done with the group, a single write
takes the disk from the former committed state to the new one, with the nonce.  So if a batch fails, the
group is on disk as it was before, and its nonce says so.  A large group that was rebuilt from its log is
not written row by row: RocksDB takes in a sorted file, and the row with the nonce is written behind it.

Data that cannot be read from the disk is rebuilt from the log while the batch runs.  The directory is
deleted, the current key group goes on in memory, and the other groups are rebuilt when they are needed.

Memory holds the entries of one key group that a batch touches, and the times of the group's timers.  If
the batch before touched most of the group, memory also holds up to 16 MiB of each of its tables.  A
group that has to be rebuilt from its log is in memory as a whole while that happens, so choose enough
key groups.

Beside its entries a key group has one row on disk, from which a later batch goes on.  The row is a
header and a pickled dict of builtin values by name.  To read it makes no object of a class and imports
nothing.  The header says how this row and the rows of entries are written, so a row of another version
is recognised before any of it is unpickled.  A row may also be unreadable although RocksDB found its
bytes to be right; then nothing in it is used.  In both cases the key group is rebuilt from its log, and
replaces the rows on disk.

The row has neither tables nor timers: a table has rows of its own, and timers follow from its entries.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import attrs

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike.backends.rocksdb.local_database import (
    LocalDatabase,
    PredefinedOptions,
    require_rocksdict,
)
from pyflinklike.backends.rocksdb.many_table import RocksTableOfAnyShape, new_table
from pyflinklike.backends.rocksdb.rocks_tables import ExpectedKeys, RocksTableData
from pyflinklike.backends.state_backend import KeyedBackend, StateBackend
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    LocalStateError,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import TableChanges, TableSpec

_TRANSFER_THREADS = 4  # Flink's default


@attrs.define(init=False, unsafe_hash=True)
class EmbeddedRocksDBStateBackend(StateBackend):
    """Working state in RocksDB, as in Flink's backend of that name.

    The setters change the object and return None, as PyFlink's do.  A query keeps the settings that
    the object has when the query starts.

    Args:
        enable_incremental_checkpointing: Accepted and remembered without effect, because a commit
            always writes only the changes.
        j_embedded_rocks_db_state_backend: A Java object in PyFlink; here it must be None.

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

    def create_keyed_state_backend(
        self, current: CurrentKey, owner: str
    ) -> RocksDBKeyedStateBackend:
        """Create the tables of one operator instance, with the present settings.

        Raises:
            SparkSetupError: rocksdict is not installed.
        """
        require_rocksdict("EmbeddedRocksDBStateBackend")
        return RocksDBKeyedStateBackend(current, owner, self._paths, self._predefined)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the directories for RocksDB's files on every worker; a task takes one of them.

        Without any path, a task takes Spark's local directories, or the one for temporary files.

        Args:
            paths: Absolute paths, which may begin with file://.

        Raises:
            DeclarationTypeError, DeclarationValueError: A path is not an absolute path.
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
        """Return the paths that were set."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return the argument of the constructor as a bool; it has no effect."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Tune RocksDB for a kind of disk.

        Raises:
            DeclarationTypeError: The options are none of `PredefinedOptions`.
        """
        if not isinstance(options, PredefinedOptions):
            msg = (
                "set_predefined_options takes one of PredefinedOptions, "
                f"got {options!r}; for example PredefinedOptions.FLASH_SSD_OPTIMIZED"
            )
            raise DeclarationTypeError(msg)
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the kind of disk that RocksDB is tuned for."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Raise an error, because a factory of options is a Java class.

        Raises:
            DeclarationValueError: Always.
        """
        msg = (
            "RocksDB runs in the Python worker, where no Java class can be loaded, got the "
            f"options factory {options_factory_class_name!r}; use set_predefined_options()"
        )
        raise DeclarationValueError(msg)

    def get_options(self) -> str | None:
        """Return None: there is no factory of options here."""
        return None

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Raise an error, because no file is transferred to or from a checkpoint.

        Raises:
            DeclarationError: Always.
        """
        msg = (
            "state is made durable by Spark's state store and no file of RocksDB is transferred, "
            f"got {number_of_transfering_threads!r} transfer threads; leave this call out"
        )
        raise DeclarationError(msg)

    def get_number_of_transfer_threads(self) -> int:
        """Return Flink's default, 4; it has no effect."""
        return _TRANSFER_THREADS

    def __str__(self) -> str:
        return "EmbeddedRocksDBStateBackend"


# The tables of one operator


_LOGGER = logging.getLogger("pyflinklike.backends")


class RocksDBKeyedStateBackend(KeyedBackend[RocksTableOfAnyShape]):
    """Tables over one RocksDB, which is opened when it is first needed.

    Args:
        current: Holds the current key, under which tables look.
        owner: The name of the operator in its query, whose working state this is.
        paths: The storage paths; if empty, Spark's local directories or the one for temporary files.
        predefined: The kind of disk that RocksDB is tuned for.
    """

    is_persistent = True

    def __init__(
        self, current: CurrentKey, owner: str, paths: tuple[str, ...], predefined: PredefinedOptions
    ) -> None:
        self._owner = owner
        self._database: LocalDatabase | None = None
        self._taken: set[int] = set()
        super().__init__(current, owner)
        self._paths = paths
        self._predefined = predefined
        self._forms: dict[str, str] = {}
        self._names: dict[str, bytes] = {}
        self._logged: Callable[[], Iterable[TableChanges]] | None = None

    def _ensure_database(self) -> LocalDatabase:
        if self._database is None or not self._database.is_open:
            self._database = LocalDatabase(self._paths, self.owner, self._predefined.to_options)
        return self._database

    @property
    def owner(self) -> str:
        """The operator whose state this is; another owner has another database."""
        return self._owner

    @owner.setter
    def owner(self, owner: str) -> None:
        if self._database is not None and (self._owner != owner or not self._database.is_in_place):
            self.release()
            self._database = None
        self._owner = owner
        self._taken.clear()

    # Tables

    def new_table(self, spec: TableSpec) -> RocksTableOfAnyShape:
        """Create a table over rows."""
        self._forms[spec.name], self._names[spec.name] = _form_of(spec), _name_of(spec.name)
        return new_table(spec, self.current, self._ensure_database, self._rebuild)

    def new_data(self, spec: TableSpec) -> RocksTableData:
        """Create data without entries in memory or on disk."""
        return RocksTableData()

    def point(self, table: RocksTableOfAnyShape, index: int, data: RocksTableData) -> None:
        """Turn a table to its rows in a key group, and to the overlay on them."""
        table.point_at(data, entries_at(index)[0] + self._names[table.spec.name])

    def expect(self, keys: Sequence[Hashable]) -> None:
        """Let each table read the rows of these keys together."""
        expected = ExpectedKeys(keys)
        for table in self._tables.values():
            table.expect(expected)

    # Damage

    def rebuild_from(self, logged: Callable[[], Iterable[TableChanges]] | None) -> None:
        """Set the log from which the current key group is rebuilt if the disk cannot be read."""
        self._logged = logged

    def _rebuild(self, error: LocalStateError) -> None:
        """Read the current key group from its log into memory, beneath the batch's own changes."""
        if self._database is not None:
            self._database.discard()
        if self._logged is None:
            raise error
        _LOGGER.warning("key group %d is rebuilt from its log: %s", self._index, error)
        known = {name: table.data for name, table in self._tables.items()}
        for table in self._tables.values():
            # An empty prefix and no rows: the log is applied to memory alone.
            table.point_at(RocksTableData(), b"")
        try:
            for changes in self._logged():
                self.apply(changes)
        finally:
            rebuilt = {name: table.data for name, table in self._tables.items()}
            for name, table in self._tables.items():
                self.point(table, self._index, known[name])
        for name, table in self._tables.items():
            table.take_over(rebuilt[name])

    # Between batches

    def pop_cached(self, index: int) -> KeyGroupState | None:
        """Return a key group as it is on disk; None if a batch took it and has not kept it since."""
        if index in self._taken:
            return None
        try:
            row = self._ensure_database().get(row_at(index))
        except LocalStateError:
            return None
        if row is None:
            return None
        # Once a batch has begun, the group on disk is stale until it is kept again.
        self._taken.add(index)
        kept = from_row(row, index)
        if kept is None:
            return None
        state, tables = kept
        if not all(self._is_readable(name, each) for name, each in tables.items()):
            return None
        for name, each in tables.items():
            state.tables[name] = _data_of(each)
        return state

    def _is_readable(self, name: str, kept: TableOnDisk) -> bool:
        """Return whether entries are declared as they were written, or there are no entries.

        If entries are undeclared, or declared otherwise (a TTL was added), they must be read from
        the log, which knows their types.
        """
        return not kept.size or self._forms.get(name) == kept.form

    def cache(self, state: KeyGroupState) -> None:
        """Bring the disk to the committed state of a key group; the row with its nonce goes last.

        Raises:
            LocalStateError: The disk cannot be read; the group is not kept.
            SparkSetupError: The disk cannot be written to.
        """
        index, tables = state.index, state.tables
        current = self._index, self._data
        if index != self._index or tables is not self._data:
            # Because `rows_to_write` looks at the group that the tables are in.
            self.enter(index, tables)
        puts: dict[bytes, bytes | None] = {}
        for table in self._tables.values():
            puts.update(table.rows_to_write())
        kept = {name: self._describe_table(name, data) for name, data in tables.items()}
        at, row = row_at(index), to_row(state, kept)
        if any(data.is_based for data in tables.values()):
            puts[at] = row
            self._ensure_database().write(puts)
        else:
            # An older run may have left rows of the group.
            self._ensure_database().replace(entries_at(index), puts, at, row)
        for name, each in kept.items():
            tables[name] = _data_of(each)
        self.enter(*current)
        self._taken.discard(index)

    def _describe_table(self, name: str, data: RocksTableData) -> TableOnDisk:
        table = self._tables.get(name)
        is_dense = table is not None and table.is_dense()
        return TableOnDisk(self._forms.get(name), data.size, data.cursor, is_dense)

    # The end

    def release(self) -> None:
        """Write RocksDB's memory to the disk, and release the directory until it is needed."""
        self._taken.clear()
        if self._database is not None:
            self._database.close()

    def close(self) -> None:
        """Forget the tables, and release the directory."""
        super().close()
        self.release()

    def discard(self) -> None:
        """Close the backend, and delete its files."""
        self.close()
        if self._database is not None:
            self._database.delete()


def _data_of(kept: TableOnDisk) -> RocksTableData:
    """Return the data of a table that has no entry in memory."""
    return RocksTableData(is_based=True, size=kept.size, cursor=kept.cursor, is_dense=kept.is_dense)


def _form_of(spec: TableSpec) -> str:
    """Describe a table; entries on disk are its own only if their description is the same."""
    types = [each and each.signature for each in (spec.user_key_type, spec.value_type)]
    if spec.namespace_type is not None:
        types.append(spec.namespace_type.signature)
    types += [f"{each.name}={each.value}" for each in spec.settings]
    return repr((spec.kind, spec.shape.value, spec.paired, *types))


def _name_of(table: str) -> bytes:
    """Return a table's part of the keys on disk."""
    return hashlib.blake2b(table.encode("utf-8", "surrogatepass"), digest_size=8).digest()


# The row of a key group


_LAYOUT = 1
"""The version of the layout of all rows, also of entries; raise it whenever the layout changes."""
_HEADER = struct.Struct("<4sI")
_MAGIC = b"PFK\x00"
_KEY = struct.Struct(">cI")


def entries_at(index: int) -> tuple[bytes, bytes]:
    """Return the keys between which all entries of a key group lie."""
    return _KEY.pack(b"g", index), _KEY.pack(b"g", index + 1)


def row_at(index: int) -> bytes:
    """Return the key of the row of a key group."""
    return _KEY.pack(b"m", index)


class TableOnDisk(NamedTuple):
    """The part of a key group's row that describes one table, whose entries have rows of their own.

    Args:
        form: The declaration under which its entries were written; None if no program declared it.
        size: The number of its entries.
        cursor: The row at which the running sweep goes on.
        is_dense: Whether the batch used most of the entries.
    """

    form: str | None
    size: int
    cursor: bytes
    is_dense: bool


def to_row(state: KeyGroupState, tables: Mapping[str, TableOnDisk]) -> bytes:
    """Write the row of a key group.

    Args:
        state: The state of the group; its tables and timers are left out.
        tables: The description of each of its tables, by name.
    """
    fields = {
        "nonce": state.nonce,
        "next_sequence": state.next_sequence,
        "rewrite": state.rewrite,
        "declared": state.declared,
        "declarations": {number: each.fields() for number, each in state.declarations.items()},
        "pending": {
            name: [(each.declaration.fields(), each.payload, each.where) for each in sections]
            for name, sections in state.pending.items()
        },
        "tables": {name: each._asdict() for name, each in tables.items()},
    }
    return _HEADER.pack(_MAGIC, _LAYOUT) + pickle.dumps(fields, 5)


def from_row(row: bytes, index: int) -> tuple[KeyGroupState, dict[str, TableOnDisk]] | None:
    """Read a row that `to_row` wrote; None if no batch can go on from it.

    Args:
        row: The bytes of the row, as they are on disk.
        index: The index of the key group, for the log.

    Returns:
        The working state without tables, and the description of each table, by name.
    """
    if row[: _HEADER.size] != _HEADER.pack(_MAGIC, _LAYOUT):
        _LOGGER.info("key group %d was kept by another version, and is rebuilt from its log", index)
        return None
    try:
        fields = _Unpickler(io.BytesIO(row[_HEADER.size :])).load()
        tables = {name: TableOnDisk(**each) for name, each in fields.pop("tables").items()}
        return _state(index, **fields), tables
    except Exception as error:  # unpickling may raise anything
        _LOGGER.warning("key group %d is rebuilt from its log: its row gives %r", index, error)
        return None


def _state(
    index: int,
    *,
    nonce: bytes,
    next_sequence: int,
    rewrite: bool,
    declared: dict[str, int],
    declarations: Mapping[int, Mapping[str, Any]],
    pending: Mapping[str, Iterable[tuple[Mapping[str, Any], bytes, str]]],
) -> KeyGroupState:
    return KeyGroupState(
        index,
        nonce,
        next_sequence,
        rewrite=rewrite,
        declared=declared,
        declarations={number: Declaration.of_fields(each) for number, each in declarations.items()},
        pending={
            name: [
                Section(Declaration.of_fields(declaration), payload, where)
                for declaration, payload, where in sections
            ]
            for name, sections in pending.items()
        },
    )


class _Unpickler(pickle.Unpickler):
    """An unpickler of builtin values only."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Raise: no row names a class or function."""
        msg = f"{module}.{name} in a row of plain values"
        raise pickle.UnpicklingError(msg)
