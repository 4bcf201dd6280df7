# SPDX-License-Identifier: Apache-2.0
"""Keeps the record of each key for programs without Spark, in the table of a state backend.

To turn keyed optional values into a differential collection, a program needs the record before.
For each batch it gets the states of the batch's keys, and puts the new ones.  After a restart it
reads its own output back, as differences in any order, with `consolidate_chunk` (as Materialize's
`UpsertState` does), or it restores a snapshot.

The table maps encoded keys to encoded states and does not know what they mean.  It is working state:
if it cannot be read or written, the `UpsertState` is closed, and it answers nothing from then on.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from pyflinklike._changelog.key_group_log import Restorer, SegmentWriter
from pyflinklike._changelog.key_group_state import KeyGroupState, LocalStateBackend
from pyflinklike._changelog.segment_chain import join
from pyflinklike._changelog.segments import SEGMENT_BYTES, read_segment
from pyflinklike._checks import check_count
from pyflinklike._messages import short_repr
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import (
    CorruptStateError,
    SparkSetupError,
    StateValueError,
    StoreClosedError,
    StoreValueError,
    UpsertStateError,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Entry, Shape, TableSpec
from pyflinklike.types import Types
from pyflinklike.upsert.upsert_values import (
    Consolidating,
    GetStats,
    MergeStats,
    MergeValue,
    PutStats,
    PutValue,
    SnapshotStats,
    UpsertValueAndSize,
    ValueMetadata,
    check_diff,
    decode_state,
    encode_state,
    size_of,
)
from pyflinklike.upsert.value_codec import encode_upsert_key, encode_value

_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
_SPEC: Final = TableSpec(
    "upsert", Shape.MAP, "upsert state", value_type=_BYTES, user_key_type=_BYTES
)
_KEY, _KEY_TYPE = "all", Types.STRING()
"""All entries lie under one key, so that a table gets and puts many of them at once."""
# The name of the "file" in the errors of the log's reader.
_SNAPSHOT = "the snapshot of an UpsertState"


class UpsertState:
    """The record or tombstone of each key.

    Keys and values are scalars, dates, and tuples, lists, dicts and `Row`s of these.  Every result
    is a new object.

        state = UpsertState()
        state.consolidate_chunk([("ann", 31, 1), ("ann", 30, 1), ("ann", 30, -1)], completed=True)
        assert state.multi_get(["ann"])[0].value == FinalizedValue(31)

    Args:
        backend: The state backend that holds the states; by default a `HashMapStateBackend`, or an
            `EmbeddedRocksDBStateBackend` if `max_heap_bytes` is given.
        max_heap_bytes: If given, the states are in memory until keys and states would take more
            bytes than this.  Then all of them move to `backend`, and they never move back.
        restore: The bytes that `snapshot` returned, on any backend; None begins without a state.

    Raises:
        StateValueError: `backend` is not a state backend.
        DeclarationTypeError, DeclarationValueError: `max_heap_bytes` is not an int, or negative.
        CorruptStateError: `restore` is not a snapshot, or damaged.
    """

    def __init__(
        self,
        backend: StateBackend | None = None,
        *,
        max_heap_bytes: int | None = None,
        restore: bytes | None = None,
    ) -> None:
        heap = HashMapStateBackend()
        if max_heap_bytes is not None:
            check_count(max_heap_bytes, "max_heap_bytes")
        if backend is None:
            backend = heap if max_heap_bytes is None else EmbeddedRocksDBStateBackend()
        self._backend = _check_backend(backend)
        self._max_heap_bytes = max_heap_bytes
        self._entries = _Entries(backend if max_heap_bytes is None else heap)
        self._heap_bytes = 0
        self.is_spilled = False
        """True once the states have moved out of memory, because of `max_heap_bytes`."""
        self.num_records = 0
        """The number of keys with a record; exact when the collection is complete."""
        self.num_tombstones = 0
        """The number of keys with a tombstone."""
        self.size_bytes = 0
        """The bytes of all records and tombstones, encoded; without keys."""
        self.get_stats = GetStats()
        """The sum over all `multi_get`."""
        self.put_stats = PutStats()
        """The sum over all `multi_put`."""
        self.merge_stats = MergeStats()
        """The sum over all `multi_merge`."""
        self.snapshot_stats = SnapshotStats()
        """The sum over all `consolidate_chunk`."""
        self.snapshot_completed = False
        """True once `consolidate_chunk` was called with `completed=True`."""
        if restore is not None:
            self._restore(restore)

    def multi_get(self, keys: Sequence[Any]) -> list[UpsertValueAndSize]:
        """Return the value of each key.

        If the differences of a key do not add up yet, its `Consolidating` is returned, whose
        `ensure_decoded` says what is wrong.

        Args:
            keys: The keys, all different.

        Returns:
            A value and its metadata for each key; both are None if the key has no state.

        Raises:
            StoreValueError: A key comes twice.
            StateValueError: A key is None or cannot be encoded.
        """
        results = [_result_of(data) for data in self._entries.get(_distinct(list(keys)))]
        self.get_stats += GetStats(
            len(results),
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
        writes: dict[bytes, bytes | None] = {}
        put_before: dict[bytes, ValueMetadata | None] = {}
        stats = PutStats()
        for key, put in puts:
            if not isinstance(put, PutValue):
                msg = f"multi_put takes (key, PutValue(value, metadata)), got {short_repr(put)}"
                raise StateValueError(f"{msg}; give the metadata that multi_get returned")
            data = new = None
            if put.value is not None:
                data = encode_state(put.value)
                new = ValueMetadata(size_of(data), put.value.is_tombstone)
            encoded = encode_upsert_key(key)
            # The second put of a key replaces the first, not what was there before both.
            stats.adjust(new, put_before.get(encoded, put.previous_value_metadata))
            stats.processed_puts += 1
            put_before[encoded] = new
            writes[encoded] = data
        if not update_per_record_stats:
            stats.inserts = stats.updates = stats.deletes = 0
        self._write(writes)
        self._count(stats.values_diff, stats.tombstones_diff, stats.size_diff)
        self.put_stats += stats
        return stats

    def multi_merge(self, merges: Iterable[tuple[Any, MergeValue]]) -> MergeStats:
        """Add states to those that are there, as `consolidating_merge_function` adds them.

        Args:
            merges: Keys, each with a state to add; of one key there may be several.

        Returns:
            The changes of this call, in numbers.

        Raises:
            StateValueError: A key or state cannot be encoded; nothing was added.
        """
        stats = MergeStats()
        sketches: dict[bytes, Consolidating] = {}
        for key, merge in merges:
            if not isinstance(merge, MergeValue):
                msg = f"multi_merge takes (key, MergeValue(value, diff)), got {short_repr(merge)}"
                raise StateValueError(f"{msg}; give a Consolidating and the sum of its diffs")
            stats.written_merge_operands += 1
            stats.size_written += len(encode_state(merge.value))
            sketches.setdefault(encode_upsert_key(key), Consolidating()).merge_state(merge.value)
        stats.size_diff = self._add(sketches)
        self.merge_stats += stats
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
            msg = "a snapshot is completed once, got completed=True again; give later chunks with "
            raise UpsertStateError(f"{msg}completed=False")
        sketches: dict[bytes, Consolidating] = {}
        stats = SnapshotStats()
        for key, value, diff in map(_difference, updates):
            sketch = sketches.get(key)
            if sketch is None:
                sketch = sketches[key] = Consolidating()
            sketch.merge_encoded(value, diff)
            stats.updates += 1
            if diff > 0:
                stats.inserts += diff
            else:
                stats.deletes -= diff
        stats.values_diff = stats.inserts - stats.deletes
        stats.size_diff = self._add(sketches)
        self.snapshot_stats += stats
        self.snapshot_completed = self.snapshot_completed or completed
        return stats

    def _add(self, sketches: Mapping[bytes, Consolidating]) -> int:
        """Add sketches to the states that are there; return by how many bytes the size changed."""
        writes: dict[bytes, bytes | None] = {}
        records = tombstones = size = 0
        for (key, sketch), stored in zip(sketches.items(), self._entries.get(list(sketches))):
            records += sketch.diff_sum
            if stored is not MISSING:
                # The state before may be a tombstone or have an order key; the sum has neither.
                before = decode_state(stored)
                tombstones -= before.is_tombstone
                size -= size_of(stored)
                sketch.merge_state(before)
            size += sketch.len_sum + sketch.diff_sum
            writes[key] = None if sketch.is_cancelled else encode_state(sketch)
        self._write(writes)
        self._count(records, tombstones, size)
        return size

    def _count(self, records: int, tombstones: int, size: int) -> None:
        self.num_records += records
        self.num_tombstones += tombstones
        self.size_bytes += size

    def _write(self, writes: Mapping[bytes, bytes | None]) -> None:
        if self._max_heap_bytes is not None and not self.is_spilled:
            former = zip(writes, self._entries.get(list(writes)))
            freed = sum(len(key) + len(data) for key, data in former if data is not MISSING)
            added = sum(len(key) + len(data) for key, data in writes.items() if data is not None)
            needed = self._heap_bytes + added - freed
            if needed > self._max_heap_bytes:
                self._spill()
            self._heap_bytes = needed
        self._entries.put(writes)

    def _spill(self) -> None:
        """Move all states to the backend; if that fails, they stay in memory."""
        heap, spilled = self._entries, _Entries(self._backend)
        rest = heap.items()
        try:
            while some := dict(islice(rest, _AT_ONCE)):
                spilled.put(some)
            spilled.save()
        except SparkSetupError as error:
            msg = f"an UpsertState must be able to move to its backend, got {error.__cause__}"
            raise SparkSetupError(
                f"{msg}; nothing was put, and all states are still in memory"
            ) from error
        self._entries, self.is_spilled = spilled, True
        heap.close()

    def snapshot(self) -> bytes:
        """Return all states as bytes, for `restore`.  All the bytes are in memory at once.

        Raises:
            SparkSetupError: The states take more than 2 GB.
        """
        return self._entries.snapshot()

    def _restore(self, snapshot: bytes) -> None:
        for some in _entries_in(snapshot):
            self._write(some)
            for data in some.values():
                state = decode_state(data)
                is_gone = state.is_tombstone
                records = state.diff_sum if isinstance(state, Consolidating) else not is_gone
                self._count(records, is_gone, size_of(data))

    def close(self) -> None:
        """Drop all states, and delete the files of the backend; a second call does nothing."""
        self._entries.close()

    def __repr__(self) -> str:
        return f"UpsertState({self._backend!r})"


def _check_backend(backend: Any) -> StateBackend:
    if not isinstance(backend, StateBackend):
        msg = f"UpsertState takes a StateBackend, got {short_repr(backend)}"
        raise StateValueError(f"{msg}; for example HashMapStateBackend()")
    return backend


def _distinct(keys: list[Any]) -> list[bytes]:
    encoded = [encode_upsert_key(key) for key in keys]
    if len(set(encoded)) < len(encoded):
        counts = Counter(encoded)
        double = next(key for key, each in zip(keys, encoded) if counts[each] > 1)
        msg = f"the keys of one multi_get must differ, got {short_repr(double)} twice; ask for it once"
        raise StoreValueError(msg)
    return encoded


def _result_of(data: Entry) -> UpsertValueAndSize:
    if data is MISSING:
        return UpsertValueAndSize(None, None)
    state = decode_state(data)
    if isinstance(state, Consolidating):
        try:
            state = state.ensure_decoded()
        except UpsertStateError:
            return UpsertValueAndSize(state, ValueMetadata(size_of(data), is_tombstone=False))
    return UpsertValueAndSize(state, ValueMetadata(size_of(data), state.is_tombstone))


def _difference(update: Any) -> tuple[bytes, bytes, int]:
    try:
        key, value, diff = update
    except (TypeError, ValueError):
        msg = (
            f"consolidate_chunk takes (key, value, diff), got {short_repr(update)}; give all three"
        )
        raise StoreValueError(msg) from None
    if value is None:
        msg = (
            f"a record of a collection has a value, got None under key {short_repr(key)}; "
            "a deletion is the old value with diff -1"
        )
        raise StateValueError(msg)
    return encode_upsert_key(key), encode_value(value), check_diff(diff)


# The table


# How many states move to disk in one write: enough to make writes rare, and small in memory.
_AT_ONCE: Final = 8192


class _Entries:
    """Encoded states by encoded key, in a table of one key group that is never committed.

    Args:
        state_backend: Makes the table.  No other object uses its files on disk.
    """

    most_used = 8 * 1024 * 1024
    """How many bytes a backend on disk may read and write before it drops them from memory."""

    def __init__(self, state_backend: StateBackend) -> None:
        owner = f"upsert-{uuid.uuid4().hex}"
        self._backend = state_backend.create_keyed_state_backend(CurrentKey(_KEY), owner)
        self._group = KeyGroupState(0)
        self._backend.enter(0, self._group.tables)
        self._table = self._backend.table(_SPEC)
        self._used = 0
        self._is_open = True

    def get(self, keys: list[bytes]) -> list[Entry]:
        """Return the state or `MISSING` of each key."""
        with self._opened():
            found = self._table.multi_get(keys)
            self._settle(keys, found)
        return found

    def put(self, writes: Mapping[bytes, bytes | None]) -> None:
        """Put states; None removes one."""
        with self._opened():
            self._table.multi_put([item for item in writes.items() if item[1] is not None])
            for key, data in writes.items():
                if data is None:
                    self._table.delete(key)
            self._settle(writes, writes.values())

    def save(self) -> None:
        """Let a backend on disk write what it has in memory, and drop it from there."""
        with self._opened():
            self._backend.cache(self._group)
        self._used = 0

    def _settle(self, keys: Iterable[bytes], states: Iterable[Entry]) -> None:
        self._backend.discard_changes()  # there is no log to write them to
        if self._backend.is_persistent:
            self._used += sum(map(len, keys)) + sum(len(each) for each in states if each)
            if self._used > self.most_used:
                self.save()

    @contextmanager
    def _opened(self) -> Iterator[None]:
        """Check that this is open; close it if the backend fails."""
        if not self._is_open:
            msg = (
                "UpsertState can be used until it is closed, got a call after close(); make another"
            )
            raise StoreClosedError(msg)
        try:
            yield
        except SparkSetupError as error:
            self.close()
            msg = f"an UpsertState must be able to read and write its working state, got {error}"
            advice = "make another one, and restore a snapshot or read the output again"
            raise SparkSetupError(f"{msg}; {advice}") from error

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and states."""
        return iter(self._table.items())

    def snapshot(self) -> bytes:
        """Return all entries as one segment of a log."""
        writer = SegmentWriter(_KEY_TYPE, SEGMENT_BYTES)
        with self._opened():
            contents = [each for each in self._backend.contents() if len(each)]
        return join(writer.snapshot(contents, KeyGroupState(0))).to_bytes()

    def close(self) -> None:
        """Drop the entries, and delete the files."""
        if self._is_open:
            self._is_open = False
            if isinstance(self._backend, LocalStateBackend):
                self._backend.discard()
            else:
                self._backend.close()


def _entries_in(snapshot: bytes) -> Iterator[dict[bytes, bytes]]:
    """Yield the entries of a snapshot, in portions."""
    group = KeyGroupState(0)
    group.read(read_segment(snapshot, _SNAPSHOT), _SNAPSHOT)
    if not group.pending.keys() <= {_SPEC.name}:
        msg = f"{_SNAPSHOT} must hold its states alone, got {sorted(group.pending)}; see snapshot()"
        raise CorruptStateError(msg)
    backend = HashMapStateBackend().create_keyed_state_backend(CurrentKey(_KEY), "snapshot")
    for changes in Restorer(backend, _KEY_TYPE, lambda _: _SNAPSHOT).restore(group, _SPEC, 0):
        yield dict(zip(changes.user_keys, changes.entries))
