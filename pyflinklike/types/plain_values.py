# SPDX-License-Identifier: Apache-2.0
"""Plain values as MessagePack, and back: numbers, text, times, lists, tuples, dicts and rows.

Any language reads MessagePack, and unlike a pickle it cannot run code, so the bytes may come from
anywhere.  Types that MessagePack does not have are extensions:

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

A user of this module may have extensions of its own, from `FIRST_FREE_CODE` on.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from pyflinklike._messages import short_repr
from pyflinklike.errors import StateValueError
from pyflinklike.types.row import Row, names_of, row_class

_ROW, _TUPLE, _DICT, _INT, _DECIMAL, _DATE, _TIME, _DATETIME, _TIMEDELTA, FIRST_FREE_CODE = range(
    1, 11
)

_Ext = msgspec.msgpack.Ext
_pack = msgspec.msgpack.Encoder().encode
MOST_LEVELS = 100
"""The most levels of a value, as in MongoDB; it can be decoded on any thread's stack."""
_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_SAME = _AS_THEY_ARE | {int, Decimal, dt.date, dt.time, dt.datetime, dt.timedelta}
_TYPES = (
    "None, bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta, "
    "or a list, tuple, dict or Row of these"
)

DAMAGE = (
    msgspec.DecodeError,
    ValueError,
    TypeError,
    KeyError,
    ArithmeticError,
    RecursionError,
)
"""Errors of `plain_decoder` at bytes that `encode_plain` has not written."""


def encode_plain(value: Any) -> bytes:
    """Return the bytes of a plain value.

    Raises:
        StateValueError: The value holds something that is not plain, or has too many levels.
        UnicodeEncodeError, OverflowError, ValueError: MessagePack cannot hold it.
    """
    return _pack(_prepare(value, 0))


def is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether a value is decoded as it was, of the same classes."""
    cls = type(value)
    if cls in _SAME:
        return True
    # A list may hold itself.
    if depth == MOST_LEVELS or not (cls in (list, tuple, dict) or isinstance(value, Row)):
        return False
    parts = chain(value, value.values()) if cls is dict else value
    return all(is_plain(each, depth + 1) for each in parts)


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
    msg = f"a plain value is {_TYPES}, got {short_repr(value)} ({cls.__name__}); convert it first"
    raise StateValueError(msg)


def _deeper(depth: int) -> int:
    if depth == MOST_LEVELS:
        msg = f"a plain value has at most {MOST_LEVELS} levels, got one that is deeper"
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
}


def plain_decoder(
    more: Mapping[int, Callable[[memoryview], Any]],
) -> Callable[[bytes | memoryview], Any]:
    """Return a function that decodes what `encode_plain` has written; it raises `DAMAGE`.

    Args:
        more: Restores the values of further extensions, by their code.
    """
    restorers = {**_RESTORERS, **more}
    return msgspec.msgpack.Decoder(ext_hook=lambda code, data: restorers[code](data)).decode


_unpack: Callable[[Any], Any] = plain_decoder({})
