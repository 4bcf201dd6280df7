# SPDX-License-Identifier: Apache-2.0
"""Writes the states of key groups as the files of a savepoint, and the state of a harness as a savepoint.

The savepoint of a harness has the states that the function declares, and the states that the harness
restored from another savepoint.  A harness has one key group, and its operator's uid is the name of
the function's class.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyflinklike import __version__
from pyflinklike._changelog.operator_record import OperatorIdentity, OperatorRecord
from pyflinklike._changelog.segments import Segment
from pyflinklike._changelog.stored_table import sort_rows
from pyflinklike._clock import wall_clock
from pyflinklike.errors import IncompatibleStateError
from pyflinklike.state.table import RESERVED_PREFIX
from pyflinklike.state_processor._logs.column_values import type_to_show
from pyflinklike.state_processor._logs.group_reader import savepoint_readers
from pyflinklike.state_processor._logs.key_columns import KeyColumns, name_of
from pyflinklike.state_processor._logs.state_infos import describe_states, owner_of
from pyflinklike.state_processor._savepoints.manifest import (
    Manifest,
    SavedOperator,
    SavedRows,
    folder_of,
)
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)
from pyflinklike.types import TupleTypeInfo, TypeInformation
from pyflinklike.types.key_codec import ANY_KEY

if TYPE_CHECKING:
    from pyflinklike.testing.operator_harness import HarnessState, OperatorHarness

_ROWS_PER_FILE = 1_000_000


class OperatorWriter:
    """Writes the files of an operator, one key group after another.

    Args:
        location: The directory of the savepoint.
        stem: The beginning of the files' names; no other writer of the operator has it.
    """

    def __init__(self, location: SavepointLocation, stem: str = "part") -> None:
        self._location, self._stem = location, stem
        self._open: dict[str, _RowsWriter] = {}
        self._domains: Counter[str] = Counter()

    def add(self, index: int, record: OperatorRecord, log: list[Segment]) -> None:
        """Write all state of a key group.

        Args:
            index: The index of the group.
            record: The operator's record.
            log: The segments of the group: one log, or several snapshots of different keys.
        """
        keys = KeyColumns.of(record).names
        for state, reader in savepoint_readers(record, 0):
            folder = folder_of(record.identity.name, state)
            for table in reader.read(index, log, self._location.where):
                if not table.num_rows:
                    continue
                if folder not in self._open:
                    self._open[folder] = _RowsWriter(self._location, folder, self._stem)
                self._open[folder].write(_sort(table, keys))
                if state is None:
                    self._domains.update(table.column("domain").to_pylist())

    def finish(self, record: OperatorRecord) -> SavedOperator:
        """Close the files, and return the operator for the manifest."""

        def close(state: str | None) -> SavedRows:
            folder = folder_of(record.identity.name, state)
            return self._open[folder].close() if folder in self._open else SavedRows(0)

        states = {info.name: close(info.name) for info in describe_states(record, 0)}
        return SavedOperator(record, states, close(None), dict(self._domains))

    def abandon(self) -> None:
        """Delete the files."""
        for each in self._open.values():
            each.delete()


class _RowsWriter:
    """Writes the rows of one state to files of a folder."""

    def __init__(self, location: SavepointLocation, folder: str, stem: str) -> None:
        self._location, self._stem = location, f"{folder}/{stem}"
        self._names: list[str] = []
        self._writer: Any = None
        self._rows_of_file = self._rows = 0
        location.filesystem.create_dir(location.path(folder))

    def write(self, table: pa.Table) -> None:
        if self._writer is None:
            name = f"{self._stem}-{len(self._names)}.parquet"
            self._names.append(name)
            self._writer = pq.ParquetWriter(
                self._location.path(name),
                table.schema,
                filesystem=self._location.filesystem,
                compression="zstd",
                write_page_checksum=True,
            )
        self._writer.write_table(table)
        self._rows += table.num_rows
        self._rows_of_file += table.num_rows
        if self._rows_of_file >= _ROWS_PER_FILE:
            self._end_file()

    def _end_file(self) -> None:
        writer, self._writer, self._rows_of_file = self._writer, None, 0
        if writer is not None:
            writer.close()

    def close(self) -> SavedRows:
        self._end_file()
        return SavedRows(self._rows, self._location.measure_files(self._names))

    def delete(self) -> None:
        with contextlib.suppress(pa.ArrowException, OSError):
            self._end_file()
        for name in self._names:
            with contextlib.suppress(OSError):
                self._location.filesystem.delete_file(self._location.path(name))


def _sort(table: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Sort the rows of a key group by key: then a file's statistics say which keys it may have."""
    names = [
        name
        for name in keys
        if name in table.column_names and not pa.types.is_nested(table.schema.field(name).type)
    ]
    return sort_rows(table, names)


def write_operator(
    location: SavepointLocation, record: OperatorRecord, log: list[Segment]
) -> SavedOperator:
    """Write an operator of one key group, as `OperatorWriter` does; return it for the manifest."""
    writer = OperatorWriter(location)
    writer.add(0, record, log)
    return writer.finish(record)


# The savepoint of a harness


_Columns = tuple[tuple[str, str], ...]


def write_savepoint(
    harness: OperatorHarness, path: str | os.PathLike[str], *, mode: str = "error"
) -> None:
    """Write all state and timers of a harness as a directory of Parquet files.

    The harness does not change.  The savepoint also has restored states that the function does not
    declare.

        write_savepoint(harness, "visits.savepoint")
        again = KeyedProcessHarness(Visits(), key, restore=open_savepoint("visits.savepoint"))

    Args:
        harness: Any harness of `pyflinklike.testing`.
        path: The directory to write, for `open_savepoint`, `process(..., from_savepoint=...)` or
            any tool that reads Parquet.
        mode: "error", or "overwrite" to replace a savepoint that is there.

    Raises:
        DeclarationTypeError, DeclarationValueError: The path or the mode cannot be used.
        IncompatibleStateError: A snapshot was restored with states that the function does not
            declare; or a key does not fit the key columns of the restored savepoint.
    """
    held = harness.state_to_save()
    _check_described(held)
    columns = (
        _name_columns(held.key_columns, held.key_type)
        if held.former is None
        else _former_columns(held.former, held.key_type)
    )
    # 1: all keys of a harness are in one key group.
    identity = OperatorIdentity(held.function, 1, columns, held.key_type.signature)
    record = OperatorRecord(identity, held.function, __version__, "UTC", None, "None", held.states)
    there = savepoint_location_of(path)
    written = there.begin(mode)
    operator = write_operator(written, record, [held.snapshot])
    # The manifest is written last: a directory without it is not a savepoint.
    written.finish(Manifest(__version__, wall_clock(), (operator,)))
    there.replace(written)


def _check_described(held: HarnessState) -> None:
    tables = {each.name for each in held.snapshot.declarations.values()}
    owners = {
        owner_of(each, held.states) for each in tables if not each.startswith(RESERVED_PREFIX)
    }
    unknown = sorted(owners - held.states.keys())
    if unknown:
        msg = (
            "write_savepoint needs the declaration of each state, got a restored snapshot with the "
            f"undeclared states {unknown}; declare them, or restore a savepoint in place of the snapshot"
        )
        raise IncompatibleStateError(msg)


def _former_columns(former: OperatorRecord, key_type: TypeInformation) -> _Columns:
    """Return the key columns of the savepoint that was restored; the next savepoint has them, too."""
    identity = former.identity
    if identity.key_columns:
        return identity.key_columns
    if identity.key == ANY_KEY or key_type.signature != ANY_KEY:
        return ()
    columns = KeyColumns.of(former)
    return tuple(zip(columns.names, map(name_of, columns.types)))


def _name_columns(names: Sequence[str], key_type: TypeInformation) -> _Columns:
    """Return the names of a harness' key columns, with the types of its keys."""
    kinds = [key_type]
    if len(names) > 1 and isinstance(key_type, TupleTypeInfo):
        kinds = list(key_type.field_types)
    if key_type.signature == ANY_KEY or len(kinds) != len(names):
        return ()
    return tuple((name, name_of(type_to_show(kind))) for name, kind in zip(names, kinds))
