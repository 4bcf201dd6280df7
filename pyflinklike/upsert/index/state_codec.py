# SPDX-License-Identifier: Apache-2.0
"""Encodes the states of keys, and computes the size that they are charged for.

    F  value                       a FinalizedValue without an order key
    f  order, value                one with
    T                              a Tombstone without an order key
    t  order                       one with
    P  (finalized, provisional)    a ProvisionalValue
    C  len, checksum, diff, xor    a Consolidating

A state is charged for its bytes.  Only a sketch (`Consolidating`) is charged for the value it will
become: (length + 1) times its diff.  So sizes are added up without reading the state before, are
the same in every backend, and stay the same when a collection is complete and its sketches become
values.
"""

from __future__ import annotations

import struct
from typing import Final

from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.shown import shown
from pyflinklike.upsert.index.sketch import Consolidating
from pyflinklike.upsert.index.value_codec import decode_from, decode_value, encode_value
from pyflinklike.upsert.index.values import (
    FinalizedValue,
    ProvisionalValue,
    StateValue,
    Tombstone,
    ValueMetadata,
)

__all__ = ["RECORD_OVERHEAD", "decode_state", "encode_state", "metadata_of", "size_of"]

RECORD_OVERHEAD: Final = 1
"""Bytes that a record without an order key is charged for, besides those of its value."""

_SUMS = struct.Struct(">qqq")
_VALUE, _ORDERED, _GONE, _GONE_ORDERED = b"F", b"f", b"T", b"t"
_PROVISIONAL, _CONSOLIDATING = b"P", b"C"


def encode_state(state: StateValue) -> bytes:
    """Return the bytes of a state.

    Raises:
        StateValueError: It is not a state, or a value or order key in it cannot be encoded.
    """
    if isinstance(state, FinalizedValue):
        value = encode_value(state.value)
        return (
            _VALUE + value if state.order is None else _ORDERED + encode_value(state.order) + value
        )
    if isinstance(state, Tombstone):
        return _GONE if state.order is None else _GONE_ORDERED + encode_value(state.order)
    if isinstance(state, Consolidating):
        sums = _SUMS.pack(state.len_sum, state.checksum_sum, state.diff_sum)
        return _CONSOLIDATING + sums + state.value_xor
    if isinstance(state, ProvisionalValue):
        return _PROVISIONAL + encode_value((state.finalized, state.provisional))
    msg = (
        "a state is a FinalizedValue, Tombstone, ProvisionalValue or Consolidating, "
        f"got {shown(state)}; wrap a value in FinalizedValue(value, order)"
    )
    raise StateValueError(msg)


def decode_state(data: bytes) -> StateValue:
    """Return the state that `encode_state` encoded to these bytes.

    Raises:
        CorruptStateError: The bytes are not a state.
    """
    kind = data[:1]
    if kind == _VALUE:
        return FinalizedValue(decode_value(data[1:]), None)
    if kind == _ORDERED:
        order, end = decode_from(data, 1)
        return FinalizedValue(decode_value(data[end:]), order)
    if kind == _GONE:
        return Tombstone(None)
    if kind == _GONE_ORDERED:
        return Tombstone(decode_value(data[1:]))
    if kind == _CONSOLIDATING and len(data) > _SUMS.size:
        length, checksum, diff = _SUMS.unpack_from(data, 1)
        return Consolidating(data[1 + _SUMS.size :], length, checksum, diff)
    if kind == _PROVISIONAL:
        return ProvisionalValue(*decode_value(data[1:]))
    msg = f"a stored state must be one that encode_state wrote, got {shown(data)}"
    raise CorruptStateError(msg)


def size_of(data: bytes) -> int:
    """Return how many bytes an encoded state is charged for."""
    if data[:1] == _CONSOLIDATING:
        length, _, diff = _SUMS.unpack_from(data, 1)
        return int(length + diff * RECORD_OVERHEAD)
    return len(data)


def metadata_of(state: StateValue, data: bytes) -> ValueMetadata:
    """Return the size of a state, and whether it is a tombstone."""
    return ValueMetadata(size_of(data), state.is_tombstone)
