# SPDX-License-Identifier: Apache-2.0
"""Translates the errors of SQLite into ours."""

from __future__ import annotations

import sqlite3

from pyflinklike.errors import CorruptStateError, PyflinklikeError, StateStoreError, StateValueError

__all__ = ["translated"]

# SQLite's code, the beginning of its text (Python 3.10 does not give the code), and the remedy.
_FAULTS = [
    (5, "database is locked", "another program holds it: let that end"),
    (6, "database table is locked", "another program holds it: let that end"),
    (13, "database or disk is full", "free the disk"),
    (8, "attempt to write a readonly", "allow writing to it and to its directory"),
    (3, "access permission denied", "allow writing to it and to its directory"),
    (14, "unable to open database file", "choose another path, or allow access to this one"),
    (10, "disk I/O error", "look after the disk"),
    (15, "locking protocol", "keep it on a local disk"),
    (7, "out of memory", "free memory"),
    (9, "interrupted", "repeat it"),
]
_TOO_BIG = (18, "string or blob too big", "")
_CORRUPT_FILE_SYSTEM = 10 | (33 << 8)


def translated(error: sqlite3.Error, what: str, *, writing: bool) -> PyflinklikeError:
    """Make an error of ours from one of SQLite's.

    Args:
        error: The error that SQLite raised.
        what: The view and its file, for the message.
        writing: True where the caller's rows were being written.
    """
    if writing and _is(error, _TOO_BIG):
        msg = f"{what} takes rows of less than 1 GB with their key, got a larger one"
        return StateValueError(f"{msg}; split it, or keep it elsewhere")
    # SQLite's code for a damaged file system is that of an I/O error, with more bits.
    if getattr(error, "sqlite_errorcode", None) != _CORRUPT_FILE_SYSTEM:
        for fault in _FAULTS:
            if _is(error, fault):
                msg = f"{what} must be there to be read and written, got: {error}"
                return StateStoreError(f"{msg}; {fault[2]}")
    # Somebody else's schema, types or constraints end here, too.
    msg = f"{what} must be the file of a view as it was written, got: {error}"
    return CorruptStateError(f"{msg}; restore it from a copy, or build the view again")


def _is(error: sqlite3.Error, fault: tuple[int, str, str]) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return str(error).startswith(fault[1])
    return bool(code & 0xFF == fault[0])
