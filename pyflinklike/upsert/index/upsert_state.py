# SPDX-License-Identifier: Apache-2.0
"""The record of each key, over a backend's bulk verbs.

An upsert turns keyed optional values into a differential collection, and for that needs the record
before.  For each batch it gets the states of the batch's keys, and puts the new ones; after a
restart it reads its own output back, as differences in any order, with `consolidate_chunk` (as
Materialize's `UpsertState`).

If the backend can, a difference is added without reading (`multi_merge`), but only until the first
put.  A put state may have an order key or be a tombstone, whose bytes are freed when it becomes a
sketch, and only a read knows how many they are.  So after a put, a state is read before a
difference is added, and the numbers are exact: for a complete collection they are those of the
states that `multi_get` finds.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pyflinklike._messages import shown
from pyflinklike.errors import StateValueError, StoreValueError, UpsertStateError
from pyflinklike.upsert.index.difference_sketch import Consolidating, Difference, check_diff
from pyflinklike.upsert.index.upsert_backend import UpsertBackend
from pyflinklike.upsert.index.upsert_values import (
    GetStats,
    MergeStats,
    MergeValue,
    PutStats,
    PutValue,
    SnapshotStats,
    UpsertValueAndSize,
    ValueMetadata,
)
from pyflinklike.upsert.index.value_codec import UpsertKey, encode_upsert_key, encode_value

__all__ = ["UpsertState", "consolidate", "consolidate_scalar"]


class UpsertState:
    """The record or tombstone of each key.

    Keys and values are scalars, dates, and tuples, lists, dicts and `Row`s of these.  Every result
    is a new object.

    Args:
        backend: The storage of the states; states that it already has are counted.

    Raises:
        StateValueError: `backend` is not a backend.
    """

    def __init__(self, backend: UpsertBackend) -> None:
        if not isinstance(backend, UpsertBackend):
            msg = f"UpsertState takes a backend, got {shown(backend)}; use InMemoryUpsertBackend()"
            raise StateValueError(msg)
        self._backend = backend
        totals = backend.totals()
        self._records = totals.values_diff
        self._tombstones = totals.tombstones_diff
        self._size = totals.size_diff
        self._has_values = bool(totals.processed_puts)
        self.get_stats = GetStats()
        """The sum over all `multi_get`."""
        self.put_stats = PutStats()
        """The sum over all `multi_put`."""
        self.merge_stats = MergeStats()
        """The sum over all merges of the backend."""
        self.snapshot_stats = SnapshotStats()
        """The sum over all `consolidate_chunk`."""
        self.snapshot_completed = False
        """True once `consolidate_chunk` was called with `completed=True`."""

    @property
    def num_records(self) -> int:
        """The number of keys with a record; exact when the collection is complete."""
        return self._records

    @property
    def num_tombstones(self) -> int:
        """The number of keys with a tombstone."""
        return self._tombstones

    @property
    def size_bytes(self) -> int:
        """The bytes of all records and tombstones, encoded; without keys."""
        return self._size

    def multi_get(self, keys: Sequence[Any]) -> list[UpsertValueAndSize]:
        """Return the value of each key.

        If the differences of a key do not add up yet, its `Consolidating` is returned, whose
        `ensure_decoded` says what is wrong.

        Args:
            keys: The keys, all different.

        Returns:
            A value and its metadata for each key, both None if the key has none.

        Raises:
            StoreValueError: A key comes twice.
            StateValueError: A key is None or cannot be encoded.
        """
        keys = list(keys)
        results = [_decode(each) for each in self._backend.multi_get(keys)]
        self.get_stats += GetStats(
            len(keys),
            sum(each.metadata.size for each in results if each.metadata is not None),
            sum(each.value is not None for each in results),
        )
        return results

    def multi_put(
        self, puts: Iterable[tuple[Any, PutValue]], update_per_record_stats: bool = True
    ) -> PutStats:
        """Put or remove values.

        Args:
            puts: Keys, each with its new value and the metadata that `multi_get` returned for the
                key; of several puts of one key the last one counts.
            update_per_record_stats: True counts inserts, updates and deletes; False if the same
                records are going to be put again.

        Returns:
            The changes of this call, in numbers.

        Raises:
            StateValueError: A key or value cannot be encoded; nothing was put.
        """
        stats = self._backend.multi_put(puts)
        if not update_per_record_stats:
            stats.inserts = stats.updates = stats.deletes = 0
        self._has_values = self._has_values or bool(stats.processed_puts)
        self._records += stats.values_diff
        self._tombstones += stats.tombstones_diff
        self._size += stats.size_diff
        self.put_stats += stats
        return stats

    def consolidate_chunk(
        self, updates: Iterable[tuple[Any, Any, int]], completed: bool = False
    ) -> SnapshotStats:
        """Add differences of the collection, in any order and in chunks of any size.

        Args:
            updates: Keys, values and diffs.
            completed: True if the snapshot is complete with this chunk; later chunks are appended
                to the collection.

        Returns:
            The changes of this call, in numbers.

        Raises:
            UpsertStateError: The snapshot was completed before.
            StateValueError: A key or value is None or cannot be encoded, or a diff is not an int;
                nothing was added.
            StoreValueError: An update does not have three parts; nothing was added.
        """
        if completed and self.snapshot_completed:
            msg = (
                "a snapshot is completed once, got completed=True again; "
                "give later chunks with completed=False"
            )
            raise UpsertStateError(msg)
        chunk = [_difference(update) for update in updates]
        stats = SnapshotStats(
            updates=len(chunk),
            values_diff=sum(each.diff for each in chunk),
            inserts=sum(each.diff for each in chunk if each.diff > 0),
            deletes=-sum(each.diff for each in chunk if each.diff < 0),
        )
        sketches = [(UpsertKey(key), each) for key, each in consolidate(chunk).items()]
        if self._backend.supports_merge and not self._has_values:
            stats.size_diff = self._merge(sketches)
        else:
            stats.size_diff = self._read_and_put(sketches)
        self._records += stats.values_diff
        self._size += stats.size_diff
        self.snapshot_stats += stats
        self.snapshot_completed = self.snapshot_completed or completed
        return stats

    def _merge(self, sketches: list[tuple[Any, Consolidating]]) -> int:
        merged = self._backend.multi_merge(
            (key, MergeValue(sketch, sketch.diff_sum))
            for key, sketch in sketches
            if not sketch.is_cancelled
        )
        self.merge_stats += merged
        return merged.size_diff

    def _read_and_put(self, sketches: list[tuple[Any, Consolidating]]) -> int:
        stored = self._backend.multi_get([key for key, _ in sketches])
        puts = []
        for (key, sketch), before in zip(sketches, stored):
            if before.value is not None:
                sketch.merge_state(before.value)
            state = None if sketch.is_cancelled else sketch
            puts.append((key, PutValue(state, before.metadata)))
        stats = self._backend.multi_put(puts)
        self._tombstones += stats.tombstones_diff
        return stats.size_diff

    def close(self) -> None:
        """Close the backend."""
        self._backend.close()

    def __repr__(self) -> str:
        return f"UpsertState({self._backend!r})"


def _difference(update: Any) -> Difference:
    try:
        key, value, diff = update
    except (TypeError, ValueError):
        msg = f"consolidate_chunk takes (key, value, diff), got {shown(update)}; give all three"
        raise StoreValueError(msg) from None
    if value is None:
        msg = (
            f"a record of a collection has a value, got None under key {shown(key)}; "
            "a deletion is the old value with diff -1"
        )
        raise StateValueError(msg)
    return Difference(encode_upsert_key(key), encode_value(value), check_diff(diff))


def _decode(stored: UpsertValueAndSize) -> UpsertValueAndSize:
    state = stored.value
    if not isinstance(state, Consolidating):
        return stored
    try:
        decoded = state.ensure_decoded()
    except UpsertStateError:
        return stored
    if decoded.is_tombstone:
        return UpsertValueAndSize(None, None)
    assert stored.metadata is not None
    return UpsertValueAndSize(decoded, ValueMetadata(stored.metadata.size, is_tombstone=False))


_FEW: Final = 128
"""With fewer differences the arrays cost more than they save."""


# A chunk of differences, one sketch per key
#
# `consolidate_scalar` goes difference by difference, `consolidate_vectorized` does a whole chunk at a
# time with the same result; a property test compares the two.  Small chunks, and installations
# without NumPy, take the first way.


def consolidate(chunk: Sequence[Difference]) -> dict[bytes, Consolidating]:
    """Return the sum of each key's differences, in the order in which the keys first come."""
    if len(chunk) < _FEW or importlib.util.find_spec("numpy") is None:
        return consolidate_scalar(chunk)
    from pyflinklike.upsert.index.numpy_consolidation import consolidate_vectorized

    return consolidate_vectorized(chunk)


def consolidate_scalar(chunk: Sequence[Difference]) -> dict[bytes, Consolidating]:
    """Return the same, difference by difference."""
    sketches: dict[bytes, Consolidating] = {}
    for key, value, diff in chunk:
        sketch = sketches.get(key)
        if sketch is None:
            sketch = sketches[key] = Consolidating()
        sketch.merge_encoded(value, diff)
    return sketches
