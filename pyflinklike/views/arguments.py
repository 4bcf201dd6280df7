# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of views."""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyflinklike._checks import is_int, is_int64
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, StateValueError

__all__ = [
    "check_choice",
    "check_columns",
    "check_count",
    "check_id",
    "check_limit",
    "check_name",
    "file_of",
    "to_ms",
]

_FILE_SUFFIXES = {".db", ".sqlite", ".sqlite3"}


def check_name(name: Any) -> str:
    """Check the name of a view: a name that a file can have."""
    if not isinstance(name, str):
        msg = f"the name of a view must be a str, got {short_repr(name)}; name it"
        raise DeclarationTypeError(msg)
    if not name or any(mark in name for mark in "/\\\0") or not _is_unicode(name):
        msg = f"the name of a view must be a valid file name, got {short_repr(name)}; rename it"
        raise DeclarationValueError(msg)
    return name


def check_columns(view: str, what: str, given: Any) -> tuple[str, ...]:
    """Return the names of one column or several as a tuple."""
    columns = (given,) if isinstance(given, str) else given
    if not isinstance(columns, Sequence) or not all(isinstance(each, str) for each in columns):
        msg = f"view {view!r}: {what} must be the name of a column or several, got {short_repr(given)}"
        raise DeclarationTypeError(f"{msg}; for example {what}='id'")
    if not all(map(_is_unicode, columns)):
        msg = f"view {view!r}: {what} must be valid Unicode, got {short_repr(given)}; rename the column"
        raise DeclarationValueError(msg)
    if not columns or len(set(columns)) < len(columns):
        msg = f"view {view!r}: {what} must name columns that differ, got {short_repr(given)}; name each once"
        raise DeclarationValueError(msg)
    return tuple(columns)


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded, which lone surrogates cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def file_of(name: str, path: str | Path) -> Path:
    """Return the file of a view: the path itself if it names a file, else one in that directory."""
    if not isinstance(path, (str, Path)):
        msg = (
            f"view {name!r}: path must be a str or a Path, got {short_repr(path)}; name a directory"
        )
        raise DeclarationTypeError(msg)
    file = Path(path).absolute()  # readers open it later, when the process may be elsewhere
    is_file = file.is_file() or (file.suffix in _FILE_SUFFIXES and not file.is_dir())
    return file if is_file else file / f"{name}.sqlite"


def check_id(view: str, batch_id: Any) -> int:
    """Return a batch id as an int.

    Raises:
        StateValueError: The id is not an int of 64 bits.
    """
    try:
        number = operator.index(batch_id)
    except TypeError:
        number = None
    if isinstance(batch_id, bool) or not is_int64(number):
        msg = f"view {view!r}: a batch id must be an int of 64 bits, got {short_repr(batch_id)}; count batches"
        raise StateValueError(msg)
    return number


def check_choice(name: str, given: Any, choices: Sequence[str]) -> None:
    """Refuse a value that is not one of the choices."""
    if given not in choices:
        msg = f"{name} must be one of {list(choices)}, got {short_repr(given)}; choose one"
        raise DeclarationValueError(msg)


def to_ms(value: Any, zone: dt.tzinfo) -> int:
    """Return an event time in ms since the epoch.

    Raises:
        StateValueError: The value is neither a datetime nor an int of 64 bits.
    """
    if isinstance(value, dt.datetime):
        aware = value.replace(tzinfo=zone) if value.tzinfo is None else value
        return (aware - dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)) // dt.timedelta(
            milliseconds=1
        )
    if is_int64(value):
        return value
    msg = f"an event time must be a datetime or an int of ms in 64 bits, got {short_repr(value)}; cast the column"
    raise StateValueError(msg)


def check_count(view: str, what: str, given: Any) -> int:
    """Check an int of at least 1, and return it."""
    if not is_int(given) or given < 1:
        msg = f"view {view!r}: {what} must be an int of at least 1, got {short_repr(given)}; for example 100"
        raise DeclarationValueError(msg)
    return given


def check_limit(limit: Any) -> None:
    """Refuse a limit that is no number of rows or changes.

    Raises:
        DeclarationTypeError: The limit is neither None nor an int.
        DeclarationValueError: The limit is negative.
    """
    if limit is None:
        return
    if not is_int(limit):
        msg = f"limit must be an int or None, got {short_repr(limit)}; None returns all"
        raise DeclarationTypeError(msg)
    if limit < 0:
        msg = f"limit must not be negative, got {short_repr(limit)}; None returns all"
        raise DeclarationValueError(msg)
