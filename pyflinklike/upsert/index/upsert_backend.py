# SPDX-License-Identifier: Apache-2.0
"""The storage of upsert state: a map from keys to states, with bulk methods.

A backend knows neither the meaning of a state nor time.  It puts, gets and, if it can, merges many
keys at once, and returns by how much that changed the size.

* The keys of one `multi_get` differ; the results are parallel to them.
* Of several puts of one key in one `multi_put` the last one counts.
* Keys and states that cannot be encoded are refused before anything is written; a put or merge that
  fails has written nothing.
* A state is charged for its bytes.  Only a sketch (`Consolidating`) is charged for the value it
  will become: (length + 1) times its diff.  So sizes are added up without reading the state before,
  are the same in every backend, and stay the same when a collection is complete and its sketches
  become values.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from pyflinklike._messages import shown
from pyflinklike.errors import CorruptStateError, StateValueError, StoreClosedError, StoreValueError
from pyflinklike.upsert.index.difference_sketch import Consolidating
from pyflinklike.upsert.index.upsert_values import (
    FinalizedValue,
    MergeStats,
    MergeValue,
    ProvisionalValue,
    PutStats,
    PutValue,
    StateValue,
    Tombstone,
    UpsertValueAndSize,
    ValueMetadata,
)
from pyflinklike.upsert.index.value_codec import (
    decode_from,
    decode_value,
    encode_upsert_key,
    encode_value,
)

__all__ = [
    "UpsertBackend",
    "check_open",
    "decode_state",
    "distinct_keys",
    "encode_state",
    "make_result",
    "prepare_puts",
    "size_of",
    "total_of",
]


Handle = TypeVar("Handle")
Write = tuple[bytes, "bytes | None"]
"""A key, and the bytes of its state, or None to remove it."""


@runtime_checkable
class UpsertBackend(Protocol):
    """The bulk methods, as Materialize's `UpsertStateBackend`.

    All methods raise a `StoreClosedError` once the backend is closed.
    """

    @property
    def supports_merge(self) -> bool:
        """True where `multi_merge` works, so that differences can be added without reading."""

    def multi_get(self, keys: Sequence[Any]) -> list[UpsertValueAndSize]:
        """Return the state of each key.

        Raises:
            StoreValueError: A key comes twice.
            StateValueError: A key is None, or of a type that cannot be encoded.
        """

    def multi_put(self, puts: Iterable[tuple[Any, PutValue]]) -> PutStats:
        """Put or remove states, and return what that changed.

        Raises:
            StateValueError: A key or state cannot be encoded; nothing was written.
        """

    def multi_merge(self, merges: Iterable[tuple[Any, MergeValue]]) -> MergeStats:
        """Add states to the stored ones, without reading these.

        Raises:
            NotImplementedError: The backend cannot merge.
            StateValueError: A key or state cannot be encoded; nothing was written.
        """

    def totals(self) -> PutStats:
        """Read all states, and return totals as if they had been put into an empty backend."""

    def close(self) -> None:
        """Release the memory or the files; a second call does nothing."""


def check_open(handle: Handle | None, what: str) -> Handle:
    """Return the handle itself.

    Raises:
        StoreClosedError: The handle is None, so the backend is closed.
    """
    if handle is None:
        msg = f"{what} can be used until it is closed, got a call after close(); make another one"
        raise StoreClosedError(msg)
    return handle


def distinct_keys(keys: Sequence[Any]) -> list[bytes]:
    """Return keys as bytes.

    Raises:
        StoreValueError: A key comes twice.
        StateValueError: A key cannot be encoded.
    """
    encoded = [encode_upsert_key(key) for key in keys]
    if len(set(encoded)) < len(encoded):
        seen: set[bytes] = set()
        double = next(k for k, e in zip(keys, encoded) if e in seen or seen.add(e))  # type: ignore[func-returns-value]
        msg = f"the keys of one multi_get must differ, got {shown(double)} twice; ask for it once"
        raise StoreValueError(msg)
    return encoded


def make_result(data: bytes | None) -> UpsertValueAndSize:
    """Make the result of `multi_get` from the bytes of a key's state."""
    if data is None:
        return UpsertValueAndSize(None, None)
    state = decode_state(data)
    return UpsertValueAndSize(state, metadata_of(state, data))


def prepare_puts(puts: Iterable[tuple[Any, PutValue]]) -> tuple[list[Write], PutStats]:
    """Return puts as bytes, and what they will change; nothing is written yet.

    Raises:
        StateValueError: A key or state cannot be encoded.
    """
    writes: list[Write] = []
    stats = PutStats()
    put_before: dict[bytes, ValueMetadata | None] = {}
    for key, put in puts:
        if not isinstance(put, PutValue):
            msg = (
                f"multi_put takes (key, PutValue(value, previous_value_metadata)), got {shown(put)}"
            )
            raise StateValueError(f"{msg}; give what multi_get returned for the key")
        data = None if put.value is None else encode_state(put.value)
        new = None if put.value is None or data is None else metadata_of(put.value, data)
        encoded = encode_upsert_key(key)
        stats.processed_puts += 1
        # The second put of a key replaces the first, not what was there before both.
        stats.adjust(new, put_before.get(encoded, put.previous_value_metadata))
        put_before[encoded] = new
        writes.append((encoded, data))
    return writes, stats


def total_of(states: Iterable[bytes]) -> PutStats:
    """Return the totals of states."""
    stats = PutStats()
    for data in states:
        stats.processed_puts += 1
        stats.adjust(metadata_of(decode_state(data), data), None)
    return stats


RECORD_OVERHEAD: Final = 1
"""Bytes that a record without an order key is charged for, besides those of its value."""

# States as bytes: a letter, and the parts of the state
#
#     F  value                       a FinalizedValue without an order key
#     f  order, value                one with
#     T                              a Tombstone without an order key
#     t  order                       one with
#     P  (finalized, provisional)    a ProvisionalValue
#     C  len, checksum, diff, xor    a Consolidating


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
