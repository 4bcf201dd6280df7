# SPDX-License-Identifier: Apache-2.0
"""The user keys of stores as columns: the key, and the numbers before and behind it.

Numbers have a fixed size, so they are cut out as columns; so are strings and bytes.  Keys of other
types are decoded one by one, each distinct key once.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.replay.values import shown, shown_type
from pyflinklike.stores.codec import INT_SIZE, KeyCodec
from pyflinklike.types import TypeInformation, Types

__all__ = ["number_at", "store_keys"]

_SIGN = -(2**63)
_NUMBER = 8


def number_at(user_keys: Any, at: int) -> Any:
    """Return the numbers at a place of each user key, as int64.

    Args:
        user_keys: A binary array without nulls.
        at: Where the numbers begin, in bytes; counted from the end if negative.
    """
    end = at + INT_SIZE
    parts = pc.binary_slice(user_keys, at + 1, end if end else None)
    if not len(parts):
        return pa.array([], pa.int64())
    data = b"".join(parts.to_pylist()) if parts.offset else _data(parts)
    # The bytes are big-endian: read backwards they are little-endian, the last number first.
    backwards = pa.Array.from_buffers(pa.int64(), len(parts), [None, pa.py_buffer(data[::-1])])
    numbers = backwards.take(pa.array(range(len(parts) - 1, -1, -1), pa.int64()))
    return pc.bit_wise_xor(numbers, pa.scalar(_SIGN, pa.int64()))


def _data(parts: Any) -> bytes:
    data = parts.buffers()[2].to_pybytes()[: _NUMBER * len(parts)]
    if len(data) != _NUMBER * len(parts):
        msg = "a number of a store's key that is cut short"
        raise ValueError(msg)
    return bytes(data)


def _without_ends(column: Any, before: int, behind: int) -> Any:
    """Cut bytes off the beginning and the end of each value."""
    if behind or not before:
        return pc.binary_slice(column, before, -behind) if behind else column
    # Arrow fails where a slice without an end begins behind the first byte.
    longest = pc.max(pc.binary_length(column)).as_py()
    return pc.binary_slice(column, before, longest or before)


def store_keys(
    user_keys: Any, key_type: TypeInformation, before: int, behind: int, *, saved: bool
) -> Any:
    """Return the keys of a store's entries, as they are shown.

    Args:
        user_keys: A binary array without nulls.
        key_type: Type of the store's keys.
        before: Number of numbers before the key.
        behind: Number of numbers behind it.
        saved: Whether the keys are for a savepoint.
    """
    encoded = _without_ends(user_keys, before * INT_SIZE, behind * INT_SIZE)
    if key_type == Types.STRING() or key_type == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        plain = pc.binary_slice(encoded, 1, -1)  # between the type and the end
        if not pc.any(pc.greater_equal(pc.find_substring(plain, b"\x00"), 0)).as_py():
            return plain.cast(shown_type(key_type, saved=saved))
    codec = KeyCodec("", key_type)
    each = encoded.dictionary_encode()
    thawed = [codec.decode(data)[0] for data in each.dictionary.to_pylist()]
    keys = key_type.to_arrow([key_type.freeze_key(key) for key in thawed])
    return shown(keys.take(each.indices), key_type, saved=saved)
