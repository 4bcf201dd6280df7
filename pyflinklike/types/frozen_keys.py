# SPDX-License-Identifier: Apache-2.0
"""Frozen keys as bytes in order, as RocksDB has them, and back; and the key group of a key.

`pyflinklike.types.key_codec` does most of the work.  Types also freeze keys to forms that it does not
take.  Here each of these forms has a tag that the codec does not use:

| tag  | form          | after it                                        |
|------|---------------|-------------------------------------------------|
| 03   | None          |                                                 |
| 05   | tuple         | the elements, then 00                           |
| 06   | `Row`         | its names as a tuple, then as a tuple           |
| 07   | `Pickled`     | the bytes, 00 written as 00 FF, then 00         |
| 08   | `EncodedKey`  | likewise                                        |
| 09   | `Instant`     | seconds and nanos                               |
| 0A   | int           | its digits as a str, from 2^2000 on             |

No encoding is a longer encoding's beginning, up to a byte below FF.  So the range from a key's bytes to
the same bytes plus FF holds exactly the entries of that key.

The hash of a key is CRC-32 of these bytes; it need not be Flink's, because only pyflinklike reads the
keys of its jobs.  Neither the bytes nor the hash may change: a checkpoint finds its keys by them, and
every host must spread a job in the same way.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Hashable, Sequence
from math import nan
from typing import Any

from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.types.key_codec import EncodedKey, decode_first, encode_key
from pyflinklike.types.pickled_type import Pickled
from pyflinklike.types.row import Row, row_class
from pyflinklike.types.time_types import Instant

_BYTES, _STR, _NONE, _TUPLE, _ROW, _PICKLED, _ENCODED, _INSTANT, _LONG_INT = (
    *(1, 2, 3),
    *range(5, 11),
)
_LONGEST_INT = 1 << 2000  # the codec takes ints of 255 bytes, which is 2040 bits


def encode(value: Any) -> bytes:
    """Return the bytes of a frozen key; equal keys have equal bytes.

    Raises:
        StateValueError: Types never freeze a key to such a value.
    """
    kind = type(value)
    if kind is str:
        try:
            text: bytes = value.encode()
        except UnicodeEncodeError:
            # A type may accept a lone surrogate, which only this error handler writes and reads back.
            text = value.encode("utf-8", "surrogatepass")
        if b"\x00" not in text:
            return b"\x02" + text + b"\x00"
        return _terminate(_STR, text)
    # Texts and ints come first, because most keys are one of these.
    if kind is int and -_LONGEST_INT < value < _LONGEST_INT:
        return encode_key(value)
    if value is None:
        return bytes((_NONE,))
    if kind is tuple:
        return b"\x05" + b"".join(map(encode, value)) + b"\x00"
    return _encode_rare(value)


def encode_many(values: Sequence[Any], prefix: bytes) -> list[bytes]:
    """Return the bytes of many frozen keys, each behind a prefix; texts take half the time.

    Raises:
        StateValueError: Types never freeze a key to such a value.
    """
    if set(map(type, values)) == {str} and "\x00" not in "".join(values):
        start = prefix + b"\x02"
        with contextlib.suppress(UnicodeEncodeError):
            return [start + value.encode() + b"\x00" for value in values]
    return [prefix + encode(value) for value in values]


def _encode_rare(value: Any) -> bytes:
    kind = type(value)
    if isinstance(value, Row):
        names = encode(tuple(value._fields))
        return bytes((_ROW,)) + names + encode(tuple(value))
    if kind is Pickled:
        return _terminate(_PICKLED, bytes(value))
    if kind is EncodedKey:
        return _terminate(_ENCODED, value.data)
    if kind is Instant:
        return bytes((_INSTANT,)) + encode_key(value.seconds) + encode_key(value.nanos)
    if kind is int:
        return bytes((_LONG_INT,)) + encode(hex(value))
    try:
        return encode_key(value)
    except StateValueError as error:
        msg = (
            "EmbeddedRocksDBStateBackend keeps keys of pyflinklike's own types, "
            f"got {short_repr(value)} ({type(value).__name__}); use HashMapStateBackend"
        )
        raise StateValueError(msg) from error


def _terminate(tag: int, data: bytes) -> bytes:
    return bytes((tag,)) + data.replace(b"\x00", b"\x00\xff") + b"\x00"


def decode(data: bytes, at: int) -> tuple[Any, int]:
    """Return the frozen key whose bytes begin at `at`, and where they end.

    Raises:
        CorruptStateError: `encode` did not write these bytes.
    """
    tag = data[at] if at < len(data) else -1
    if tag == _STR:
        text, at = _read_terminated(data, at + 1)
        return text.decode("utf-8", "surrogatepass"), at
    if tag == _TUPLE:
        return _decode_tuple(data, at + 1)
    if tag == _ROW:
        names, at = decode(data, at + 1)
        values, at = decode(data, at)
        return row_class(names)._make(values), at
    if tag == _NONE:
        return None, at + 1
    if tag in (_PICKLED, _ENCODED):
        raw, at = _read_terminated(data, at + 1)
        return (Pickled(raw) if tag == _PICKLED else EncodedKey(raw)), at
    if tag == _INSTANT:
        seconds, at = decode_first(data, at + 1)
        nanos, at = decode_first(data, at)
        return Instant(seconds, nanos), at
    if tag == _LONG_INT:
        text, at = decode(data, at + 1)
        return int(text, 16), at
    value, at = decode_first(data, at)
    # A dict finds a NaN only if it is the very object that types freeze every NaN to.
    return (value if value == value else nan), at


def decode_many(raws: Sequence[bytes], at: int) -> list[Any]:
    """Return the frozen keys whose bytes go from `at` to the end.

    Raises:
        CorruptStateError: `encode` did not write these bytes.
    """
    first = at + 1
    try:
        return [
            # The only zero byte ends the text, so nothing in it is escaped.
            raw[first:-1].decode()
            if raw[at] == _STR and raw.find(b"\x00", first) == len(raw) - 1
            else decode(raw, at)[0]
            for raw in raws
        ]
    except UnicodeDecodeError:  # a lone surrogate
        return [decode(raw, at)[0] for raw in raws]


def _decode_tuple(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    elements: list[Any] = []
    while data[at : at + 1] != b"\x00":
        element, at = decode(data, at)
        elements.append(element)
    return tuple(elements), at + 1


def _read_terminated(data: bytes, at: int) -> tuple[bytes, int]:
    end = at
    while True:
        end = data.find(b"\x00", end)
        if end < 0:
            msg = (
                f"a stored key must end with 00, got {short_repr(data)}; delete the local directory"
            )
            raise CorruptStateError(msg)
        if data[end + 1 : end + 2] != b"\xff":
            return data[at:end].replace(b"\x00\xff", b"\x00"), end + 1
        end += 2


def key_group_of(key: Hashable, max_parallelism: int) -> int:
    """Return the key group of a key of a job.

    Args:
        key: The key in the form that its type freezes it to.
        max_parallelism: The number of key groups.

    Raises:
        StateValueError: Types never freeze a key to such a value.
    """
    return zlib.crc32(encode(key)) % max_parallelism


def with_the_one_nan(key: Any) -> Any:
    """Return a key out of a pickle as its type froze it.

    NaN can be a key because every NaN is the object `math.nan`; unpickling makes another object.

    Args:
        key: The frozen key, as it was unpickled.
    """
    if key.__class__ is float:
        return key if key == key else nan
    if isinstance(key, tuple):
        return tuple(map(with_the_one_nan, key))
    return key
