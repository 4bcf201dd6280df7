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
snapshot and drops all older segments.  The same where the log is older than the
cleanup of expired entries allows.  What the commit itself changed is written first, as
a segment that the snapshot replaces at once: whoever keeps a record of what a host has
written, as Spark's state store does, can tell what each commit changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs

from pyflinklike.log.backend import KeyedStateBackend
from pyflinklike.log.compaction import LogCleanup, is_outgrown
from pyflinklike.log.counters import LogCounters
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.log.loading import catch_up, rebuilt
from pyflinklike.log.restorer import Restorer
from pyflinklike.log.segment_writer import SegmentWriter
from pyflinklike.log.segments import SEGMENT_BYTES, Section, Segment
from pyflinklike.log.storage import NO_TIMES, Head, HeadTimes, LogStorage
from pyflinklike.log.stored_entries import entries_in
from pyflinklike.log.working_state import WorkingState
from pyflinklike.state.column_changes import Changes
from pyflinklike.types import TypeInformation

__all__ = ["KeyGroupLog"]

_Written = tuple[Segment, bytes]
"""A segment, and its bytes."""


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
        self._identity = identity
        self._identity_text = identity.text
        self._operator = identity.name
        self._cleanup = cleanup
        self._metrics = metrics
        self.restorer = Restorer(backend, key_type, self.where)
        self._writer = SegmentWriter(key_type, segment_bytes)

    def where(self, index: int) -> str:
        """What messages call a key group."""
        return f"operator {self._operator!r}, key group {index}"

    # Loading

    def load(self, storage: LogStorage, head: Head | None, state: WorkingState) -> WorkingState:
        """Bring working state up to the head.

        Args:
            storage: Of the group.
            head: Read from it.
            state: What the worker still has of the group, or the state of an empty group.

        Returns:
            The same state, caught up, or a new one if it could not be used.

        Raises:
            CorruptStateError: The log is damaged.
            IncompatibleStateError: It is another operator's, or was written under another
                `max_parallelism`.
        """
        metrics = self._metrics
        metrics.key_groups += 1
        if head is None:
            return state if not state.nonce else WorkingState(state.index)
        self._check_head(head)
        if state.nonce == head.nonce:
            metrics.warm_loads += bool(head.nonce)
            return state
        if catch_up(storage, head, state, self.where(state.index)):
            metrics.caught_up_loads += 1
            return state
        return self.rebuilt(storage, head, state.index)

    def rebuilt(self, storage: LogStorage, head: Head, index: int) -> WorkingState:
        """Working state from all segments, whatever a worker still has of the group.

        Raises:
            CorruptStateError: The log is damaged.
        """
        self._metrics.cold_loads += bool(head.nonce)
        return rebuilt(storage, head, index, self.where(index))

    def _check_head(self, head: Head) -> None:
        text, identity = head.identity or self._identity_text, self._identity
        if (text, head.max_parallelism) != (self._identity_text, identity.max_parallelism):
            identity.check(OperatorIdentity.of_text(text, head.max_parallelism))

    # Committing

    def commit(
        self,
        storage: LogStorage,
        head: Head | None,
        state: WorkingState,
        times: HeadTimes = NO_TIMES,
    ) -> Head | None:
        """Make what changed in the current group durable.

        Args:
            storage: Of the group.
            head: As read by `load`.
            state: The working state that the backend has entered.
            times: To be noted in the head.

        Returns:
            The head now; None where there is none.
        """
        noted = self._noted(head, times)
        added, state.added = state.added, []
        drained = [each for each in self._backend.drain() if len(each)]
        changes = [*added, *drained]
        # Without a nonce there is nothing to rewrite: the changes are all there is.
        if (state.rewrite and state.nonce) or self._is_compaction_due(head):
            return self._compact(storage, noted, state, self._written(changes, state))
        if not changes:
            if head is None and times.served_at is None:
                return None
            if noted != head:
                storage.write_head(noted)
            return noted
        written = self._written(changes, state)
        size = sum(len(blob) for _, blob in written)
        extended = self._extended(noted, state.next_sequence, written, size, entries_in(changes))
        alive = self._backend.count() + state.pending_entries
        if head is not None and is_outgrown(extended, state.index, alive, size):
            return self._compact(storage, noted, state, written)
        for segment, blob in written:
            self._append(storage, state, segment, blob)
        storage.write_head(extended)
        return extended

    def _written(self, changes: Sequence[Changes | Section], state: WorkingState) -> list[_Written]:
        return [(each, each.to_bytes()) for each in self._writer.changed(changes, state)]

    def _noted(self, head: Head | None, times: HeadTimes) -> Head:
        """The head of the same log with what the host wants noted, and whose it is."""
        former = head or self._blank_head()
        return attrs.evolve(
            former,
            wake_at=times.wake_at,
            sweep_at=times.sweep_at,
            served_at=former.served_at if times.served_at is None else times.served_at,
            identity=self._identity_text,
        )

    def _blank_head(self) -> Head:
        return Head.blank(self._identity.max_parallelism, self._identity_text)

    def _is_compaction_due(self, head: Head | None) -> bool:
        if head is None or not head.nonce:
            return False
        return self._cleanup.is_compaction_due(head.compacted_at)

    def _extended(
        self, head: Head, sequence: int, written: Sequence[_Written], size: int, entries: int
    ) -> Head:
        """The head after these segments, the first of which gets that sequence number."""
        is_new = not head.nonce
        return attrs.evolve(
            head,
            nonce=written[-1][0].nonce,
            next_sequence=sequence + len(written),
            first_sequence=sequence if is_new else head.first_sequence,
            log_bytes=head.log_bytes + size,
            log_entries=head.log_entries + entries,
            compacted_at=self._cleanup.now() if is_new else head.compacted_at,
        )

    def _append(
        self, storage: LogStorage, state: WorkingState, segment: Segment, blob: bytes
    ) -> None:
        storage.write_segment(state.next_sequence, blob)
        state.next_sequence += 1
        state.nonce = segment.nonce
        state.rewrite = False
        self._metrics.segment_bytes += len(blob)

    # Compacting

    def _compact(
        self, storage: LogStorage, noted: Head, state: WorkingState, own: Sequence[_Written]
    ) -> Head:
        """Write a snapshot in place of all segments, after those of the commit itself."""
        self._metrics.compactions += 1
        self._write_own(storage, state, own)
        self._cleanup.drop_expired()
        contents = self.contents()
        storage.clear_segments()
        if not contents and not any(state.pending.values()):
            return self._erase(storage, noted, state)
        first, size, entries = state.next_sequence, 0, entries_in(contents) + state.pending_entries
        for segment in self.snapshot(state, contents):
            blob = segment.to_bytes()
            self._append(storage, state, segment, blob)
            size += len(blob)
        head = attrs.evolve(
            noted,
            nonce=state.nonce,
            next_sequence=state.next_sequence,
            first_sequence=first,
            log_bytes=size,
            log_entries=entries,
            snapshot_bytes=size,
            snapshot_entries=entries,
            compacted_at=self._cleanup.now(),
        )
        storage.write_head(head)
        return head

    def _write_own(self, storage: LogStorage, state: WorkingState, own: Iterable[_Written]) -> None:
        for sequence, (_, blob) in enumerate(own, state.next_sequence):
            storage.write_segment(sequence, blob)
            self._metrics.segment_bytes += len(blob)

    def contents(self) -> list[Changes]:
        """Every entry of the group in a declared table."""
        self._backend.discard_changes()
        return [each for each in self._backend.contents() if len(each)]

    def snapshot(self, state: WorkingState, contents: Iterable[Changes]) -> Iterator[Segment]:
        """Segments that need no other: these entries, and those of undeclared states."""
        return self._writer.snapshot(contents, state)

    def _erase(self, storage: LogStorage, noted: Head, state: WorkingState) -> Head:
        """Keep a head that says no more than whose it is, and who was served when."""
        head = attrs.evolve(self._blank_head(), served_at=noted.served_at)
        storage.write_head(head)
        state.nonce = b""
        state.next_sequence = 0
        state.declared.clear()  # the next log has to declare its tables itself
        state.declarations.clear()
        state.rewrite = False
        return head
