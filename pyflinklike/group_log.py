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
snapshot segment and drops all others.  The same where the log is older than the
cleanup of expired entries allows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
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
from pyflinklike.errors import CorruptStateError
from pyflinklike.group_store import GroupStore, Head
from pyflinklike.identity import OperatorIdentity
from pyflinklike.key_group import KeyGroup
from pyflinklike.operator_metrics import OperatorMetrics
from pyflinklike.table import RESERVED_PREFIX, KeyedStateBackend, TableChanges, TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["KeyGroupLog", "LogCleanup"]

_FLOOR_BYTES = 4096
_STAGGER = 64


class LogCleanup(Protocol):
    """What a log must know of entries that expire."""

    def now(self) -> int:
        """The processing time in ms."""

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Whether a log whose last snapshot is of that time must be compacted."""

    def drop_expired(self) -> None:
        """Delete what a compaction shall not keep."""


class KeyGroupLog:
    """Loads and commits key groups for one operator and backend.

    Args:
        backend: Holds the working state.
        key_type: Of the keys.
        identity: Of the operator.
        cleanup: Of the operator's states.
        metrics: Count loads and commits.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        key_type: TypeInformation,
        identity: OperatorIdentity,
        cleanup: LogCleanup,
        metrics: OperatorMetrics,
    ) -> None:
        self._backend = backend
        self._key_type = key_type
        self._identity = identity
        self._identity_text = identity.text
        self._operator = identity.name
        self._cleanup = cleanup
        self._metrics = metrics

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
            IncompatibleStateError: It is another operator's, or was written under another
                `max_parallelism`.
        """
        metrics = self._metrics
        metrics.key_groups += 1
        if head is None:
            return group if not group.nonce else KeyGroup(group.index)
        self._check_head(head)
        if group.nonce == head.nonce:
            metrics.warm_loads += bool(head.nonce)
            return group
        if self._catch_up(store, head, group):
            metrics.caught_up_loads += 1
        else:
            metrics.cold_loads += bool(head.nonce)
            group = KeyGroup(group.index)
            for sequence in range(head.first_sequence, head.next_sequence):
                group.read(self._segment(store, group.index, sequence), self._where(group.index))
        group.next_sequence = head.next_sequence
        if group.nonce != head.nonce:
            msg = f"{self._where(group.index)}: the last segment must be the head's, got another"
            raise CorruptStateError(msg)
        return group

    def _blank_head(self) -> Head:
        """Of a group without state: it holds nothing but what the checkpoint was made with."""
        identity = self._identity
        return Head(b"", 0, 0, 0, 0, 0, 0, identity.max_parallelism, identity=self._identity_text)

    def _check_head(self, head: Head) -> None:
        text, identity = head.identity or self._identity_text, self._identity
        if (text, head.max_parallelism) != (self._identity_text, identity.max_parallelism):
            identity.check(OperatorIdentity.of_text(text, head.max_parallelism))

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
        self,
        store: GroupStore,
        head: Head | None,
        group: KeyGroup,
        wake_at: int | None = None,
        sweep_at: int | None = None,
        served_at: int | None = None,
    ) -> Head | None:
        """Make what changed in the current group durable.

        Args:
            store: Of the group.
            head: As read by `load`.
            group: The working state that the backend has entered.
            wake_at: When the host must call even without data, in ms, or None.
            sweep_at: When expired entries are looked for next, in ms, or None.
            served_at: Time of the micro-batch in ms, if it has records for the group and the
                host wants that noted.

        Returns:
            The head now; None where there is none.
        """
        former = head or self._blank_head()
        if served_at is None:
            served_at = former.served_at
        changes = [each for each in self._backend.drain() if len(each)]
        rewrite = group.rewrite or (
            head is not None
            and bool(head.nonce)
            and self._cleanup.is_compaction_due(head.compacted_at)
        )
        if not changes and not rewrite:
            return self._remember(store, head, wake_at, sweep_at, served_at)
        segment = self._segment_of(group, changes)
        blob = segment.to_bytes()
        next_head = attrs.evolve(
            former,
            nonce=segment.nonce,
            next_sequence=group.next_sequence + 1,
            first_sequence=former.first_sequence if former.nonce else group.next_sequence,
            log_bytes=former.log_bytes + len(blob),
            log_entries=former.log_entries + total(changes),
            compacted_at=former.compacted_at if former.nonce else self._cleanup.now(),
            wake_at=wake_at,
            sweep_at=sweep_at,
            identity=self._identity_text,
            served_at=served_at,
        )
        if rewrite or (head is not None and self._is_outgrown(next_head, group, len(blob))):
            self._metrics.compactions += 1
            self._cleanup.drop_expired()
            contents = self.contents()
            store.clear_segments()
            if not contents and not any(group.pending.values()):
                return self._erase(store, group, served_at)
            segment = self.snapshot(group, contents)
            blob = segment.to_bytes()
            next_head = attrs.evolve(
                next_head,
                nonce=segment.nonce,
                first_sequence=group.next_sequence,
                log_bytes=len(blob),
                log_entries=total(contents),
                snapshot_bytes=len(blob),
                snapshot_entries=total(contents),
                compacted_at=self._cleanup.now(),
            )
        self._metrics.segment_bytes += len(blob)
        store.write_segment(group.next_sequence, blob)
        group.next_sequence += 1
        group.nonce = segment.nonce
        group.rewrite = False
        store.write_head(next_head)
        return next_head

    def _remember(
        self,
        store: GroupStore,
        head: Head | None,
        wake_at: int | None,
        sweep_at: int | None,
        served_at: int | None,
    ) -> Head | None:
        if head is None and served_at is None:
            return None
        former = head or self._blank_head()
        remembered = attrs.evolve(former, wake_at=wake_at, sweep_at=sweep_at, served_at=served_at)
        if remembered != head:
            store.write_head(remembered)
        return remembered

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

    def _is_outgrown(self, head: Head, group: KeyGroup, segment_bytes: int) -> bool:
        """Whether a log weighs more than 2 to 2.5 times a snapshot of what is alive in it."""
        if head.log_bytes <= _FLOOR_BYTES + segment_bytes:
            return False
        if head.snapshot_entries:
            each = head.snapshot_bytes / head.snapshot_entries
        else:
            each = head.log_bytes / max(head.log_entries, 1)
        # Groups fill at one pace; with one limit all would be compacted in the same batch.
        limit = 2.5 - (group.index % _STAGGER) / (2 * _STAGGER)
        return head.log_bytes > _FLOOR_BYTES + limit * self._backend.count() * each

    def _erase(self, store: GroupStore, group: KeyGroup, served_at: int | None) -> Head:
        head = attrs.evolve(self._blank_head(), served_at=served_at)
        store.write_head(head)
        group.nonce = b""
        group.next_sequence = 0
        group.declared.clear()  # the next log has to declare its tables itself
        group.declarations.clear()
        group.rewrite = False
        return head
