# SPDX-License-Identifier: Apache-2.0
"""Key groups: working state, its durable log, and the rule that ties them.

Keys are hashed into `max_parallelism` key groups, as in Flink.  A host keeps,
per key group, a `Head` and a map of segments (`LogStorage`), and commits both
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

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Protocol

import attrs

from pyflinklike.log.backend import KeyedStateBackend
from pyflinklike.log.chain import chained, divided, place_of, read_one
from pyflinklike.log.entries import encode_entries
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.segments import SEGMENT_BYTES, Declaration, Section, Segment, total
from pyflinklike.log.storage import Head, LogStorage
from pyflinklike.log.stored_entries import decode_entries, has_stamps
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.table import TableChanges, TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["KeyGroupLog", "LogCleanup", "LogCounters"]

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


class LogCounters(Protocol):
    """What is counted of loads and commits."""

    key_groups: int
    """Key groups loaded."""
    warm_loads: int
    """Of these, those whose working state could be used as it was."""
    caught_up_loads: int
    """Those whose working state was brought up to date."""
    cold_loads: int
    """Those rebuilt from their log."""
    compactions: int
    """Logs replaced by a snapshot, or by nothing where nothing was left."""
    segment_bytes: int
    """Bytes written to the log."""


class KeyGroupLog:
    """Loads and commits key groups for one operator and backend.

    Args:
        backend: Holds the working state.
        key_type: Of the keys.
        identity: Of the operator.
        cleanup: Of the operator's states.
        metrics: Count loads and commits.
        segment_bytes: How large a segment may get where several entries are in it.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        key_type: TypeInformation,
        identity: OperatorIdentity,
        cleanup: LogCleanup,
        metrics: LogCounters,
        segment_bytes: int = SEGMENT_BYTES,
    ) -> None:
        self._backend = backend
        self._key_type = key_type
        self._identity = identity
        self._identity_text = identity.text
        self._operator = identity.name
        self._cleanup = cleanup
        self._metrics = metrics
        self._segment_bytes = segment_bytes

    def load(self, store: LogStorage, head: Head | None, group: WorkingState) -> WorkingState:
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
            return group if not group.nonce else WorkingState(group.index)
        self._check_head(head)
        if group.nonce == head.nonce:
            metrics.warm_loads += bool(head.nonce)
            return group
        if self._catch_up(store, head, group):
            metrics.caught_up_loads += 1
        else:
            group = self._rebuilt(store, head, group.index)
        return self._at_head(head, group)

    def rebuilt(self, store: LogStorage, head: Head, index: int) -> WorkingState:
        """Working state from all segments, whatever a worker still has of the group.

        Raises:
            CorruptStateError: The log is damaged.
        """
        return self._at_head(head, self._rebuilt(store, head, index))

    def _rebuilt(self, store: LogStorage, head: Head, index: int) -> WorkingState:
        self._metrics.cold_loads += bool(head.nonce)
        group = WorkingState(index)
        self._read(store, range(head.first_sequence, head.next_sequence), head, group)
        return group

    def _at_head(self, head: Head, group: WorkingState) -> WorkingState:
        group.next_sequence = head.next_sequence
        return group

    def _read(self, store: LogStorage, sequences: range, head: Head, group: WorkingState) -> None:
        where = self.where(group.index)
        for place, segment in chained(
            store.read_segment, sequences, group.nonce, head.nonce, where
        ):
            group.read(segment, place)

    def _blank_head(self) -> Head:
        """Of a group without state: it holds nothing but what the checkpoint was made with."""
        identity = self._identity
        return Head(b"", 0, 0, 0, 0, 0, 0, identity.max_parallelism, identity=self._identity_text)

    def _check_head(self, head: Head) -> None:
        text, identity = head.identity or self._identity_text, self._identity
        if (text, head.max_parallelism) != (self._identity_text, identity.max_parallelism):
            identity.check(OperatorIdentity.of_text(text, head.max_parallelism))

    def _catch_up(self, store: LogStorage, head: Head, group: WorkingState) -> bool:
        if not group.nonce or not head.first_sequence < group.next_sequence < head.next_sequence:
            return False
        where = self.where(group.index)
        first = read_one(store.read_segment, group.next_sequence, where)
        if first.parent != group.nonce:
            return False
        group.read(first, place_of(where, group.next_sequence))
        self._read(store, range(group.next_sequence + 1, head.next_sequence), head, group)
        return True

    def where(self, index: int) -> str:
        """What messages call a key group."""
        return f"operator {self._operator!r}, key group {index}"

    def restored(self, group: WorkingState, spec: TableSpec, stamp: int) -> list[TableChanges]:
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
            changes.append(
                decode_entries(section, spec, self._key_type, stamp, self.where(group.index))
            )
            if has_stamps(section) != spec.paired:
                group.rewrite = True
        return changes

    def commit(
        self,
        store: LogStorage,
        head: Head | None,
        group: WorkingState,
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
        if rewrite:
            return self._compact(store, former, group, wake_at, sweep_at, served_at)
        segments = list(divided(self._sections(changes), group, group.nonce, self._segment_bytes))
        blobs = [segment.to_bytes() for segment in segments]
        size = sum(map(len, blobs))
        next_head = attrs.evolve(
            former,
            nonce=segments[-1].nonce,
            next_sequence=group.next_sequence + len(segments),
            first_sequence=former.first_sequence if former.nonce else group.next_sequence,
            log_bytes=former.log_bytes + size,
            log_entries=former.log_entries + total(changes),
            compacted_at=former.compacted_at if former.nonce else self._cleanup.now(),
            wake_at=wake_at,
            sweep_at=sweep_at,
            identity=self._identity_text,
            served_at=served_at,
        )
        if head is not None and self._is_outgrown(next_head, group, size):
            return self._compact(store, former, group, wake_at, sweep_at, served_at)
        for segment, blob in zip(segments, blobs):
            self._append(store, group, segment, blob)
        store.write_head(next_head)
        return next_head

    def _compact(
        self,
        store: LogStorage,
        former: Head,
        group: WorkingState,
        wake_at: int | None,
        sweep_at: int | None,
        served_at: int | None,
    ) -> Head:
        """Write a snapshot in place of all segments."""
        self._metrics.compactions += 1
        self._cleanup.drop_expired()
        contents = self.contents()
        store.clear_segments()
        if not contents and not any(group.pending.values()):
            return self._erase(store, group, served_at)
        first, size = group.next_sequence, 0
        for segment in self.snapshot(group, contents):
            blob = segment.to_bytes()
            self._append(store, group, segment, blob)
            size += len(blob)
        head = attrs.evolve(
            former,
            nonce=group.nonce,
            next_sequence=group.next_sequence,
            first_sequence=first,
            log_bytes=size,
            log_entries=total(contents),
            snapshot_bytes=size,
            snapshot_entries=total(contents),
            compacted_at=self._cleanup.now(),
            wake_at=wake_at,
            sweep_at=sweep_at,
            identity=self._identity_text,
            served_at=served_at,
        )
        store.write_head(head)
        return head

    def _append(
        self, store: LogStorage, group: WorkingState, segment: Segment, blob: bytes
    ) -> None:
        store.write_segment(group.next_sequence, blob)
        group.next_sequence += 1
        group.nonce = segment.nonce
        group.rewrite = False
        self._metrics.segment_bytes += len(blob)

    def _remember(
        self,
        store: LogStorage,
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

    def snapshot(self, group: WorkingState, contents: Iterable[TableChanges]) -> Iterator[Segment]:
        """Segments that need no other: these entries, and those of undeclared states."""
        group.declared.clear()
        group.declarations.clear()
        undeclared = chain.from_iterable(group.pending.values())
        sections = chain(self._sections(contents), undeclared)
        return divided(sections, group, b"", self._segment_bytes)

    def _sections(self, changes: Iterable[TableChanges]) -> Iterator[Section]:
        for each in changes:
            declaration = Declaration.of(each.spec, self._key_type)
            for payload in encode_entries(each, self._key_type, self._segment_bytes):
                yield Section(declaration, payload)

    def _is_outgrown(self, head: Head, group: WorkingState, segment_bytes: int) -> bool:
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

    def _erase(self, store: LogStorage, group: WorkingState, served_at: int | None) -> Head:
        head = attrs.evolve(self._blank_head(), served_at=served_at)
        store.write_head(head)
        group.nonce = b""
        group.next_sequence = 0
        group.declared.clear()  # the next log has to declare its tables itself
        group.declarations.clear()
        group.rewrite = False
        return head
