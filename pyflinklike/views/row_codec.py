# SPDX-License-Identifier: Apache-2.0
"""Encodes the rows and keys of a view, and decodes them as they were put in.

A row is MessagePack, which any language reads and which, unlike a pickle, cannot run code: a view's
file may come from anywhere.  Types that MessagePack does not have are extensions:

| code | value                              | data                                             |
|------|------------------------------------|--------------------------------------------------|
| 1    | a `Row`, Spark's or ours           | array: the array of the names, then the values   |
| 2    | tuple                              | array of the elements                            |
| 3    | dict with keys other than str      | array: key, value, key, value, ...               |
| 4    | int beyond 64 bits                 | two's complement, big-endian                     |
| 5    | Decimal                            | its text                                         |
| 6    | date                               | ISO 8601                                         |
| 7    | time                               | fold, ISO 8601                                   |
| 8    | datetime                           | fold, zone's name or nothing, a space, ISO 8601  |
| 9    | timedelta                          | days, seconds, microseconds                      |
| 10   | an error in the place of a row     | the error, as a value                            |

Every row has its names, so the schema of a view's rows may change.  Encoded keys sort as their
values do.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import attrs
import msgspec

from pyflinklike._messages import shown
from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.types.key_codec import decode_key, encode_key
from pyflinklike.types.row import Row, names_of, row_class

__all__ = ["Failure", "decode_row", "encode_row", "from_key_bytes", "part_form", "to_key_bytes"]

_ROW, _TUPLE, _DICT, _INT, _DECIMAL, _DATE, _TIME, _DATETIME, _TIMEDELTA, _FAILURE = range(1, 11)

_Ext = msgspec.msgpack.Ext
_pack = msgspec.msgpack.Encoder().encode
_MOST_DEPTH = 100  # as in MongoDB; such a row can be decoded on any thread's stack
_MOST_BYTES = 999_000_000  # SQLite's limit is 1,000,000,000 for a line, key and checksum included
_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_TYPES = (
    "None, bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta, "
    "or a list, tuple, dict or Row of these"
)


@attrs.frozen
class Failure:
    """Stored in place of a row that could not be decoded.

    Args:
        error: The feed's description of the error.
    """

    error: Any


def to_key_bytes(key: Any) -> bytes:
    """Return the bytes of a key; equal keys of one type have equal bytes.

    Raises:
        StateValueError: The key is None, or of a type that has no order.
    """
    if key is None:
        msg = "a key of a view must not be None, got None; give the value of the key column"
        raise StateValueError(msg)
    return part_form(key)


def part_form(part: Any) -> bytes:
    """Return the bytes of one part of a key, which may be None, or of a whole key.

    Raises:
        StateValueError: Its type has no order, or it is too large for a key.
    """
    try:
        return encode_key(part)
    except StateValueError as error:
        msg = (
            "a key of a view must be a str, int, float, bool, bytes, Decimal, date, time, datetime "
            f"or a tuple of these, got {shown(part)}: {error}; choose other key columns"
        )
        raise StateValueError(msg) from error


def from_key_bytes(data: bytes) -> Any:
    """Return the key that was encoded to these bytes; a struct is a plain tuple."""
    return decode_key(data)


def encode_row(row: Any) -> bytes:
    """Return the bytes of a row, or of a plain value.

    Raises:
        StateValueError: The row holds something that a Spark row does not, is nested too deeply, or
            is too large.
    """
    try:
        data = _pack(_prepare(row, 0))
    except (UnicodeEncodeError, OverflowError, ValueError) as error:
        msg = f"a view holds valid Unicode and values of less than 4 GB, got {shown(row)}: {error}"
        raise StateValueError(f"{msg}; mend the row") from error
    if len(data) > _MOST_BYTES:
        msg = f"a view holds rows of less than 1 GB, got one of {len(data):,} bytes: {shown(row)}"
        raise StateValueError(f"{msg}; split it, or keep it elsewhere")
    return data


def decode_row(data: bytes) -> Any:
    """Return the row that `encode_row` wrote as these bytes; a new object each time.

    Raises:
        CorruptStateError: The bytes are damaged.
    """
    try:
        return _unpack(data)
    except _DAMAGE as error:
        msg = f"a stored row must be one that a view wrote, got {shown(data)}: {error}; restore the file"
        raise CorruptStateError(msg) from error


_DAMAGE = (
    msgspec.DecodeError,
    ValueError,
    TypeError,
    KeyError,
    ArithmeticError,
    RecursionError,
)

# Encoding


def _prepare(value: Any, depth: int) -> Any:
    """Return the value in types of MessagePack, with extensions where needed."""
    cls = type(value)
    if cls in _AS_THEY_ARE:
        return value
    if cls is int:
        return value if -(2**63) <= value < 2**64 else _Ext(_INT, _of_int(value))
    for kinds, prepare in _CONTAINERS:
        if isinstance(value, kinds):
            return prepare(value, _deeper(depth))
    for kinds, convert in _SCALARS:
        if isinstance(value, kinds):
            return convert(value)
    if isinstance(value, Mapping):  # last: asking an abstract class takes longest
        return _of_dict(value, _deeper(depth))
    if cls.__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", 0):
        return _prepare(value.item(), depth)
    msg = f"a view holds {_TYPES}, got {shown(value)} ({cls.__name__}); convert it first"
    raise StateValueError(msg)


def _deeper(depth: int) -> int:
    if depth == _MOST_DEPTH:
        msg = f"a view holds rows of at most {_MOST_DEPTH} levels, got one that is deeper"
        raise StateValueError(f"{msg}; store what is inside as text")
    return depth + 1


def _all_prepared(values: Iterable[Any], depth: int) -> list[Any]:
    return [value if type(value) in _AS_THEY_ARE else _prepare(value, depth) for value in values]


def _of_tuple(value: tuple[Any, ...], depth: int) -> Any:
    names = names_of(value)
    if names is None and not isinstance(value, Row):
        return _Ext(_TUPLE, _pack(_all_prepared(value, depth)))
    return _Ext(_ROW, _pack([list(names or ()), *_all_prepared(value, depth)]))


def _of_dict(value: Mapping[Any, Any], depth: int) -> Any:
    if all(type(key) is str for key in value):
        return dict(zip(value, _all_prepared(value.values(), depth)))
    pairs = [part for pair in value.items() for part in pair]
    return _Ext(_DICT, _pack(_all_prepared(pairs, depth)))


def _of_failure(value: Failure, depth: int) -> Any:
    return _Ext(_FAILURE, _pack(_prepare(value.error, depth)))


def _of_int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)


def _of_datetime(value: dt.datetime) -> Any:
    zone = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else ""
    local = value.replace(tzinfo=None) if zone else value
    return _Ext(_DATETIME, f"{value.fold}{zone or ''} {local.isoformat()}".encode())


def _of_timedelta(value: dt.timedelta) -> Any:
    return _Ext(_TIMEDELTA, _pack([value.days, value.seconds, value.microseconds]))


_CONTAINERS: list[tuple[Any, Callable[[Any, int], Any]]] = [
    (tuple, _of_tuple),
    (dict, _of_dict),
    (list, _all_prepared),
    (Failure, _of_failure),
]
# In this order: a datetime is a date, a bool is an int.
_SCALARS: list[tuple[Any, Callable[[Any], Any]]] = [
    (Decimal, lambda value: _Ext(_DECIMAL, str(value).encode())),
    (dt.datetime, _of_datetime),
    (dt.date, lambda value: _Ext(_DATE, value.isoformat().encode())),
    (dt.time, lambda value: _Ext(_TIME, f"{value.fold}{value.isoformat()}".encode())),
    (dt.timedelta, _of_timedelta),
    ((bytearray, memoryview), bytes),
    (str, str.__str__),
    (float, float),
    (int, lambda value: _prepare(int(value), 0)),
]


# Decoding


def _to_row(data: memoryview) -> Row:
    names, *values = _unpack(data)
    return row_class(tuple(names))._make(values)


def _to_dict(data: memoryview) -> dict[Any, Any]:
    parts = iter(_unpack(data))
    return dict(zip(parts, parts))


def _to_time(data: memoryview) -> dt.time:
    text = str(data, "ascii")
    return dt.time.fromisoformat(text[1:]).replace(fold=int(text[0]))


def _to_datetime(data: memoryview) -> dt.datetime:
    head, _, text = str(data, "ascii").partition(" ")
    value = dt.datetime.fromisoformat(text).replace(fold=int(head[0]))
    return value.replace(tzinfo=ZoneInfo(head[1:])) if head[1:] else value


_RESTORERS: dict[int, Callable[[memoryview], Any]] = {
    _ROW: _to_row,
    _TUPLE: lambda data: tuple(_unpack(data)),
    _DICT: _to_dict,
    _INT: lambda data: int.from_bytes(data, "big", signed=True),
    _DECIMAL: lambda data: Decimal(str(data, "ascii")),
    _DATE: lambda data: dt.date.fromisoformat(str(data, "ascii")),
    _TIME: _to_time,
    _DATETIME: _to_datetime,
    _TIMEDELTA: lambda data: dt.timedelta(*_unpack(data)),
    _FAILURE: lambda data: Failure(_unpack(data)),
}

_unpack: Callable[[bytes | memoryview], Any] = msgspec.msgpack.Decoder(
    ext_hook=lambda code, data: _RESTORERS[code](data)
).decode
