# SPDX-License-Identifier: Apache-2.0
"""Key groups: their working state, their durable log, and the rule that ties the two.

Keys are hashed into `max_parallelism` key groups, as in Flink (`KeyGroupRangeAssignment`).  For
each key group a host keeps a `Head` and a map of segments (`LogStorage`), and commits both with its
own transaction.  A worker caches the *working state* of the groups that it served.

**Which working state may be used.**  Suppose that a worker has cached a group after batch 7.  Spark
may have run batch 8 in another worker, or batch 7 may have failed after this worker had finished
its part, or a speculative copy of the same task may have won.  A version number would not
distinguish these cases, because both attempts at batch 7 write version 7.  So:

    Every commit draws a fresh random nonce and writes it into its segment, its working state and
    the head.  Working state may be used only if its nonce is the head's.

Each segment also names its parent: the nonce of the state that it was made from.  So there are
three cases when a group is loaded.  In this picture, an arrow leads to the parent, and the head is
at `d`:

    snapshot a <- b <- c <- d
                  b <- x

    working state d           use it as it is ("warm")
    working state a, b or c   read only the segments after it, up to d ("caught up")
    working state x, or none  read all segments, from a to d ("cold")

`x` is a commit that never became durable.  Its segment had the number of `c`, so the next one to
read would be `d`; but `d` names `c` as its parent and not `x`, which shows that `x` is stale.
Even if a host retries, speculates, moves or kills a task, stale or half-written working state is
never used.  Spark's rule that makes this necessary is in its
[StateStore](https://github.com/apache/spark/blob/master/sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/state/StateStore.scala):
each attempt at a batch starts from the version that the batch before committed.

**Compaction.**  A log is append-only, so entries that were overwritten or deleted stay in it.  Once
the log weighs more than twice what is alive in it (`is_outgrown`), a commit writes one snapshot and
drops all older segments.  It does the same if the log is older than the cleanup of expired entries
allows, or if the program drops a state, whose entries then leave the log.

**States that the program has not declared yet** stay in the working state as undecoded sections
(`KeyGroupState.pending`).  They are decoded when the program declares their state, since only the
declaration says which types they have now; a snapshot copies the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol

import attrs

from pyflinklike._changelog.entry_codec import (
    decode_columns,
    decode_entries,
    encode_columns,
    encode_entries,
    entries_in,
    has_stamps,
)
from pyflinklike._changelog.key_group_state import KeyedStateBackend, KeyGroupState
from pyflinklike._changelog.log_storage import NO_TIMES, Head, HeadTimes, LogStorage
from pyflinklike._changelog.operator_record import OperatorIdentity, is_of_state
from pyflinklike._changelog.segment_chain import divide, read_chain, read_one, segment_name
from pyflinklike._changelog.segments import SEGMENT_BYTES, Declaration, Section, Segment
from pyflinklike.state.table import Changes, ColumnChanges, TableSpec
from pyflinklike.types import TypeInformation

_Written = tuple[Segment, bytes]
"""A segment with its bytes."""


class KeyGroupLog:
    """Load and commit the key groups of one operator over one backend.

    Args:
        backend: Holds the working state.
        key_type: Type in which keys are written to segments.
        identity: The operator that the program is; a head of another one is refused.
        cleanup: Says when a log is too old, and deletes expired entries before a snapshot.
        metrics: Counts loads, compactions and bytes.
        segment_bytes: Largest plain body of a segment with more than one entry, in bytes.
        drop_states: The names of states that the program drops: their entries leave the log.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        key_type: TypeInformation,
        identity: OperatorIdentity,
        cleanup: LogCleanup,
        metrics: LogCounters,
        segment_bytes: int = SEGMENT_BYTES,
        drop_states: Collection[str] = (),
    ) -> None:
        self._drop_states = frozenset(drop_states)
        self._backend = backend
        self._identity = identity
        self._identity_text = identity.text
        self._operator = identity.name
        self._cleanup = cleanup
        self._metrics = metrics
        self.restorer = Restorer(backend, key_type, self.where)
        self._writer = SegmentWriter(key_type, segment_bytes)

    def where(self, index: int) -> str:
        """Name a key group for messages."""
        return f"operator {self._operator!r}, key group {index}"

    # Loading

    def load(self, storage: LogStorage, head: Head | None, state: KeyGroupState) -> KeyGroupState:
        """Bring working state up to the head.

        Args:
            storage: The host's storage of the group's log.
            head: The group's head, as read from `storage`; None if the group has no log yet.
            state: The working state that the worker has cached, or the state of an empty group.

        Returns:
            The same state, caught up, or a new one if it could not be used.

        Raises:
            CorruptStateError: The log is damaged.
            IncompatibleStateError: The log is another operator's, or was written under another
                `max_parallelism`.
        """
        metrics = self._metrics
        metrics.key_groups += 1
        if head is None:
            # If the state has a nonce but there is no head, its commit never became durable.
            return state if not state.nonce else KeyGroupState(state.index)
        self._check_head(head)
        if state.nonce == head.nonce:
            metrics.warm_loads += bool(head.nonce)
            return state
        if catch_up(storage, head, state, self.where(state.index)):
            metrics.caught_up_loads += 1
            return state
        return self.rebuilt(storage, head, state.index)

    def rebuilt(self, storage: LogStorage, head: Head, index: int) -> KeyGroupState:
        """Build working state from all segments, even if a worker has cached some.

        Raises:
            CorruptStateError: The log is damaged.
        """
        self._metrics.cold_loads += bool(head.nonce)
        return rebuilt(storage, head, index, self.where(index))

    def _check_head(self, head: Head) -> None:
        text, identity = head.identity or self._identity_text, self._identity
        # Texts are compared first, because parsing JSON for each group of each batch is slow.
        if (text, head.max_parallelism) != (self._identity_text, identity.max_parallelism):
            identity.check(OperatorIdentity.of_text(text, head.max_parallelism))

    # Committing

    def commit(
        self,
        storage: LogStorage,
        head: Head | None,
        state: KeyGroupState,
        times: HeadTimes = NO_TIMES,
    ) -> Head | None:
        """Make what changed in the current group durable.

        Args:
            storage: The host's storage of the group's log.
            head: The head that `load` was given.
            state: The working state that the backend has entered.
            times: Times for the head to note.

        Returns:
            The head after the commit; None if the group has neither state nor a time to note.
        """
        noted = self._note(head, times)
        # Only in a batch with records: the registry notes such a batch, and so it can say later
        # which key groups have lost the state.
        if times.served_at is not None:
            self._drop(state)
        added, state.added = state.added, []
        drained = [each for each in self._backend.drain() if len(each)]
        changes = [*added, *drained]
        # A state without a nonce has no log to rewrite: the changes are all that it holds.
        if (state.rewrite and state.nonce) or self._is_compaction_due(head):
            return self._compact(storage, noted, state, self._write_segments(changes, state))
        if not changes:
            if head is None and times.served_at is None:
                return None
            if noted != head:
                storage.write_head(noted)
            return noted
        written = self._write_segments(changes, state)
        size = sum(len(blob) for _, blob in written)
        extended = self._extend(noted, state.next_sequence, written, size, entries_in(changes))
        alive = self._backend.count() + state.pending_entries
        if head is not None and is_outgrown(extended, state.index, alive, size):
            return self._compact(storage, noted, state, written)
        # The head goes last, so it names only segments that exist, even if the host dies between
        # two writes.
        for segment, blob in written:
            self._append(storage, state, segment, blob)
        storage.write_head(extended)
        return extended

    def _drop(self, state: KeyGroupState) -> None:
        """Forget the states that the program drops; the commit then writes a log without them."""
        for table in [each for each in state.pending if self.is_dropped(each)]:
            self._metrics.dropped_entries += entries_in(state.pending.pop(table))
            state.rewrite = True

    def is_dropped(self, table: str) -> bool:
        """Return whether a table belongs to a state or store that the program drops."""
        return bool(self._drop_states) and is_of_state(table, self._drop_states)

    def _write_segments(
        self, changes: Sequence[Changes | Section], state: KeyGroupState
    ) -> list[_Written]:
        return [(each, each.to_bytes()) for each in self._writer.write_changes(changes, state)]

    def _note(self, head: Head | None, times: HeadTimes) -> Head:
        """Return the head of the same log with the operator's identity and the times to note."""
        former = head or self._blank_head()
        return attrs.evolve(
            former,
            wake_at=times.wake_at,
            sweep_at=times.sweep_at,
            served_at=former.served_at if times.served_at is None else times.served_at,
            identity=self._identity_text,
            dead_letters=times.letters.letters,
            dead_letter_calls=times.letters.calls,
        )

    def _blank_head(self) -> Head:
        return Head.blank(self._identity.max_parallelism, self._identity_text)

    def _is_compaction_due(self, head: Head | None) -> bool:
        if head is None or not head.nonce:
            return False
        return self._cleanup.is_compaction_due(head.compacted_at)

    def _extend(
        self, head: Head, sequence: int, written: Sequence[_Written], size: int, entries: int
    ) -> Head:
        """Return the head after these segments; `sequence` is the number of the first one."""
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
        self, storage: LogStorage, state: KeyGroupState, segment: Segment, blob: bytes
    ) -> None:
        storage.write_segment(state.next_sequence, blob)
        state.next_sequence += 1
        state.nonce = segment.nonce
        state.rewrite = False
        self._metrics.segment_bytes += len(blob)

    # Compacting

    def _compact(
        self, storage: LogStorage, noted: Head, state: KeyGroupState, own: Sequence[_Written]
    ) -> Head:
        """Write a snapshot in place of all segments, after the segments of the commit itself."""
        self._metrics.compactions += 1
        # The snapshot replaces these segments at once, so no load reads them.  But Spark's own
        # changelog files keep every write, and a reader of changes finds there what each batch
        # changed, even a batch that compacts.
        self._write_own(storage, state, own)
        # Entries expire before the contents are taken, or the snapshot would keep them.
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

    def _write_own(
        self, storage: LogStorage, state: KeyGroupState, own: Iterable[_Written]
    ) -> None:
        for sequence, (_, blob) in enumerate(own, state.next_sequence):
            storage.write_segment(sequence, blob)
            self._metrics.segment_bytes += len(blob)

    def contents(self) -> list[Changes]:
        """Return every entry of the group in a declared table, and forget which entries changed."""
        self._backend.discard_changes()
        return [each for each in self._backend.contents() if len(each)]

    def snapshot(self, state: KeyGroupState, contents: Iterable[Changes]) -> Iterator[Segment]:
        """Write a self-contained chain of segments: these entries and undeclared states' entries."""
        return self._writer.snapshot(contents, state)

    def _erase(self, storage: LogStorage, noted: Head, state: KeyGroupState) -> Head:
        """Write the head of an empty group: it keeps the operator, `served_at` and dead letters."""
        head = attrs.evolve(
            self._blank_head(),
            served_at=noted.served_at,
            dead_letters=noted.dead_letters,
            dead_letter_calls=noted.dead_letter_calls,
        )
        storage.write_head(head)
        state.nonce = b""
        state.next_sequence = 0
        state.declared.clear()  # the next log has to declare its tables itself
        state.declarations.clear()
        state.rewrite = False
        return head


# Segments written, and sections restored


@attrs.frozen
class SegmentWriter:
    """Write segments for one operator.

    Args:
        key_type: Type in which keys are written.
        segment_bytes: Largest plain body of a segment with more than one entry, in bytes.
    """

    key_type: TypeInformation
    segment_bytes: int

    def write_changes(
        self, changes: Iterable[Changes | Section], state: KeyGroupState
    ) -> Iterator[Segment]:
        """Write the changes of one commit as segments that follow the state; one segment at least.

        Args:
            changes: Changes, and sections that are written as they are.  If there are none, the
                segment is empty.
            state: State before the commit; learns which tables are declared.
        """
        return divide(self._sections(changes), state, state.nonce, self.segment_bytes)

    def snapshot(self, contents: Iterable[Changes], state: KeyGroupState) -> Iterator[Segment]:
        """Write a self-contained chain of segments: these entries and undeclared states' entries.

        Args:
            contents: Every entry of the declared tables.
            state: State of the group; learns which tables are declared, and forgets all others.
        """
        state.declared.clear()
        state.declarations.clear()
        undeclared = chain.from_iterable(state.pending.values())
        sections = chain(self._sections(contents), undeclared)
        return divide(sections, state, b"", self.segment_bytes)

    def _sections(self, changes: Iterable[Changes | Section]) -> Iterator[Section]:
        for each in changes:
            if isinstance(each, Section):
                yield each
                continue
            declaration = Declaration.of(each.spec, self.key_type)
            encode = encode_columns if isinstance(each, ColumnChanges) else encode_entries
            for payload in encode(each, self.key_type, self.segment_bytes):
                yield Section(declaration, payload)


@attrs.frozen
class Restorer:
    """Read sections for one operator, in the form that its backend takes.

    Args:
        backend: Says whether it takes the entries of a table as columns.
        key_type: The program's type of keys.
        where: Names a key group for messages.
    """

    backend: KeyedStateBackend
    key_type: TypeInformation
    where: Callable[[int], str]

    def restore(self, state: KeyGroupState, spec: TableSpec, stamp: int) -> list[Changes]:
        """Decode the entries of a table that were read but not yet applied.

        Args:
            state: Holds the sections as `pending`, and loses them.
            spec: The program's declaration of the table.
            stamp: Stamp for entries written before TTL was switched on, in ms.

        Raises:
            IncompatibleStateError: The entries were written under another declaration.
        """
        changes = []
        for section in state.pending.pop(spec.name, ()):
            changes.append(self._entries(state, section, spec, stamp))
            # If no snapshot followed, the next load from the log would stamp these entries anew,
            # and entries that are never written again would keep their former settings for ever.
            if has_stamps(section) != spec.paired or section.declaration.settings != spec.settings:
                state.rewrite = True
        return changes

    def add(
        self, state: KeyGroupState, section: Section, spec: TableSpec | None, stamp: int
    ) -> Changes | None:
        """Decode a section of a savepoint, and leave its entries to the next commit to log.

        Args:
            state: State of the group; keeps the section undecoded if `spec` is None.
            section: Entries that are not in the group yet.
            spec: The program's declaration of the table, or None.
            stamp: Stamp for entries written before TTL was switched on, in ms.

        Raises:
            IncompatibleStateError: The entries were written under another declaration.
        """
        if spec is None:
            state.keep(section)
            state.added.append(section)
            return None
        changes = self._entries(state, section, spec, stamp)
        state.added.append(changes)
        return changes

    def _entries(
        self, state: KeyGroupState, section: Section, spec: TableSpec, stamp: int
    ) -> Changes:
        section.declaration.check(Declaration.of(spec, self.key_type))
        decode = decode_columns if self.backend.takes_columns(spec) else decode_entries
        return decode(section, spec, self.key_type, stamp, self.where(state.index))


# Working state read from the log


def rebuilt(storage: LogStorage, head: Head, index: int, where: str) -> KeyGroupState:
    """Build working state from all segments.

    Args:
        storage: The host's storage of the group's log.
        head: The head, which says which segments count.
        index: Index of the key group.
        where: Name of the group, for messages.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    state = KeyGroupState(index)
    _read(storage, range(head.first_sequence, head.next_sequence), head, state, where)
    state.next_sequence = head.next_sequence
    return state


def catch_up(storage: LogStorage, head: Head, state: KeyGroupState, where: str) -> bool:
    """Replay the segments since the working state, if it is an ancestor of the head.

    Args:
        storage: The host's storage of the group's log.
        head: The head, to which the state is brought up.
        state: The working state that a worker has cached; changed only if it is an ancestor.
        where: Name of the group, for messages.

    Returns:
        Whether the state was an ancestor, and is now the state at the head.

    Raises:
        CorruptStateError: A segment is missing, damaged, or not made from the one before.
    """
    # If the state is older than the last snapshot, the segments that it lacks are deleted.
    if not state.nonce or not head.first_sequence < state.next_sequence < head.next_sequence:
        return False
    first = read_one(storage.read_segment, state.next_sequence, where)
    # A failed attempt may have used the same number for its own segment: `x` in the picture above.
    if first.parent != state.nonce:
        return False
    state.read(first, segment_name(where, state.next_sequence))
    _read(storage, range(state.next_sequence + 1, head.next_sequence), head, state, where)
    state.next_sequence = head.next_sequence
    return True


def _read(
    storage: LogStorage, sequences: range, head: Head, state: KeyGroupState, where: str
) -> None:
    segments = read_chain(storage.read_segment, sequences, state.nonce, head.nonce, where)
    for name, segment in segments:
        state.read(segment, name)


# Compaction


_FLOOR_BYTES = 4096
"""Bytes by which any log may be too large, so that a small one is not compacted again and again."""
_STAGGER = 64


class LogCleanup(Protocol):
    """The knowledge of expired entries that a log asks for."""

    def now(self) -> int:
        """Return the processing time in ms."""

    def is_compaction_due(self, compacted_at: int) -> bool:
        """Return whether a log whose last snapshot was written at that time, in ms, is too old."""

    def drop_expired(self) -> None:
        """Delete the expired entries that a compaction must not keep."""


def is_outgrown(head: Head, index: int, alive: int, segment_bytes: int) -> bool:
    """Return whether a log weighs more than 2 to 2.5 times a snapshot of what is alive in it.

    Args:
        head: Head of the log as it would be after this commit.
        index: Index of the key group.
        alive: Number of entries in the group.
        segment_bytes: Bytes that this commit writes, which a snapshot would not save.
    """
    if head.log_bytes <= _FLOOR_BYTES + segment_bytes:
        return False
    # The size of an entry is measured in the last snapshot if there is one.  In many small commits
    # an entry takes more bytes, and a log measured by them grew to three times a snapshot.
    if head.snapshot_entries:
        each = head.snapshot_bytes / head.snapshot_entries
    else:
        each = head.log_bytes / max(head.log_entries, 1)
    # Groups fill at the same pace.  If all had one limit, one micro-batch would compact them all.
    limit = 2.5 - (index % _STAGGER) / (2 * _STAGGER)
    return head.log_bytes > _FLOOR_BYTES + limit * alive * each


class LogCounters(Protocol):
    """Counts of loads and commits."""

    key_groups: int
    """Key groups loaded."""
    warm_loads: int
    """Key groups whose working state could be used as it was."""
    caught_up_loads: int
    """Key groups whose working state was brought up to date."""
    cold_loads: int
    """Key groups rebuilt from their log."""
    dropped_entries: int
    """Entries of dropped states that left the log."""
    compactions: int
    """Logs replaced by a snapshot, or deleted because the group had become empty."""
    segment_bytes: int
    """Bytes written to the log."""
