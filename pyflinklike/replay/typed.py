# SPDX-License-Identifier: Apache-2.0
"""Keys and times out of what somebody typed: on a command line, or in a URL."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pyflinklike.errors import StateValueError
from pyflinklike.replay.key_types import arrow_of
from pyflinklike.shown import shown

__all__ = ["key_of", "time_of"]

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
_MILLISECOND = dt.timedelta(milliseconds=1)


def key_of(text: str, columns: Sequence[tuple[str, str]]) -> Any:
    """The key that was typed: JSON (of several columns an array), or the text of one string.

    Args:
        text: What was typed.
        columns: Names and Spark types of the key columns.

    Raises:
        StateValueError: It is none of these columns.
    """
    try:
        given = json.loads(text)
    except ValueError:
        given = text
    if len(columns) == 1:
        name, kind = columns[0]
        if kind == "string" and not isinstance(given, str):
            given = text  # the digits of a name, say
        return _key_part(given, name, kind)
    if not isinstance(given, list) or len(given) != len(columns):
        names = [name for name, _ in columns]
        msg = f"KEY must be a JSON array with a value for each of {names}, got {text!r}"
        raise StateValueError(f"""{msg}; write it as '["ann", 3]'""")
    return tuple(_key_part(each, name, kind) for each, (name, kind) in zip(given, columns))


def _key_part(given: Any, name: str, kind: str) -> Any:
    return _part_of(given, name, kind, arrow_of(kind))


def _part_of(given: Any, name: str, kind: str, declared: Any) -> Any:
    if pa.types.is_struct(declared):
        return _tuple_of(given, name, kind, declared)
    try:
        if isinstance(given, str) and not pa.types.is_string(declared):
            if pa.types.is_timestamp(declared):
                instant = dt.datetime.fromisoformat(given.replace("Z", "+00:00"))
                return _zoned(instant, declared)
            if pa.types.is_binary(declared):
                return bytes.fromhex(given.removeprefix("0x"))
            return pa.scalar(given).cast(declared).as_py()
        return pa.scalar(given, declared).as_py()
    except (ValueError, TypeError, pa.ArrowException) as error:
        msg = f"KEY must be a value of column {name!r}, which is {kind}, got {shown(given)}"
        raise StateValueError(f"{msg}; write it as JSON") from error


def _tuple_of(given: Any, name: str, kind: str, declared: Any) -> tuple[Any, ...]:
    """A key that is a tuple: an array with a value for each field."""
    if not isinstance(given, list) or len(given) != declared.num_fields:
        msg = f"KEY must be a JSON array with the {declared.num_fields} values of column {name!r}"
        raise StateValueError(f"""{msg}, which is {kind}, got {shown(given)}; write '["ann", 3]'""")
    return tuple(
        None if each is None else _part_of(each, name, kind, declared.field(at).type)
        for at, each in enumerate(given)
    )


def _zoned(instant: dt.datetime, declared: Any) -> dt.datetime:
    if declared.tz is None:
        return instant.replace(tzinfo=None)
    return instant if instant.tzinfo else instant.replace(tzinfo=dt.timezone.utc)


def time_of(text: str) -> int:
    """A point in time that was typed, in ms: as such, or as ISO 8601 (in UTC if it has no zone).

    Raises:
        StateValueError: It is neither.
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        instant = dt.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError as error:
        msg = f"a time is given in ms or as ISO 8601, got {text!r}; write 2026-11-23T02:00:00Z"
        raise StateValueError(msg) from error
    zoned = instant if instant.tzinfo else instant.replace(tzinfo=dt.timezone.utc)
    return (zoned - _EPOCH) // _MILLISECOND
