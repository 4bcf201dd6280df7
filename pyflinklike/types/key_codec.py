# SPDX-License-Identifier: Apache-2.0
"""Keys as bytes that sort as the keys do, and back; and the type of undeclared keys.

A key is None, a bool, int, float, str, bytes, `Decimal`, date, time, datetime, or a tuple of these.
Every value starts with a byte that names its type.  So `1`, `1.0` and `True` are three keys.  Decoding
needs no schema, and never runs code that the data names.  Within one type the unsigned order of the
bytes is Python's order of the values:

| type     | after the type byte                                              |
|----------|------------------------------------------------------------------|
| bytes    | the bytes, 00 written as 00 FF, then 00                          |
| str      | UTF-8, ended likewise                                            |
| int      | the type byte holds sign and length, then big-endian magnitude   |
| float    | IEEE 754 big-endian, sign flipped (all bits if negative)         |
| tuple    | the elements, then 00 (a `None` inside is 00 FF)                 |
| date ... | the integer of days or microseconds, as an int                   |
| Decimal  | its text as a str: exact, but not in numeric order               |

The form is close to the tuple layer of FoundationDB
(https://github.com/apple/foundationdb/blob/main/design/tuple.md), which explains the escapes.

A harness takes any key that a selector returns.  Two keys are the same if their encodings are: `1`,
`1.0` and `True` are three keys, as in PyFlink, which groups undeclared keys by their bytes.
Strings, ints and bytes are kept as they are, because none of them can be equal to one of another type.
Any other key is kept encoded.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, ClassVar

import attrs
import pyarrow as pa

from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.types.type_information import TypeInformation

MAX_INT = (1 << 8 * 255) - 1
"""The largest int that can be a key; the smallest one is its negative."""

_NONE, _BYTES, _STR, _TUPLE = 0x00, 0x01, 0x02, 0x05
_INT_ZERO = 0x14
_INT_BIG_NEGATIVE, _INT_BIG_POSITIVE = 0x0B, 0x1D
# Ints of up to 8 bytes have the tags around _INT_ZERO: 0x0C for -8 bytes to 0x1C for 8 bytes.
_NATURAL_TAGS = tuple(bytes((_INT_ZERO + length,)) for length in range(9))
_NATURALS = 1 << 64
_FLOAT, _FALSE, _TRUE = 0x21, 0x26, 0x27
_DATE, _TIME, _DATETIME, _INSTANT, _DECIMAL = 0x33, 0x34, 0x35, 0x36, 0x38

_MOST_DEPTH = 50  # reading makes two Python calls per level, and bytes must not exhaust the stack

_MICROSECOND = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
_EPOCH_UTC = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# A datetime with an offset may lie outside in UTC, and decoding could not read it back.
_FIRST = (dt.datetime.min - _EPOCH) // _MICROSECOND
_LAST = (dt.datetime.max - _EPOCH) // _MICROSECOND

_RAW = (IndexError, struct.error, ValueError, ArithmeticError)
"""Errors that decoding damaged bytes may raise."""


def encode_key(key: Any) -> bytes:
    """Return the bytes of a key.

    Raises:
        StateValueError: The key or an element has another type, or tuples are nested too deeply.
    """
    # Most keys that are ints are of this kind, and this way takes a third of the time.
    if key.__class__ is int and 0 <= key < _NATURALS:
        length = (key.bit_length() + 7) // 8
        return _NATURAL_TAGS[length] + key.to_bytes(length, "big")
    out = bytearray()
    _encode(key, out, depth=0)
    return bytes(out)


def decode_key(data: bytes) -> Any:
    """Return the key that `encode_key` wrote as these bytes.

    Raises:
        CorruptStateError: The bytes are not one whole key.
    """
    try:
        key, end = _decode(data, 0)
    except _RAW as error:
        msg = f"a stored key must be one that encode_key wrote, got {short_repr(data)}"
        raise CorruptStateError(msg) from error
    if end != len(data):
        msg = f"a stored key must end where its value ends, got {short_repr(data)} with bytes left at {end}"
        raise CorruptStateError(msg)
    return key


def decode_first(data: bytes, at: int) -> tuple[Any, int]:
    """Return the key whose bytes begin at `at`, and where they end.

    The bytes behind a key must not begin with FF, because they would be read as part of it: a zero byte
    followed by FF is data in a str or bytes, or a None in a tuple, but not the end.

    Raises:
        CorruptStateError: No key begins there.
    """
    try:
        return _decode(data, at)
    except _RAW as error:
        msg = f"a stored key must be one that encode_key wrote, got {short_repr(data)} at {at}"
        raise CorruptStateError(msg) from error


def _encode(key: Any, out: bytearray, *, depth: int) -> None:
    if isinstance(key, str):
        try:
            _terminate(_STR, key.encode(), out)
        except UnicodeEncodeError as error:
            raise _lone_surrogates(key) from error
    elif isinstance(key, bool):
        out.append(_TRUE if key else _FALSE)
    elif isinstance(key, int):
        _encode_int(int(key), out)
    elif isinstance(key, bytes):
        _terminate(_BYTES, key, out)
    elif isinstance(key, tuple):
        if depth == _MOST_DEPTH:
            raise _too_deep()
        out.append(_TUPLE)
        for element in key:
            _encode(element, out, depth=depth + 1)
        out.append(0)
    elif isinstance(key, float):
        out.append(_FLOAT)
        # -0.0 + 0.0 is 0.0: equal floats are one key, and so are all NaN.
        out += _flip(struct.pack(">d", math.nan if key != key else key + 0.0))
    elif key is None:
        out += b"\x00\xff" if depth else b"\x00"  # in a tuple, 00 alone is the end
    else:
        _encode_temporal_or_decimal(key, out)


def _lone_surrogates(key: str) -> StateValueError:
    return StateValueError(
        f"a str key must be valid Unicode, got {short_repr(key)}; replace its lone surrogates"
    )


def _too_deep() -> StateValueError:
    return StateValueError(
        f"a tuple key must be nested at most {_MOST_DEPTH} deep, got one that is deeper; "
        "select one of its fields"
    )


def _encode_temporal_or_decimal(key: Any, out: bytearray) -> None:
    if isinstance(key, dt.datetime):
        out.append(_DATETIME if key.tzinfo is None else _INSTANT)
        epoch = _EPOCH if key.tzinfo is None else _EPOCH_UTC
        instant = (key - epoch) // _MICROSECOND
        if not _FIRST <= instant <= _LAST:  # a local time with an offset may lie outside
            msg = f"a datetime key must be in the years 1 to 9999 in UTC, got {short_repr(key)}; correct it"
            raise StateValueError(msg)
        _encode_int(instant, out)
    elif isinstance(key, dt.date):
        out.append(_DATE)
        _encode_int(key.toordinal(), out)
    elif isinstance(key, dt.time) and key.tzinfo is None:
        out.append(_TIME)
        seconds = (key.hour * 60 + key.minute) * 60 + key.second
        _encode_int(seconds * 1_000_000 + key.microsecond, out)
    elif isinstance(key, Decimal) and not key.is_snan():  # a signaling NaN cannot be hashed
        _terminate(_DECIMAL, str(_normalize(key)).encode(), out)
    else:
        msg = (
            "a key must be a str, int, float, bool, bytes, Decimal, date, time, datetime or a "
            f"tuple of these, got {short_repr(key)} ({type(key).__name__}); select one of its fields, or "
            "declare the key type Types.PICKLED_BYTE_ARRAY()"
        )
        raise StateValueError(msg)


def _normalize(key: Decimal) -> Decimal:
    """Return the same form for equal numbers; `Decimal.normalize` would round to the context."""
    if not key:
        return Decimal(0)
    if not key.is_finite():
        return key
    sign, digits, exponent = key.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return Decimal((sign, digits[: len(digits) - zeros], int(exponent) + zeros))


def _terminate(tag: int, data: bytes, out: bytearray) -> None:
    out.append(tag)
    out += data.replace(b"\x00", b"\x00\xff")
    out.append(0)


def _encode_int(value: int, out: bytearray) -> None:
    magnitude = abs(value)
    length = (magnitude.bit_length() + 7) // 8
    if length > 8:
        if length > 255:
            msg = f"an int key must fit in 255 bytes, got one of {length} bytes"
            raise StateValueError(msg)
        out.append(_INT_BIG_POSITIVE if value > 0 else _INT_BIG_NEGATIVE)
        out.append(length if value > 0 else 255 - length)
    else:
        out.append(_INT_ZERO + (length if value > 0 else -length))
    if value < 0:
        # The complement lets the smaller of two negative ints have the smaller bytes.
        magnitude = (1 << 8 * length) - 1 - magnitude
    out += magnitude.to_bytes(length, "big")


def _decode(data: bytes, at: int, depth: int = 0) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    if tag == _STR:
        raw, at = _read_terminated(data, at)
        return raw.decode(), at
    if _INT_BIG_NEGATIVE <= tag <= _INT_BIG_POSITIVE:
        return _decode_int(data, at - 1)
    if tag == _BYTES:
        return _read_terminated(data, at)
    if tag == _TUPLE:
        return _decode_tuple(data, at, depth + 1)
    if tag == _FLOAT:
        return struct.unpack(">d", _unflip(data[at : at + 8]))[0], at + 8
    if tag in (_FALSE, _TRUE):
        return tag == _TRUE, at
    if tag == _NONE:
        return None, at
    if tag == _DECIMAL:
        raw, at = _read_terminated(data, at)
        return Decimal(raw.decode()), at
    return _decode_temporal(tag, data, at)


def _decode_temporal(tag: int, data: bytes, at: int) -> tuple[Any, int]:
    number, at = _decode_int(data, at)
    if tag == _DATE:
        return dt.date.fromordinal(number), at
    if tag == _TIME:
        return (_EPOCH + number * _MICROSECOND).time(), at
    if tag == _DATETIME:
        return _EPOCH + number * _MICROSECOND, at
    if tag == _INSTANT:
        return _EPOCH_UTC + number * _MICROSECOND, at
    msg = f"unknown type byte {tag:#x}"
    raise ValueError(msg)


def _decode_tuple(data: bytes, at: int, depth: int) -> tuple[tuple[Any, ...], int]:
    if depth > _MOST_DEPTH:
        msg = f"more than {_MOST_DEPTH} tuples within one another"
        raise ValueError(msg)
    elements: list[Any] = []
    while True:
        if data[at] == _NONE:
            if data[at + 1 : at + 2] != b"\xff":
                return tuple(elements), at + 1
            elements.append(None)
            at += 2
        else:
            element, at = _decode(data, at, depth)
            elements.append(element)


def _decode_int(data: bytes, at: int) -> tuple[int, int]:
    tag = data[at]
    at += 1
    negative = tag < _INT_ZERO
    if tag in (_INT_BIG_NEGATIVE, _INT_BIG_POSITIVE):
        length = 255 - data[at] if negative else data[at]
        at += 1
    else:
        length = abs(tag - _INT_ZERO)
    raw = data[at : at + length]
    if len(raw) != length:
        msg = "an int is cut short"
        raise ValueError(msg)
    magnitude = int.from_bytes(raw, "big")
    return magnitude - (1 << 8 * length) + 1 if negative else magnitude, at + length


def _read_terminated(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.index(b"\x00", end)
        if data[end + 1 : end + 2] != b"\xff":
            return data[at:end].replace(b"\x00\xff", b"\x00"), end + 1
        end += 2


def _flip(packed: bytes) -> bytes:
    if packed[0] & 0x80:
        return bytes(byte ^ 0xFF for byte in packed)
    return bytes((packed[0] ^ 0x80,)) + packed[1:]


def _unflip(packed: bytes) -> bytes:
    if packed[0] & 0x80:
        return bytes((packed[0] ^ 0x80,)) + packed[1:]
    return bytes(byte ^ 0xFF for byte in packed)


# Keys without a declared type

_PLAIN = frozenset((str, int, bytes))


@attrs.frozen
class EncodedKey:
    """A key as its bytes; it is never equal to a key that is kept as it is."""

    data: bytes


@attrs.frozen(repr=False)
class AnyKeyTypeInfo(TypeInformation):
    """Keys of any type that `encode_key` takes."""

    shown: ClassVar[str] = "AnyKeyTypeInfo"
    takes: ClassVar[str] = (
        "a str, int, float, bool, bytes, Decimal, date, time, datetime or a tuple of these"
    )

    arrow_type: pa.DataType = attrs.field(init=False, eq=False, default=pa.binary())

    @property
    def is_identity(self) -> bool:
        """False: some keys are kept encoded."""
        return False

    def freeze(self, value: Any) -> Any:
        """Return the key itself, or its encoding."""
        kind = type(value)
        if kind is str and value.isascii():
            return value
        if kind is bytes or (kind is int and -MAX_INT <= value <= MAX_INT):
            return value
        # Encoding checks any other key and gives equal keys one form: an enum of str becomes its
        # value, and a lone surrogate is refused.
        if value is None:
            raise self._misfit(value, "a key is never None")
        encoded = encode_key(value)
        plain = decode_key(encoded)
        return plain if type(plain) in _PLAIN else EncodedKey(encoded)

    freeze_key = freeze

    def thaw(self, stored: Any) -> Any:
        """Return the key."""
        return decode_key(stored.data) if type(stored) is EncodedKey else stored

    def to_arrow(self, stored: Sequence[Any]) -> pa.Array:
        """Write a binary column of encoded keys."""
        encoded = [key.data if type(key) is EncodedKey else encode_key(key) for key in stored]
        return pa.array(encoded, pa.binary())

    def from_arrow(self, column: pa.Array) -> list[Any]:
        """Read the keys of a binary column."""
        return [self.freeze(decode_key(data)) for data in column.to_pylist()]


ANY_KEY = AnyKeyTypeInfo().signature
