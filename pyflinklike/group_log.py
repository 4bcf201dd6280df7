# SPDX-License-Identifier: Apache-2.0
"""Key groups: working state, its durable log, and the rule that ties them.

Keys are hashed into `max_parallelism` key groups, as in Flink.  A host keeps,
per key group, a `Head` and a map of segments (`GroupStore`), and commits both
with its own transaction.  A worker keeps the *working state* of the groups it
served.  It may serve a group that another worker has changed since, or whose
last commit never became durable, so:

    Every commit draws a fresh random nonce.  Working state may be used only if
    its nonce is the one in `head`; if it is an ancestor of it, the segments in
    between are replayed; else it is built anew from all segments.

A segment names its own nonce and that of the state it was made from, so "is an
ancestor" is read off the log itself.  Whatever a host does (retry, speculate,
move or kill a task), a stale or half-written working state cannot be used.

Compaction: once the log outweighs what is alive in it, a commit writes one
snapshot segment and drops all others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Protocol

import attrs

from pyflinklike.changelog import (
    Declaration,
    Segment,
    decode_entries,
    encode_entries,
    has_stamps,
    read_segment,
    total,
)
from pyflinklike.errors import CorruptStateError, IncompatibleStateError
from pyflinklike.key_group import KeyGroup
from pyflinklike.table import RESERVED_PREFIX, KeyedStateBackend, TableChanges, TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["GroupStore", "Head", "KeyGroupLog"]

_FLOOR_BYTES = 4096


@attrs.frozen
class Head:
    """The durable pointer to the state of a key group.

    Args:
        nonce: Of the last commit.
        next_sequence: Under which the next segment will be stored.
        first_sequence: Of the oldest segment that counts: the last snapshot.
        log_bytes: Bytes of all segments that count.
        log_entries: Entries of all segments that count.
        max_parallelism: The number of key groups the keys are hashed into.
        wake_at: When the host must call even without data, in ms, or None.
    """

    nonce: bytes
    next_sequence: int
    first_sequence: int
    log_bytes: int
    log_entries: int
    max_parallelism: int
    wake_at: int | None = None


class GroupStore(Protocol):
    """Where a host keeps the durable form of the key group it is working on."""

    def read_head(self) -> Head | None:
        """The head, or None where there was none yet."""

    def write_head(self, head: Head) -> None:
        """Replace the head."""

    def read_segment(self, sequence: int) -> bytes | None:
        """One segment, or None where it is missing."""

    def write_segment(self, sequence: int, blob: bytes) -> None:
        """Add a segment."""

    def clear_segments(self) -> None:
        """Remove every segment."""


class KeyGroupLog:
    """Loads and commits key groups for one operator and backend.

    Args:
        backend: Holds the working state.
        key_type: Of the keys.
        max_parallelism: The number of key groups.
        operator: Name of the operator, for messages.
        before_compaction: Deletes what a compaction shall not keep.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        key_type: TypeInformation,
        max_parallelism: int,
        operator: str,
        before_compaction: Callable[[], None],
    ) -> None:
        self._backend = backend
        self._key_type = key_type
        self._max_parallelism = max_parallelism
        self._operator = operator
        self._before_compaction = before_compaction

    def load(self, store: GroupStore, head: Head | None, group: KeyGroup) -> KeyGroup:
        """Bring working state up to the head.

        Args:
            store: Of the group.
            head: Read from it.
            group: What the worker still has of the group, or an empty group.

        Returns:
            The same group, caught up, or a new one if it could not be used.

        Raises:
            CorruptStateError: The log is damaged.
            IncompatibleStateError: It was written under another `max_parallelism`.
        """
        if head is None:
            return group if not group.nonce else KeyGroup(group.index)
        self._check_head(head)
        if group.nonce == head.nonce:
            return group
        if not self._catch_up(store, head, group):
            group = KeyGroup(group.index)
            for sequence in range(head.first_sequence, head.next_sequence):
                group.read(self._segment(store, group.index, sequence), self._where(group.index))
        group.next_sequence = head.next_sequence
        if group.nonce != head.nonce:
            msg = f"{self._where(group.index)}: the last segment must be the head's, got another"
            raise CorruptStateError(msg)
        return group

    def check(self, store: GroupStore) -> None:
        """See that a group was written under this `max_parallelism`, and note it if it is new.

        Raises:
            IncompatibleStateError: It was written under another.
        """
        head = store.read_head()
        if head is None:
            store.write_head(self._blank_head())
        else:
            self._check_head(head)

    def _blank_head(self) -> Head:
        """Of a group without state: it holds nothing but what the checkpoint was made with."""
        return Head(b"", 0, 0, 0, 0, self._max_parallelism)

    def _check_head(self, head: Head) -> None:
        if head.max_parallelism != self._max_parallelism:
            msg = (
                f"operator {self._operator!r}: max_parallelism is fixed by its checkpoint at "
                f"{head.max_parallelism}, got {self._max_parallelism}; pass the former, or begin a "
                "new checkpoint with from_savepoint=read_savepoint(spark, <this checkpoint>)"
            )
            raise IncompatibleStateError(msg)

    def _catch_up(self, store: GroupStore, head: Head, group: KeyGroup) -> bool:
        if not group.nonce or not head.first_sequence < group.next_sequence < head.next_sequence:
            return False
        first = self._segment(store, group.index, group.next_sequence)
        if first.parent != group.nonce:
            return False
        where = self._where(group.index)
        group.read(first, where)
        for sequence in range(group.next_sequence + 1, head.next_sequence):
            group.read(self._segment(store, group.index, sequence), where)
        if any(name.startswith(RESERVED_PREFIX) for name in group.pending):
            group.timers.clear()
        return True

    def _segment(self, store: GroupStore, index: int, sequence: int) -> Segment:
        where = f"{self._where(index)}, segment {sequence}"
        blob = store.read_segment(sequence)
        if blob is None:
            msg = f"{where}: the log must be whole, got no segment; go back to a checkpoint"
            raise CorruptStateError(msg)
        return read_segment(blob, where)

    def _where(self, index: int) -> str:
        return f"operator {self._operator!r}, key group {index}"

    def restored(self, group: KeyGroup, spec: TableSpec, stamp: int) -> list[TableChanges]:
        """The entries of a table that were read but not yet applied.

        Args:
            group: Which has read them.
            spec: Of the table.
            stamp: For entries written before TTL was switched on, in ms.

        Raises:
            IncompatibleStateError: They were written under another declaration.
        """
        sections = group.pending.pop(spec.name, None)
        if not sections:
            return []
        declared = Declaration.of(spec, self._key_type)
        changes = []
        for section in sections:
            section.declaration.check(declared)
            if has_stamps(section) != spec.stamped:
                group.rewrite = True
            changes.append(
                decode_entries(section, spec, self._key_type, stamp, self._where(group.index))
            )
        return changes

    def commit(
        self, store: GroupStore, head: Head | None, group: KeyGroup, wake_at: int | None
    ) -> int:
        """Make what changed in the current group durable.

        Args:
            store: Of the group.
            head: As read by `load`.
            group: The working state that the backend has entered.
            wake_at: When the host must call even without data, in ms, or None.

        Returns:
            The bytes of the segment written; 0 where nothing changed.
        """
        changes = [each for each in self._backend.drain() if len(each)]
        if not changes and not group.rewrite:
            if head is not None and head.wake_at != wake_at:
                store.write_head(attrs.evolve(head, wake_at=wake_at))
            return 0
        segment, entries = self._segment_of(group, changes), total(changes)
        blob = segment.to_bytes()
        log_bytes = len(blob) + (head.log_bytes if head else 0)
        log_entries = entries + (head.log_entries if head else 0)
        first_sequence = head.first_sequence if head else group.next_sequence
        is_new = head is None and not group.rewrite
        if not is_new and self._must_compact(group, len(blob), log_bytes, log_entries):
            self._before_compaction()
            contents = self.contents()
            if not contents and not any(group.pending.values()):
                return self._erase(store, group)
            segment, log_entries = self.snapshot(group, contents), total(contents)
            blob = segment.to_bytes()
            log_bytes = len(blob)
            first_sequence = group.next_sequence
            store.clear_segments()
        store.write_segment(group.next_sequence, blob)
        group.next_sequence += 1
        group.nonce = segment.nonce
        group.rewrite = False
        store.write_head(
            Head(
                segment.nonce,
                group.next_sequence,
                first_sequence,
                log_bytes,
                log_entries,
                self._max_parallelism,
                wake_at,
            )
        )
        return len(blob)

    def contents(self) -> list[TableChanges]:
        """Every entry of the group in a declared table."""
        self._backend.discard_changes()
        return [each for each in self._backend.contents() if len(each)]

    def snapshot(self, group: KeyGroup, contents: Iterable[TableChanges]) -> Segment:
        """A segment that needs no other: these entries, and those of undeclared states."""
        group.declared.clear()
        group.declarations.clear()
        segment = self._segment_of(group, contents)
        segment.parent = b""
        for sections in group.pending.values():
            for section in sections:
                table_id = self._declare(group, segment, section.declaration)
                segment.sections.append((table_id, section.payload))
        return segment

    def _segment_of(self, group: KeyGroup, changes: Iterable[TableChanges]) -> Segment:
        segment = Segment(os.urandom(16), group.nonce)
        for each in changes:
            table_id = self._declare(group, segment, Declaration.of(each.spec, self._key_type))
            segment.sections.append((table_id, encode_entries(each, self._key_type)))
        return segment

    @staticmethod
    def _declare(group: KeyGroup, segment: Segment, declaration: Declaration) -> int:
        table_id = group.declared.get(declaration.name)
        if table_id is None:
            table_id = group.declared[declaration.name] = len(group.declared)
            group.declarations[table_id] = segment.declarations[table_id] = declaration
        return table_id

    def _must_compact(
        self, group: KeyGroup, segment_bytes: int, log_bytes: int, log_entries: int
    ) -> bool:
        if group.rewrite:
            return True
        if log_bytes <= _FLOOR_BYTES + segment_bytes:
            return False
        alive = self._backend.count()
        return log_bytes > _FLOOR_BYTES + 2 * alive * log_bytes // max(log_entries, 1)

    def _erase(self, store: GroupStore, group: KeyGroup) -> int:
        store.clear_segments()
        store.write_head(self._blank_head())
        group.nonce = b""
        group.next_sequence = 0
        group.declared.clear()  # the next log has to declare its tables itself
        group.declarations.clear()
        group.rewrite = False
        return 0
