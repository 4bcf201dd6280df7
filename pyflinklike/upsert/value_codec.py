# SPDX-License-Identifier: Apache-2.0
"""Encodes keys, values, order keys and errors of upserts as bytes or text, and decodes them.

Consolidation adds up bytes, so the encoding must be *deterministic*: equal values of one type have
the same bytes in every process.  Hence dicts are written in the order of their keys' bytes, -0.0 as
0.0, every NaN as the same one, and equal decimals alike.  It must also be *injective*: `1`, `1.0`,
`True`, `"1"`, `(1,)` and `[1]` are six values.

Scalars and tuples are written by the key codec, which needs no schema and, unlike a pickle, runs no
code.  Other types become a tuple that begins with a number for their kind.  A reader finds the end
of a value in its bytes, so values can be written one after another.  An error is written as the name
of its class and its text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    CorruptStateError,
    KeyDecodeError,
    NullKeyError,
    OrderKeyError,
    StateValueError,
    UpsertError,
    ValueDecodeError,
)
from pyflinklike.types import Instant
from pyflinklike.types.key_codec import decode_first, decode_key, encode_key
from pyflinklike.types.row import Row, row_class
from pyflinklike.types.type_information import plain

# Stored in every value of these types: a number must never change its meaning.
_TUPLE, _LIST, _DICT, _ROW, _INSTANT, _DELTA, _ERROR = range(7)
_SCALARS: Final = frozenset((str, int, float, bool, bytes, type(None)))
_MICROSECOND = dt.timedelta(microseconds=1)


def encode_upsert_key(key: Any) -> bytes:
    """Return the bytes of a key.

    Raises:
        StateValueError: The key is None, or of a type that cannot be encoded.
    """
    if key is None:
        msg = "key must not be None, got None; give NULL keys a key of their own"
        raise StateValueError(msg)
    return encode_value(key)


def encode_value(value: Any) -> bytes:
    """Return the bytes of a value.

    Args:
        value: None, bool, int, float, str, bytes, Decimal, date, time, datetime, timedelta,
            `Instant`, `UpsertError`, or a tuple, list, dict or `Row` of these.

    Raises:
        StateValueError: The value is, or contains, something else.
    """
    if type(value) in _SCALARS:
        return encode_key(value)
    try:
        return encode_key(_write(value))
    except RecursionError:
        msg = "a value of an upsert is nested too deeply, or contains itself; give a flatter one"
        raise StateValueError(msg) from None


def decode_value(data: bytes) -> Any:
    """Return the value that `encode_value` encoded to these bytes; a new object each time.

    Raises:
        CorruptStateError: The bytes are not one whole value.
    """
    return _read(decode_key(data), data)


def decode_from(data: bytes, at: int) -> tuple[Any, int]:
    """Return the value whose bytes begin at `at`, and the offset of their end.

    Raises:
        CorruptStateError: No value begins there.
    """
    found, end = decode_first(data, at)
    return _read(found, data), end


def _write(value: Any) -> Any:
    """Return the value as scalars, and as tuples that begin with their kind."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    # A `Row` is a tuple, too, so it comes before tuples.
    if isinstance(value, Row):
        return (_ROW, value._fields, *map(_write, value))
    if isinstance(value, tuple):
        return (_TUPLE, *map(_write, value))
    if isinstance(value, list):
        return (_LIST, *map(_write, value))
    if isinstance(value, Mapping):
        return _write_mapping(value)
    if isinstance(value, Instant):
        return (_INSTANT, value.seconds, value.nanos)
    if isinstance(value, dt.timedelta):
        return (_DELTA, value // _MICROSECOND)
    if isinstance(value, UpsertError):
        return (_ERROR, name_of(value), str(value))
    if isinstance(value, bytearray):
        return bytes(value)
    return _check(plain(value))


def _check(value: Any) -> Any:
    try:
        encode_key(value)
    except StateValueError:
        msg = (
            "a value of an upsert is None, bool, int, float, str, bytes, Decimal, a date or time, "
            f"or a tuple, list, dict or Row of these, got {short_repr(value)} ({type(value).__name__}); "
            "convert it"
        )
        raise StateValueError(msg) from None
    return value


def _write_mapping(value: Mapping[Any, Any]) -> tuple[Any, ...]:
    items = [(_write(key), _write(item)) for key, item in value.items()]
    # Keys of several types do not compare, but their bytes do.
    items.sort(key=lambda item: encode_key(item[0]))
    return (_DICT, *(part for item in items for part in item))


def _read(written: Any, data: bytes) -> Any:
    try:
        return _restore(written)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        msg = f"a stored value must be one that encode_value wrote, got {short_repr(data)}"
        raise CorruptStateError(msg) from error


def _restore(written: Any) -> Any:
    if not isinstance(written, tuple):
        return written
    kind, parts = written[0], written[1:]
    if kind == _ROW:
        return row_class(parts[0])._make(map(_restore, parts[1:]))
    if kind == _TUPLE:
        return tuple(map(_restore, parts))
    if kind == _LIST:
        return list(map(_restore, parts))
    if kind == _DICT:
        restored = list(map(_restore, parts))
        return dict(zip(restored[::2], restored[1::2], strict=True))
    if kind == _INSTANT:
        return Instant(*parts)
    if kind == _DELTA:
        return parts[0] * _MICROSECOND
    if kind == _ERROR:
        return error_named(*parts)
    msg = f"unknown kind {kind!r}"
    raise ValueError(msg)


_CLASSES: Final = {
    each.__name__: each
    for each in (UpsertError, KeyDecodeError, ValueDecodeError, NullKeyError, OrderKeyError)
}


def name_of(error: UpsertError) -> str:
    """Return the name that stores an error: its class's, or `UpsertError` for a user's subclass."""
    name = type(error).__name__
    return name if name in _CLASSES else UpsertError.__name__


def error_named(name: str, message: str) -> UpsertError:
    """Return the error that was stored under this name.

    Raises:
        KeyError: No class has that name.
    """
    return _CLASSES[name](message)


def text_of(error: UpsertError) -> str:
    """Return the text of an error, as in rows and states."""
    return f"{type(error).__name__}: {error}"


def error_of(text: Any) -> UpsertError:
    """Return the error that has this text; for any other text a `ValueDecodeError`."""
    name, _, message = str(text).partition(": ")
    return error_named(name, message) if name in _CLASSES else ValueDecodeError(str(text))
