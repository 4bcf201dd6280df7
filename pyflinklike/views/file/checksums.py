# SPDX-License-Identifier: Apache-2.0
"""Checksums of the lines of a view's file.

SQLite notices some damage to its pages, but none to their content: with a bit flipped, a row is
just another row.  So each line of each table has a checksum of its columns, its table and the
identity of the file; a line of another table or file does not pass for it.

Checksums of lines cannot show that a line is missing.  So each batch stores how many lines there
are after it, and the sum of their checksums.
"""

from __future__ import annotations

import sqlite3
from typing import Any
from zlib import crc32

import msgspec

from pyflinklike.shown import shown

__all__ = ["Damage", "Sums"]

_pack = msgspec.msgpack.Encoder().encode


class Damage(sqlite3.DatabaseError):
    """The file is damaged in a way that SQLite itself does not notice."""


class Sums:
    """Makes and compares the checksums of one file.

    Args:
        identity: The identity of the file, an int of 64 bits.
    """

    __slots__ = ("_begin", "_rows")

    def __init__(self, identity: int) -> None:
        self._begin = crc32(b"%d" % identity)
        self._rows = self._of_table("rows")

    def _of_table(self, table: str) -> int:
        return crc32(table.encode(), self._begin)

    def of_row(self, key: bytes, row: bytes) -> int:
        """Return the checksum of a line of `rows`, made without copying: there are many."""
        return crc32(row, crc32(key, self._rows + len(key)))

    def of_line(self, table: str, *columns: Any) -> int:
        """Return the checksum of a line of another table."""
        return crc32(_pack(columns), self._of_table(table))

    def check_row(self, key: bytes, row: bytes, stored: int) -> None:
        """Compare the checksum of a line of `rows`.

        Raises:
            Damage: The checksum does not match.
        """
        try:
            if self.of_row(key, row) == stored:
                return
        except TypeError:
            pass  # a column of another type
        raise _damage("rows", key)

    def check_line(self, table: str, *line: Any) -> None:
        """Compare the checksum of a line of another table, which is its last column.

        Raises:
            Damage: The checksum does not match.
        """
        *columns, stored = line
        try:
            if self.of_line(table, *columns) == stored:
                return
        except (TypeError, UnicodeEncodeError):
            pass
        raise _damage(table, columns[0])


def _damage(table: str, first: Any) -> Damage:
    return Damage(f"a line of {table!r} with another checksum than its columns, at {shown(first)}")
