# SPDX-License-Identifier: Apache-2.0
"""The tables of one operator over a RocksDB, and how a key group is stored there.

Beside its entries a key group has a row on disk, from which a later batch goes on.  It is a header,
which says how this row and those of the entries are written, and a pickled dict of builtin values
by name.  Reading it makes no object of a class and imports nothing.  A row of another version is
known by its header, before anything of it is unpickled.  Nothing is guessed from a row that cannot
be read although RocksDB found its bytes to be right.  In both cases the key group is rebuilt from
its log, and replaces what is here.

Tables and timers are not in the row: a table has rows of its own, and timers follow from them.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike._changelog.working_state import WorkingState
from pyflinklike.backends.rocksdb.local_database import LocalDatabase, PredefinedOptions
from pyflinklike.backends.rocksdb.ordered_rows import RocksTableOfAnyShape, new_table
from pyflinklike.backends.rocksdb.rocks_tables import RocksTableData
from pyflinklike.backends.state_backend import KeyedBackend
from pyflinklike.errors import LocalStateError
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import TableChanges, TableSpec

__all__ = ["RocksDBKeyedStateBackend", "TableOnDisk", "entries_at", "from_row", "row_at", "to_row"]


_LOGGER = logging.getLogger("pyflinklike.backends")


class RocksDBKeyedStateBackend(KeyedBackend[RocksTableOfAnyShape]):
    """Tables over one RocksDB, which is opened when it is first needed.

    Args:
        current: Tells the tables the current key.
        owner: Names the operator of one query, whose working state this is.
        paths: Storage paths; if none, Spark's local directories or that for temporary files.
        predefined: The kind of disk that RocksDB is tuned for.
    """

    is_persistent = True

    def __init__(
        self, current: CurrentKey, owner: str, paths: tuple[str, ...], predefined: PredefinedOptions
    ) -> None:
        super().__init__(current, owner)
        self._paths = paths
        self._predefined = predefined
        self._forms: dict[str, str] = {}
        self._database: LocalDatabase | None = None
        self._taken: set[int] = set()
        self._logged: Callable[[], Iterable[TableChanges]] | None = None

    def _ensure_database(self) -> LocalDatabase:
        if self._database is None or not self._database.is_open:
            self._database = LocalDatabase(self._paths, self.owner, self._predefined.to_options)
        return self._database

    # Tables

    def new_table(self, spec: TableSpec) -> RocksTableOfAnyShape:
        """Create a table over rows."""
        self._forms[spec.name] = _form_of(spec)
        return new_table(spec, self.current, self._ensure_database, self._rebuild)

    def new_data(self, spec: TableSpec) -> RocksTableData:
        """Create data without entries in memory or on disk."""
        return RocksTableData()

    def point(self, table: RocksTableOfAnyShape, index: int, data: RocksTableData) -> None:
        """Turn a table to its rows in a key group, and to the overlay on them."""
        table.point_at(data, entries_at(index)[0] + _name_of(table.spec.name))

    # Damage

    def rebuild_from(self, logged: Callable[[], Iterable[TableChanges]] | None) -> None:
        """Say from where the current key group can be rebuilt if the disk cannot be read."""
        self._logged = logged

    def _rebuild(self, error: LocalStateError) -> None:
        """Take the current key group into memory as its log has it, under what the batch did."""
        if self._database is not None:
            self._database.discard()
        if self._logged is None:
            raise error
        _LOGGER.warning("key group %d is rebuilt from its log, for: %s", self._index, error)
        known = {name: table.data for name, table in self._tables.items()}
        for table in self._tables.values():
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

    # What is kept between batches

    def take_warm(self, index: int) -> WorkingState | None:
        """Return a key group as it is on disk, unless it was taken and not kept since."""
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
        """Return whether entries are declared as they were written, or there are none.

        Entries that are undeclared, or declared otherwise (a TTL was added), must be read from the
        log, which tells what they are.
        """
        return not kept.size or self._forms.get(name) == kept.form

    def keep_warm(self, state: WorkingState) -> None:
        """Bring the disk to the committed state of a key group, in one write.

        Raises:
            LocalStateError: The disk cannot be read; the group is not kept.
            HostError: The disk cannot be written to.
        """
        index, tables = state.index, state.tables
        current = self._index, self._data
        # Tables turn to the group of `state`, for `rows_to_write` looks at the group that they point at.
        self.enter(index, tables)
        puts: dict[bytes, bytes | None] = {}
        for table in self._tables.values():
            puts.update(table.rows_to_write())
        kept = {name: self._describe_table(name, data) for name, data in tables.items()}
        puts[row_at(index)] = to_row(state, kept)
        is_new = not any(data.is_based for data in tables.values())
        # What an older run has left of the group goes with the same write.
        self._ensure_database().write(puts, entries_at(index) if is_new else None)
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
    """Return data of a table of which nothing is in memory."""
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
"""Version of the layout of all rows, those of entries too; raise it whenever that changes."""
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
    """What is stored of a table whose entries are on disk.

    Args:
        form: What its entries were written as; None where no program declared it.
        size: Number of entries.
        cursor: The row at which the running sweep goes on.
        is_dense: Whether the batch used most of the entries.
    """

    form: str | None
    size: int
    cursor: bytes
    is_dense: bool


def to_row(state: WorkingState, tables: Mapping[str, TableOnDisk]) -> bytes:
    """Write the row of a key group.

    Args:
        state: State of the group; its tables and timers are left out.
        tables: What is on disk of each of its tables, by name.
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


def from_row(row: bytes, index: int) -> tuple[WorkingState, dict[str, TableOnDisk]] | None:
    """Read a row that `to_row` wrote; None if no batch can go on from it.

    Args:
        row: The row as it is on disk.
        index: Index of the key group.

    Returns:
        The working state without tables, and what is on disk of each table, by name.
    """
    if row[: _HEADER.size] != _HEADER.pack(_MAGIC, _LAYOUT):
        _LOGGER.info("key group %d was kept by another version, and is rebuilt from its log", index)
        return None
    try:
        fields = _Unpickler(io.BytesIO(row[_HEADER.size :])).load()
        tables = {name: TableOnDisk(**each) for name, each in fields.pop("tables").items()}
        return _state(index, **fields), tables
    except Exception as error:  # unpickling may raise anything
        _LOGGER.warning("key group %d is rebuilt from its log, as its row tells %r", index, error)
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
) -> WorkingState:
    return WorkingState(
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
