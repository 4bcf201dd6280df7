# SPDX-License-Identifier: Apache-2.0
"""The tables of one operator over a RocksDB, and how a key group is kept there.

`pyflinklike.backends.rocksdb.backend` tells what is on disk when.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable

from pyflinklike.backends.base import KeyedBackend
from pyflinklike.backends.rocksdb.database import LocalDatabase
from pyflinklike.backends.rocksdb.kept import KeptTable, entries_at, from_row, row_at, to_row
from pyflinklike.backends.rocksdb.options import PredefinedOptions
from pyflinklike.backends.rocksdb.ordered import RocksTableOfAnyShape, new_table
from pyflinklike.backends.rocksdb.table import RocksTableData
from pyflinklike.errors import LocalStateError
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import TableChanges, TableSpec

__all__ = ["RocksDBKeyedStateBackend"]

_LOGGER = logging.getLogger("pyflinklike.backends")


class RocksDBKeyedStateBackend(KeyedBackend[RocksTableOfAnyShape]):
    """Tables over one RocksDB, which is opened when it is first needed.

    Args:
        current: Tells its tables the current key.
        owner: Whose working state it keeps.
        paths: Where its files may lie.
        predefined: How RocksDB is tuned.
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

    def _opened(self) -> LocalDatabase:
        if self._database is None or not self._database.is_open:
            self._database = LocalDatabase(self._paths, self.owner, self._predefined.to_options)
        return self._database

    # Tables

    def new_table(self, spec: TableSpec) -> RocksTableOfAnyShape:
        """A table over rows."""
        self._forms[spec.name] = _form_of(spec)
        return new_table(spec, self.current, self._opened, self._rebuild)

    def new_data(self, spec: TableSpec) -> RocksTableData:
        """Nothing in memory, and nothing on disk either."""
        return RocksTableData()

    def point(self, table: RocksTableOfAnyShape, index: int, data: RocksTableData) -> None:
        """Have a table look at its rows in that group, and at what lies over them."""
        table.point_at(data, entries_at(index)[0] + _name_of(table.spec.name))

    # Damage

    def rebuild_from(self, logged: Callable[[], Iterable[TableChanges]] | None) -> None:
        """Where the current key group can be rebuilt from, if the disk cannot be read."""
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
        """The key group as it is on disk, unless it was taken and not kept since."""
        if index in self._taken:
            return None
        try:
            row = self._opened().get(row_at(index))
        except LocalStateError:
            return None
        if row is None:
            return None
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

    def _is_readable(self, name: str, kept: KeptTable) -> bool:
        """Whether entries are declared as they were written, or there are none.

        Where they are undeclared, or declared otherwise (a TTL was added), they must be read
        from the log, which tells what they are.
        """
        return not kept.size or self._forms.get(name) == kept.form

    def keep_warm(self, state: WorkingState) -> None:
        """Bring the disk to the committed state of a key group, in one write.

        Raises:
            LocalStateError: What is on the disk cannot be read; the group is not kept.
            HostError: The disk cannot be written to.
        """
        index, tables = state.index, state.tables
        current = self._index, self._data
        self.enter(index, tables)
        puts: dict[bytes, bytes | None] = {}
        for table in self._tables.values():
            puts.update(table.unsaved())
        kept = {name: self._kept(name, data) for name, data in tables.items()}
        puts[row_at(index)] = to_row(state, kept)
        is_new = not any(data.is_based for data in tables.values())
        self._opened().write(puts, entries_at(index) if is_new else None)
        for name, each in kept.items():
            tables[name] = _data_of(each)
        self.enter(*current)
        self._taken.discard(index)

    def _kept(self, name: str, data: RocksTableData) -> KeptTable:
        table = self._tables.get(name)
        is_dense = table is not None and table.is_dense()
        return KeptTable(self._forms.get(name), data.size, data.cursor, is_dense)

    # The end

    def release(self) -> None:
        """Write to the disk what RocksDB has in memory, and let go of the directory until it is needed."""
        self._taken.clear()
        if self._database is not None:
            self._database.close()

    def close(self) -> None:
        """Forget the tables, and release the directory."""
        super().close()
        self.release()

    def discard(self) -> None:
        """Close, and delete what is on the disk."""
        self.close()
        if self._database is not None:
            self._database.delete()


def _data_of(kept: KeptTable) -> RocksTableData:
    """A table of which nothing is in memory."""
    return RocksTableData(is_based=True, size=kept.size, cursor=kept.cursor, is_dense=kept.is_dense)


def _form_of(spec: TableSpec) -> str:
    """What entries on disk must have been written as to be a table's own."""
    types = [each and each.signature for each in (spec.user_key_type, spec.value_type)]
    if spec.namespace_type is not None:
        types.append(spec.namespace_type.signature)
    types += [f"{each.name}={each.value}" for each in spec.settings]
    return repr((spec.kind, spec.shape.value, spec.paired, *types))


def _name_of(table: str) -> bytes:
    """A table's part of the keys on disk."""
    return hashlib.blake2b(table.encode("utf-8", "surrogatepass"), digest_size=8).digest()
