# SPDX-License-Identifier: Apache-2.0
"""Encodes the rows and keys of a view, and decodes them as they were put in.

A view's file is treated as untrusted.  So rows are not pickled: they are plain values, as
`pyflinklike.types.plain_values` writes them, which cannot run code.  An error in the place of a row is one more
extension of msgpack, with the code 10 and the error as a value.

Each row is stored with its names, so the schema of a view's rows may change.  Encoded keys sort as their
values do.
"""

from __future__ import annotations

from typing import Any

import attrs
import msgspec

from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, StateValueError, ValueDecodeError
from pyflinklike.types.key_codec import decode_key, encode_key
from pyflinklike.types.plain_values import DAMAGE, FIRST_FREE_CODE, encode_plain, plain_decoder

_MOST_BYTES = 999_000_000  # SQLite's limit is 1,000,000,000 for a line, key and checksum included


@attrs.frozen
class Failure:
    """Stands in place of a row that the feed could not decode.

    Args:
        error: The feed's description of the error.
    """

    error: Any

    def make_error(self, key: Any) -> ValueDecodeError:
        """Return the error for a read of the row of this key."""
        msg = f"the row of key {short_repr(key)} must be decodable, got: {short_repr(self.error)}"
        return ValueDecodeError(f"{msg}; send a good one")


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
            f"or a tuple of these, got {short_repr(part)}: {error}; choose other key columns"
        )
        raise StateValueError(msg) from error


def from_key_bytes(data: bytes) -> Any:
    """Return the key that was encoded to these bytes; a struct is a plain tuple."""
    return decode_key(data)


def encode_row(row: Any) -> bytes:
    """Return the bytes of a row, or of a plain value.

    Raises:
        StateValueError: The row holds a value that a Spark row cannot hold, is nested too deeply, or
            is too large.
    """
    try:
        data = _encode_failure(row) if isinstance(row, Failure) else encode_plain(row)
    except (UnicodeEncodeError, OverflowError, ValueError) as error:
        msg = f"a view holds valid Unicode and values of less than 4 GB, got {short_repr(row)}: {error}"
        raise StateValueError(f"{msg}; mend the row") from error
    if len(data) > _MOST_BYTES:
        msg = f"a view holds rows of less than 1 GB, got one of {len(data):,} bytes: {short_repr(row)}"
        raise StateValueError(f"{msg}; split it, or keep it elsewhere")
    return data


def _encode_failure(failure: Failure) -> bytes:
    error = encode_plain(failure.error)
    return msgspec.msgpack.encode(msgspec.msgpack.Ext(FIRST_FREE_CODE, error))


_decode_error = plain_decoder({})
_decode = plain_decoder({FIRST_FREE_CODE: lambda data: Failure(_decode_error(data))})


def decode_row(data: bytes) -> Any:
    """Return the row that `encode_row` wrote as these bytes; a new object each time.

    Raises:
        CorruptStateError: The bytes are damaged.
    """
    try:
        return _decode(data)
    except DAMAGE as error:
        msg = f"a stored row must be one that a view wrote, got {short_repr(data)}: {error}; restore the file"
        raise CorruptStateError(msg) from error
