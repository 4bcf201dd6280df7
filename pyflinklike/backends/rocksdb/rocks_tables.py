# SPDX-License-Identifier: Apache-2.0
"""Tables over RocksDB: the entries that a batch reads and writes lie over those on disk.

`RocksTableData` is that overlay for one table in one key group.  The disk stays as it is until
the group is kept; then `rows_to_write` yields everything that must go there.  `dirty` and `cleared` are
for the next commit to log, and are empty after it.

The runtime tells which keys have records.  A table reads their rows in one call when it needs the first
of them, and keeps them beside the overlay, as bytes, until they are used.

If the disk cannot be read, `rebuild` puts the whole group into memory: the entries of its log, and over
them those that the batch has read and written (`take_over`).  The method that met the damage goes on
from there, and its caller notices nothing.

The key of a row on disk begins with the table's prefix, which begins with the key group, and the key.
The rest of it, and the contents of a row, depend on the shape.  A table with one entry for each key has
one row for each key.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import attrs

from pyflinklike._messages import shown_error
from pyflinklike.backends.rocksdb.local_database import LocalDatabase
from pyflinklike.errors import LocalStateError, StateValueError
from pyflinklike.state.current_key import TableKey
from pyflinklike.state.table import MISSING, Entry, TableChanges, TableSpec
from pyflinklike.types.frozen_keys import decode, decode_many, encode, encode_many

Rebuild = Callable[[LocalStateError], None]
"""Reads the current group into memory from its log, or raises the error if that cannot be done."""

Found = tuple[list[Any], list[Any], list[Entry]]
"""The keys, user keys and entries of all entries of a table."""

UNKNOWN: Any = object()
"""Stands for an entry that the overlay does not know."""

_ROW_OVERHEAD = 100  # bytes of the two objects and of their slot in a dict
_CHUNK = 1024


def dump(stored: Any) -> bytes:
    """Write the contents of a row, which only this worker's disk will hold."""
    return pickle.dumps(stored, 5)


def load(row: bytes) -> Any:
    """Read the contents of a row; the files must have been found to be this user's own.

    Raises:
        LocalStateError: The row cannot be read, although RocksDB found its bytes to be right: another
            version of a class wrote it.
    """
    try:
        return pickle.loads(row)  # noqa: S301
    except Exception as error:
        msg = f"an entry on the worker's local disk must be readable, got {shown_error(error)}"
        raise LocalStateError(f"{msg}; it is rebuilt from the checkpoint") from error


class ExpectedKeys:
    """The keys of the records that come next in a key group, for all tables of the operator.

    Args:
        keys: The keys, in any order and any number of times.
    """

    def __init__(self, keys: Iterable[Any]) -> None:
        self._keys = keys

    @cached_property
    def raws(self) -> dict[Any, bytes]:
        """The bytes of each key."""
        keys = list(dict.fromkeys(self._keys))
        try:
            return dict(zip(keys, encode_many(keys, b"")))
        except StateValueError:
            return {}  # whoever uses the guilty key raises this again


@attrs.define
class RocksTableData:
    """The entries of one table in one key group that were read and written since the group was kept.

    Args:
        is_based: Whether there may be entries on disk; otherwise all entries are here.
        size: The number of entries, on disk and here.
        cursor: The row on disk at which the running sweep goes on.
        is_dense: Whether the batch before used most of the entries on disk.
        entries: Key to entry (`SINGLE`), or key to user key to entry; `MISSING` for an entry that is
            deleted or was never there, whatever the disk says.
        unsaved: The entries that are logged and not on disk yet: keys, or key to user keys, without
            values.  It is kept only if the table `is_based`; otherwise no entry is on disk.
        dirty: The entries that are not logged yet, in the same form.
        cleared: The keys that were cleared as a whole, and not logged yet.
        spread: The keys whose entries have a row each on disk (not `SINGLE`).
        partial: The keys of `spread` some of whose entries may be on disk only.
        ordered: The keys whose entries are in order here.
        ends: The position that the next element appended to a list gets.
        rest: The entries that the running sweep has still to look at here.
        sorted: Key to its dict here, and to the user keys of that dict in order (ordered tables).
    """

    is_based: bool = False
    size: int = 0
    cursor: bytes = b""
    is_dense: bool = False
    entries: dict[Any, Any] = attrs.field(factory=dict)
    unsaved: dict[Any, Any] = attrs.field(factory=dict)
    dirty: dict[Any, Any] = attrs.field(factory=dict)
    cleared: dict[Any, None] = attrs.field(factory=dict)
    spread: set[Any] = attrs.field(factory=set)
    partial: set[Any] = attrs.field(factory=set)
    ordered: set[Any] = attrs.field(factory=set)
    ends: dict[Any, int] = attrs.field(factory=dict)
    rest: Iterator[Any] | None = None
    sorted: dict[Any, tuple[dict[Any, Any], list[bytes]]] = attrs.field(factory=dict)


class RocksTable:
    """The part that tables of all shapes share."""

    most_ahead = 16 * 1024 * 1024
    """The bytes of memory that rows may take which are read ahead."""

    def __init__(
        self,
        spec: TableSpec,
        current: TableKey,
        opened: Callable[[], LocalDatabase],
        rebuild: Rebuild,
    ) -> None:
        self.spec = spec
        self._current = current
        self._opened = opened
        self._rebuild = rebuild
        # The key of a record is not yet the key of an entry if entries are divided further.
        self._is_expected = spec.namespace_type is None and not spec.per_group
        self.point_at(RocksTableData(), b"")

    def point_at(self, data: RocksTableData, prefix: bytes) -> None:
        """Turn to a key group, in which the keys of the table's rows begin with `prefix`."""
        self._data = data
        self._entries = data.entries
        self._dirty = data.dirty
        self._prefix = prefix
        self._expected: ExpectedKeys | None = None
        self._raws: dict[Any, bytes] = {}
        self._ahead: dict[Any, bytes | None] = {}
        self._row: Callable[[bytes], bytes | None] = self._opened().get if data.is_based else _none
        if data.is_based and data.is_dense:
            self._row = self._first_row

    def expect(self, keys: ExpectedKeys) -> None:
        """Read the rows of these keys in one call when the first of them is needed.

        They wait beside the overlay, as bytes, so a key that is never used leaves no trace.
        """
        if self._is_expected and self._data.is_based:
            self._expected = keys

    @property
    def data(self) -> RocksTableData:
        """The data that the table is turned to."""
        return self._data

    def take_over(self, rebuilt: RocksTableData) -> None:
        """Put all entries of the log under those in memory; the disk is lost."""
        data = self._data
        self._put_under(rebuilt)
        data.is_based = data.is_dense = False
        data.cursor, data.rest = b"", None
        data.unsaved.clear()
        data.spread.clear()
        data.partial.clear()
        data.size = len(self._collect()[0])
        self._row = _none

    def _put_under(self, rebuilt: RocksTableData) -> None:
        """Take over the entries that are not in memory."""
        raise NotImplementedError

    def _at(self, key: Any) -> bytes:
        """Return where the rows of a key begin on disk."""
        raw = self._raws.get(key)
        return self._prefix + (encode(key) if raw is None else raw)

    def _raws_of(self, keys: list[Any]) -> list[bytes]:
        """Return the beginning of each key's rows on disk."""
        prefix, raws = self._prefix, self._raws
        try:
            return [prefix + raws[key] for key in keys]
        except KeyError:
            return encode_many(keys, prefix)

    def _row_of(self, key: Any) -> bytes | None:
        """Return the row of a key that was not read yet, or None."""
        row: bytes | None = self._ahead.pop(key, UNKNOWN)
        if row is UNKNOWN and self._expected is not None:
            self._read_expected(self._expected)
            row = self._ahead.pop(key, UNKNOWN)
        return self._row(self._at(key)) if row is UNKNOWN else row

    def _read_expected(self, expected: ExpectedKeys) -> None:
        """Read the rows of the expected keys until they fill the memory for them."""
        self._expected = None
        raws = self._raws = expected.raws
        if self._data.is_dense:
            return  # `_first_row` reads all rows; the bytes of the keys serve it, too
        known, ahead, prefix, room = self._entries, self._ahead, self._prefix, self.most_ahead
        unknown = [key for key in raws if key not in known and key not in ahead]
        # RocksDB reads faster in the order of its rows.
        unread, get_many = iter(sorted(unknown, key=raws.__getitem__)), self._opened().get_many
        while room > 0 and (keys := list(islice(unread, _CHUNK))):
            rows = get_many([prefix + raws[key] for key in keys])
            ahead.update(zip(keys, rows))
            room -= sum(map(len, filter(None, rows))) + _ROW_OVERHEAD * len(rows)

    def _rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Return all rows on disk."""
        if not self._data.is_based:
            return iter(())
        return self._opened().items(self._prefix, self._prefix + b"\xff")

    def _first_row(self, raw: bytes) -> bytes | None:
        """Return a row, after reading ahead all rows that fit in memory.

        Reading in order takes a third of the time.
        """
        rows: dict[bytes, bytes] = {}
        read, room = self._rows(), self.most_ahead
        while room > 0 and (chunk := dict(islice(read, _CHUNK))):
            rows.update(chunk)
            weights = map(len, (*chunk, *chunk.values()))
            room -= sum(weights) + _ROW_OVERHEAD * len(chunk)
        found, get = rows.get, self._opened().get
        self._row = found if room > 0 else lambda raw: found(raw) or get(raw)
        return self._row(raw)

    def is_dense(self) -> bool:
        """Return whether this batch used most entries on disk, as the next one then likely will."""
        return self._data.is_based and 2 * self._count_known() > self._data.size

    def _count_known(self) -> int:
        """Count the entries in the overlay, roughly."""
        return len(self._entries)

    def _lookup(self, key: Any, user_key: Any) -> Entry:
        """Return the entry of a key that need not be the current one."""
        raise NotImplementedError

    def _remove(self, key: Any, user_key: Any) -> None:
        """Delete an entry."""
        raise NotImplementedError

    def _collect_checked(self) -> Found:
        """Return all entries, after checking their number."""
        data = self._data
        try:
            found = self._collect()
        except LocalStateError as error:
            self._rebuild(error)
            return self._collect()
        # A compaction writes the log anew from these entries, so lost rows would be lost for ever.
        if data.is_based and len(found[0]) != data.size:
            msg = f"{self.spec.kind} {self.spec.name!r}: {data.size} entries were kept on the "
            msg += f"worker's local disk, got {len(found[0])}; they are rebuilt from the checkpoint"
            self._rebuild(LocalStateError(msg))
            found = self._collect()
        return found

    def _collect(self) -> Found:
        """Return all entries that can be found."""
        raise NotImplementedError

    def scan(self) -> Iterator[tuple[Hashable, Any, Entry]]:
        # Every batch scans the timers, and most functions do not use timers.
        return zip(*self._collect_checked()) if self._data.size else iter(())

    def contents(self) -> TableChanges:
        keys, user_keys, entries = self._collect_checked() if self._data.size else ([], [], [])
        return TableChanges(self.spec, keys=keys, user_keys=user_keys, entries=entries)

    def count(self) -> int:
        return self._data.size

    # Sweeping: first the rows on disk, then the entries in memory that replace or complete them.

    def sweep(
        self,
        count: int,
        is_dead: Callable[[Entry], bool],
        any_dead: Callable[[Sequence[Entry]], bool] | None = None,
    ) -> int:
        data = self._data
        seen = deleted = 0
        if data.rest is None:
            if data.is_based:
                try:
                    seen, deleted, is_over = self._sweep_disk(count, is_dead)
                except LocalStateError as error:
                    self._rebuild(error)
                    return 0  # the sweep begins anew
                if not is_over:
                    return deleted
            data.rest = iter(self._overlaid())
        for key, user_key in islice(data.rest, max(count - seen, 0)):
            seen += 1
            deleted += self._delete_dead(key, user_key, is_dead)
        if seen < count:
            data.rest, data.cursor = None, b""
        return deleted

    def _sweep_disk(self, count: int, is_dead: Callable[[Entry], bool]) -> tuple[int, int, bool]:
        """Return how many entries were seen and deleted, and whether these were the last rows."""
        data, seen, deleted = self._data, 0, 0
        begin, end = data.cursor or self._prefix, self._prefix + b"\xff"
        for raw, row in self._opened().items(begin, end):
            if seen >= count:
                data.cursor = raw
                return seen, deleted, False
            found, dead = self._sweep_row(raw, row, is_dead)
            seen += found
            deleted += dead
        return seen, deleted, True

    def _sweep_row(
        self, raw: bytes, row: bytes, is_dead: Callable[[Entry], bool]
    ) -> tuple[int, int]:
        """Return how many entries are in a row, and how many of them were deleted."""
        raise NotImplementedError

    def _delete_dead(self, key: Any, user_key: Any, is_dead: Callable[[Entry], bool]) -> bool:
        """Delete an entry if it is there and dead; return whether it was."""
        entry = self._lookup(key, user_key)
        if entry is MISSING or not is_dead(entry):
            return False
        self._remove(key, user_key)
        return True

    def _overlaid(self) -> list[tuple[Any, Any]]:
        """Return key and user key of the entries in memory that differ from the disk."""
        raise NotImplementedError

    def sweep_all(self, is_dead: Callable[[Entry], bool]) -> int:
        dead = [(key, user_key) for key, user_key, entry in self.scan() if is_dead(entry)]
        for key, user_key in dead:
            self._remove(key, user_key)
        return len(dead)

    def _find_changed(self) -> Mapping[Any, Any]:
        """Return all keys with entries in memory that differ from the disk."""
        data = self._data
        return data.unsaved | data.dirty if data.is_based else data.entries


def _none(raw: bytes) -> None:
    """Return None: the group has no rows on disk."""


class RocksSingleTable(RocksTable):
    """One entry for each key, in a row."""

    def get(self, user_key: Hashable) -> Entry:
        key = self._current.key
        entry = self._entries.get(key, UNKNOWN)
        return self._read(key) if entry is UNKNOWN else entry

    def _read(self, key: Any) -> Entry:
        """Read the entry of a key that the overlay does not know."""
        if not self._data.is_based:
            return MISSING
        # `_row_of` has this look-up, too; here it saves a call for almost every record.
        row = self._ahead.pop(key, UNKNOWN)
        try:
            if row is UNKNOWN:
                row = self._row_of(key)
            entry = MISSING if row is None else load(row)
        except LocalStateError as error:
            self._rebuild(error)
            return self._entries.get(key, MISSING)
        self._entries[key] = entry
        return entry

    def _put_under(self, rebuilt: RocksTableData) -> None:
        entries = self._entries
        for key, entry in rebuilt.entries.items():
            entries.setdefault(key, entry)

    def _lookup(self, key: Any, user_key: Any) -> Entry:
        entry = self._entries.get(key, UNKNOWN)
        return self._read(key) if entry is UNKNOWN else entry

    def put(self, user_key: Hashable, entry: Entry) -> None:
        key = self._current.key
        former = self._entries.get(key, UNKNOWN)
        if former is UNKNOWN:
            former = self._read(key)
        if former is MISSING:
            self._data.size += 1
        self._entries[key] = entry
        self._dirty[key] = None

    def delete(self, user_key: Hashable) -> None:
        self._remove(self._current.key, None)

    def _remove(self, key: Any, user_key: Any) -> None:
        if self._lookup(key, None) is not MISSING:
            self._data.size -= 1
            self._entries[key] = MISSING
            self._dirty[key] = None

    def append(self, entry: Entry) -> None:
        self.put(None, entry)

    def items(self) -> list[tuple[Any, Entry]]:
        entry = self.get(None)
        return [] if entry is MISSING else [(None, entry)]

    def elements(self) -> list[Entry]:
        entry = self.get(None)
        return [] if entry is MISSING else [entry]

    def is_empty(self) -> bool:
        return self.get(None) is MISSING

    def clear(self) -> None:
        self.delete(None)

    def multi_get(self, user_keys: Sequence[Hashable]) -> list[Entry]:
        return [self.get(user_key) for user_key in user_keys]

    def multi_put(self, items: Iterable[tuple[Hashable, Entry]]) -> None:
        for user_key, entry in items:
            self.put(user_key, entry)

    def _sweep_row(
        self, raw: bytes, row: bytes, is_dead: Callable[[Entry], bool]
    ) -> tuple[int, int]:
        # `_overlaid` sweeps the entries that changed in memory.
        if not is_dead(load(row)):
            return 1, 0
        return 1, self._delete_dead(decode(raw, len(self._prefix))[0], None, is_dead)

    def _overlaid(self) -> list[tuple[Any, Any]]:
        return [(key, None) for key in self._find_changed()]

    def _collect(self) -> Found:
        mine, below = self._entries, dict(self._rows())
        rows = dict(zip(decode_many(list(below), len(self._prefix)), below.values()))
        if mine:
            rows = {key: row for key, row in rows.items() if key not in mine}
        keys, entries = list(rows), list(map(load, rows.values()))
        for key, entry in mine.items():
            if entry is not MISSING:
                keys.append(key)
                entries.append(entry)
        return keys, [None] * len(keys), entries

    def drain(self) -> TableChanges:
        data = self._data
        keys = list(data.dirty)
        entries = list(map(data.entries.__getitem__, keys))
        if data.is_based:
            data.unsaved.update(data.dirty)
        data.dirty.clear()
        return TableChanges(self.spec, keys=keys, user_keys=[None] * len(keys), entries=entries)

    def apply(self, changes: TableChanges) -> None:
        data, entries = self._data, self._entries
        keys = changes.cleared + changes.keys
        if data.is_based:
            self._fetch(keys)
            data.unsaved.update(dict.fromkeys(keys))
        elif data.size == len(entries) and not changes.cleared and MISSING not in changes.entries:
            # A snapshot, or the first segment of a log: nothing there is deleted.
            entries.update(zip(keys, changes.entries))
            data.size = len(entries)
            return
        size = data.size
        for key, entry in zip(keys, [MISSING] * len(changes.cleared) + changes.entries):
            size += (entries.get(key, MISSING) is MISSING) - (entry is MISSING)
            entries[key] = entry
        data.size = size

    def _fetch(self, keys: list[Any]) -> None:
        """Read the entries that are not in memory, in one call."""
        unknown = list(set(keys).difference(self._entries))
        rows = self._opened().get_many(encode_many(unknown, self._prefix))
        for key, row in zip(unknown, rows):
            self._entries[key] = MISSING if row is None else load(row)

    def rows_to_write(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Yield the rows to write to disk; the row None deletes."""
        keys, dumps = list(self._find_changed()), pickle.dumps
        raws = self._raws_of(keys)
        entries = map(self._entries.__getitem__, keys)
        rows = [None if entry is MISSING else dumps(entry, 5) for entry in entries]
        return zip(raws, rows)
