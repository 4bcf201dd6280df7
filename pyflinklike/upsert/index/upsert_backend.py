# SPDX-License-Identifier: Apache-2.0
"""The storage of upsert state: a map from keys to states, with bulk methods.

A backend knows neither the meaning of a state nor time.  It puts, gets and, if it can, merges many
keys at once, and returns by how much that changed the size.

* The keys of one `multi_get` differ; the results are parallel to them.
* Of several puts of one key in one `multi_put` the last one counts.
* Keys and states that cannot be encoded are refused before anything is written; a put or merge that
  fails has written nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from pyflinklike.errors import StateValueError, StoreClosedError, StoreValueError
from pyflinklike.shown import shown
from pyflinklike.upsert.index.state_codec import decode_state, encode_state, metadata_of
from pyflinklike.upsert.index.statistics import MergeStats, PutStats
from pyflinklike.upsert.index.value_codec import encode_upsert_key
from pyflinklike.upsert.index.values import MergeValue, PutValue, UpsertValueAndSize, ValueMetadata

__all__ = ["UpsertBackend", "checked_open", "distinct_keys", "found", "prepare_puts", "total_of"]

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


def checked_open(handle: Handle | None, what: str) -> Handle:
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


def found(data: bytes | None) -> UpsertValueAndSize:
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
