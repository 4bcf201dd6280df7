# SPDX-License-Identifier: Apache-2.0
"""The working state of one key group, which a worker may cache between batches.

It may be stale: another worker may have served the group since.  So the log compares its nonce with
the head's, and brings it up to date (`pyflinklike._changelog.key_group_log`).

The timers are an index (`TimerHeap`) over the table that stores them, so that the next timer is found
without a scan.  The table is the truth: the log and savepoints know only it, and the heap is built from
it when a key group is loaded.

`KeyedStateBackend` has the methods of a backend that the log and the runtime call.  States see only
`pyflinklike.state.table.Tables` of it.  The implementation of both is
`pyflinklike.backends.state_backend.KeyedBackend`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, Protocol, runtime_checkable

import attrs

from pyflinklike._changelog.entry_codec import entries_in
from pyflinklike._changelog.segments import Declaration, Section, Segment
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import CorruptStateError
from pyflinklike.state.table import RESERVED_PREFIX, Changes, Shape, Tables, TableSpec
from pyflinklike.types import TypeInformation, Types


@attrs.define
class KeyGroupState:
    """The working state of one key group.

    Args:
        index: Index of the key group.
        nonce: Nonce of the last commit in this state; empty for an empty group.
        next_sequence: Number of the first segment that is not in this state.
        tables: The backend's data, by table name.
        timers: Heaps of timers, by time domain; the next timer of a domain comes first.
        declared: Ids of the tables that the log has declared since its snapshot, by name.
        declarations: Declarations of the tables in the log, by id.
        pending: Sections read but not yet applied, by table name.  Sections of states that the
            program does not declare stay here.
        added: Entries that a savepoint has added and the next commit must log.  They are changes
            of declared tables, and sections of others; the latter are in `pending`, too.
        rewrite: Whether the next commit must be a snapshot.
    """

    index: int
    nonce: bytes = b""
    next_sequence: int = 0
    tables: dict[str, Any] = attrs.field(factory=dict)
    timers: dict[TimeDomain, TimerHeap] = attrs.field(factory=dict)
    declared: dict[str, int] = attrs.field(factory=dict)
    declarations: dict[int, Declaration] = attrs.field(factory=dict)
    pending: dict[str, list[Section]] = attrs.field(factory=dict)
    added: list[Changes | Section] = attrs.field(factory=list)
    rewrite: bool = False

    def read(self, segment: Segment, where: str) -> None:
        """Take in a segment; its entries are decoded once their table is declared."""
        for table_id, declaration in segment.declarations.items():
            self.declarations[table_id] = declaration
            self.declared[declaration.name] = table_id
        for table_id, payload in segment.sections:
            declaration_of = self.declarations.get(table_id)
            if declaration_of is None:
                msg = f"{where}: a segment must declare its tables, got table id {table_id}"
                raise CorruptStateError(msg)
            self.keep(Section(declaration_of, payload, where))
            if declaration_of.name.startswith(RESERVED_PREFIX):
                # The heaps are derived from the table that these entries change: build them anew.
                self.timers.clear()
        self.nonce = segment.nonce

    @property
    def pending_entries(self) -> int:
        """The number of entries in the pending sections."""
        return entries_in(chain.from_iterable(self.pending.values()))

    def keep(self, section: Section) -> None:
        """Keep a section until its table is declared."""
        self.pending.setdefault(section.declaration.name, []).append(section)


class KeyedStateBackend(Tables, Protocol):
    """The tables of one operator, pointed at one key group at a time."""

    owner: str
    """The operator whose state this is; set anew after a `release`, before the next task."""

    def enter(self, index: int, tables: dict[str, Any]) -> None:
        """Point every table at the working state of a key group.

        Args:
            index: Index of the key group.
            tables: The backend's data of the group, by table name.  The caller keeps it for the
                backend; it is empty if the group has no working state.
        """

    def takes_columns(self, spec: TableSpec) -> bool:
        """Return whether `apply` takes the entries of a table as columns, not one by one."""

    def expect(self, keys: Sequence[Hashable]) -> None:
        """Take note that records of these keys come next in the current key group.

        It changes no entry: a backend may read ahead what calls for these keys will likely use.

        Args:
            keys: The frozen keys in the order of the records, each as often as it has records.
        """

    def drain(self) -> Sequence[Changes]:
        """Return the changes since the last drain; the next drain does not return them again."""

    def discard_changes(self) -> None:
        """Forget which entries changed, because a snapshot holds them all."""

    def apply(self, changes: Any) -> None:
        """Take over entries that a restore has read; they do not count as changed."""

    def contents(self) -> Sequence[Changes]:
        """Return every entry of the key group, as changes to an empty one."""

    def count(self) -> int:
        """Count the entries of the key group in all tables."""

    def pop_cached(self, index: int) -> KeyGroupState | None:
        """Remove the working state of a key group from the cache and return it, or None.

        It is removed so that the half-changed state of a failed batch is never found again.  It
        may be stale: the caller compares its nonce with the head's.
        """

    def cache(self, state: KeyGroupState) -> None:
        """Keep the working state of a committed key group for a later batch, if there is room."""

    def release(self) -> None:
        """Release at the end of a task what another process may need, such as a lock on files.

        The next task uses the same tables, and may belong to another owner.
        """

    def close(self) -> None:
        """Release everything; the backend is not used again."""


@runtime_checkable
class LocalStateBackend(KeyedStateBackend, Protocol):
    """A backend whose working state is on a disk and may be damaged there.

    If data can no longer be read, `enter`, `apply` and `cache` raise a `LocalStateError`.  The
    other methods rebuild the data; they raise the error only if `rebuild_from` was called with
    None.
    """

    def rebuild_from(self, logged: Callable[[], Iterable[Changes]] | None) -> None:
        """Set how the current key group can be rebuilt while the runtime works on it.

        Args:
            logged: Reads every entry as it was before the batch, as changes to an empty group.
                None if the log can no longer give them.
        """

    def discard(self) -> None:
        """Close the backend, and delete its data."""


# Timers


_IDLE_TIMES = 256


def timers_table(domain: TimeDomain) -> str:
    """Return the name of the table that keeps a domain's timers."""
    return f"{RESERVED_PREFIX}{domain.name.lower()}_timers"


def timers_spec(domain: TimeDomain, namespace_type: TypeInformation | None = None) -> TableSpec:
    """Declare the table that keeps a domain's timers, under their times.

    Args:
        domain: The kind of time.
        namespace_type: Type of the namespaces, if timers belong to a key and a namespace.
    """
    return TableSpec(
        timers_table(domain),
        Shape.MAP,
        "timers",
        user_key_type=Types.LONG(),
        namespace_type=namespace_type,
    )


@attrs.define
class TimerHeap:
    """The timers of one key group by their time.

    Args:
        keys_at: For each time in ms, the keys that have a timer then.  Times without keys are left
            out.
        times: A binary heap of these times.  It may also have times without timers, since deleting
            from the middle of a heap is slow.
    """

    keys_at: dict[int, dict[Hashable, None]] = attrs.field(factory=dict)
    times: list[int] = attrs.field(factory=list)

    @classmethod
    def of(cls, timers: Iterable[tuple[Hashable, int, Any]]) -> TimerHeap:
        """Build the heap from a scan of the timers' table."""
        keys_at: dict[int, dict[Hashable, None]] = {}
        for key, timestamp, _ in timers:
            keys_at.setdefault(timestamp, {})[key] = None
        # A sorted list is a heap.
        return cls(keys_at, sorted(keys_at))

    def drop_idle_times(self) -> None:
        """Forget times without timers if they are the majority, or far times would pile up."""
        if len(self.times) > 2 * len(self.keys_at) + _IDLE_TIMES:
            self.times[:] = sorted(self.keys_at)
