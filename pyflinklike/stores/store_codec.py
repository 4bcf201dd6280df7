# SPDX-License-Identifier: Apache-2.0
"""The keys of stores as bytes that sort as the keys do, and back.

A store puts its entries under composite keys such as (key, window start), so a range of bytes is a
range of keys and times.  For keys of one type, the unsigned order of the bytes is Python's order,
even for negative numbers.  Times and other numbers take 9 bytes, a tag and 64 bits, so numbers that
follow a key can be read from the end.  No part begins with the byte FF, so the range from k to
k + FF has exactly the keys that begin with the part k.
"""

from __future__ import annotations

import struct
from typing import Any

from pyflinklike._changelog.damage import RAW_ERRORS, RESTORE_ADVICE
from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, DeclarationTypeError, StateValueError
from pyflinklike.types import Instant, RowTypeInfo, TupleTypeInfo, TypeInformation
from pyflinklike.types.basic_types import (
    BigIntTypeInfo,
    BooleanTypeInfo,
    DoubleTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
)
from pyflinklike.types.key_codec import decode_first, encode_key
from pyflinklike.types.nested_types import ByteArrayTypeInfo
from pyflinklike.types.time_types import (
    DateTypeInfo,
    InstantTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
)

LAST = b"\xff"
"""A byte above the first byte of every part, as the end of a range."""

_INT = struct.Struct(">BQ")
_INT_TAG = 0x14
_BIAS = 1 << 63

INT_SIZE = _INT.size
"""The number of bytes that a number takes."""

_ORDERED = (
    BigIntTypeInfo,
    BooleanTypeInfo,
    ByteArrayTypeInfo,
    DateTypeInfo,
    DoubleTypeInfo,
    InstantTypeInfo,
    IntegralTypeInfo,
    StringTypeInfo,
    TimeTypeInfo,
    TimestampTypeInfo,
)


def check_key_type(store: str, key_type: TypeInformation) -> None:
    """Refuse a type whose values cannot be written as bytes in their order.

    Raises:
        DeclarationTypeError: The type is without such an order, or contains a type without one.
    """
    if isinstance(key_type, TupleTypeInfo):
        for part in key_type.field_types:
            check_key_type(store, part)
    elif not isinstance(key_type, _ORDERED):
        msg = (
            f"store {store!r}: a key must be of a type with an order: numbers but BIG_DEC, STRING, "
            f"bytes, dates and times, and TUPLE or ROW of these; got {key_type!r}; "
            "select a field of it, or write it as text"
        )
        raise DeclarationTypeError(msg)


def encode_int(value: int) -> bytes:
    """Return a number as bytes; it may also be a bound of a range.

    A bound below 64 bits becomes the least number, and a bound above them is above all numbers.
    """
    # Adding the bias maps signed numbers to unsigned ones in the same order.
    if value >= _BIAS:
        return LAST
    return _INT.pack(_INT_TAG, max(value + _BIAS, 0))


def read_int(data: bytes, at: int) -> int:
    """Return the number whose bytes begin at `at`; a negative `at` counts from the end.

    Raises:
        CorruptStateError: The bytes at this position are not a number.
    """
    at = at if at >= 0 else len(data) + at
    try:
        tag, value = _INT.unpack_from(data, at)
    except struct.error:
        tag = None
    if at < 0 or tag != _INT_TAG:
        msg = f"a store's entry must have its numbers at their places, got {short_repr(data)}"
        raise CorruptStateError(f"{msg}; {RESTORE_ADVICE}")
    return int(value) - _BIAS


class KeyCodec:
    """The keys of one type as bytes, and back.

    Args:
        store: The name of the store, for messages.
        key_type: The type of the keys, which `check_key_type` accepts.
    """

    def __init__(self, store: str, key_type: TypeInformation) -> None:
        self._store = store
        self._type = key_type
        self._freeze = key_type.freeze_key
        self._thaw = None if key_type.is_identity else key_type.thaw_key
        self._is_plain = _is_plain(key_type)

    def encode(self, key: Any) -> bytes:
        """Return the bytes of a key.

        Raises:
            StateValueError: The key is None or does not fit the type.
        """
        if key is None:
            msg = f"store {self._store!r}: key must not be None, got None; give it a value"
            raise StateValueError(msg)
        try:
            frozen = self._freeze(key)
            return encode_key(frozen if self._is_plain else _plain(frozen))
        except StateValueError as error:
            msg = f"store {self._store!r}: {error}"
            raise StateValueError(msg) from None

    def decode(self, data: bytes, at: int = 0) -> tuple[Any, int]:
        """Return the key whose bytes begin at `at`, and the position after them.

        Raises:
            CorruptStateError: The bytes are not a key of the type.
        """
        try:
            value, end = decode_first(data, at)
            if not self._is_plain:
                value = _restore(self._type, value)
            elif value is None or self._thaw is None:
                self._freeze(value)  # refuses a value of another type
            return (value if self._thaw is None else self._thaw(value)), end
        except RAW_ERRORS as error:
            rule = f"store {self._store!r}: the key of an entry must be as the store writes it"
            msg = f"{rule}, got {short_repr(data)}; {RESTORE_ADVICE}"
            raise CorruptStateError(msg) from error

    def prefix(self, prefix: Any) -> tuple[bytes, bytes]:
        """Return the range of the keys that begin with a prefix.

        A prefix of a str or bytes is its first characters or bytes.  A prefix of a tuple is its
        first fields.  A prefix of any other key is the key itself.

        Raises:
            StateValueError: The prefix is None or does not fit the type.
        """
        kind = self._type
        if isinstance(kind, TupleTypeInfo) and isinstance(prefix, tuple):
            part = TupleTypeInfo(kind.field_types[: len(prefix)])
            if len(prefix) <= len(kind.field_types):
                begin = KeyCodec(self._store, part).encode(prefix)[:-1]
                return begin, begin + LAST
        begin = self.encode(prefix)
        if isinstance(kind, (StringTypeInfo, ByteArrayTypeInfo)):
            return begin[:-1], _after(begin[:-1])
        return begin, begin + b"\x00"


def _after(prefix: bytes) -> bytes:
    """Return the first bytes above all bytes with this prefix."""
    # The first byte is a type tag and never FF, so something is always left to count up.
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))


def _is_plain(key_type: TypeInformation) -> bool:
    return not isinstance(key_type, (TupleTypeInfo, InstantTypeInfo))


def _plain(frozen: Any) -> Any:
    """Replace each `Instant` in a frozen key, because the key codec does not know the class."""
    if type(frozen) is Instant:
        return frozen.seconds, frozen.nanos
    if isinstance(frozen, tuple):
        return tuple(map(_plain, frozen))
    return frozen


def _restore(key_type: TypeInformation, plain: Any) -> Any:
    if plain is None:
        return None
    if isinstance(key_type, TupleTypeInfo):
        parts = [_restore(each, part) for each, part in zip(key_type.field_types, plain)]
        # The fields of a row are frozen already.
        return key_type.freeze_key(parts) if isinstance(key_type, RowTypeInfo) else tuple(parts)
    if isinstance(key_type, InstantTypeInfo):
        return Instant(*plain)
    return plain
