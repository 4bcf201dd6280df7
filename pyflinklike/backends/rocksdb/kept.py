# SPDX-License-Identifier: Apache-2.0
"""The row of a key group on disk beside its entries, from which a later batch goes on.

The row is a header, which says how this row and those of the entries are written, and a pickled
dict of builtin values by name.  Reading it makes no object of a class and imports nothing.  A row
of another version is known by its header, before anything of it is unpickled.  Nothing is guessed
from a row that cannot be read although RocksDB found its bytes to be right.  In both cases the key
group is rebuilt from its log, and replaces what is here.

Tables and timers are not in the row: a table has rows of its own, and timers follow from them.
"""

from __future__ import annotations

import io
import logging
import pickle
import struct
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, NoReturn

from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import Section
from pyflinklike.log.working_state import WorkingState

__all__ = ["KeptTable", "entries_at", "from_row", "row_at", "to_row"]

_LOGGER = logging.getLogger("pyflinklike.backends")

_LAYOUT = 3
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


class KeptTable(NamedTuple):
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


def to_row(state: WorkingState, tables: Mapping[str, KeptTable]) -> bytes:
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
            name: [(each.declaration.fields(), each.payload, each.place) for each in sections]
            for name, sections in state.pending.items()
        },
        "tables": {name: each._asdict() for name, each in tables.items()},
    }
    return _HEADER.pack(_MAGIC, _LAYOUT) + pickle.dumps(fields, 5)


def from_row(row: bytes, index: int) -> tuple[WorkingState, dict[str, KeptTable]] | None:
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
        tables = {name: KeptTable(**each) for name, each in fields.pop("tables").items()}
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
                Section(Declaration.of_fields(declaration), payload, place)
                for declaration, payload, place in sections
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
