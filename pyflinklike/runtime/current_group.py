# SPDX-License-Identifier: Apache-2.0
"""The key group that an operator works on: how it becomes current, and how its batch ends.

`load` makes a key group current and brings it up to the head of its log.  `enter` makes one
current with working state as it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from pyflinklike.errors import DeclarationError, LocalStateError
from pyflinklike.log.backend import KeyedStateBackend, LocalStateBackend
from pyflinklike.log.chain import joined
from pyflinklike.log.key_group_log import KeyGroupLog
from pyflinklike.log.savepoint import sections_of
from pyflinklike.log.segments import Segment
from pyflinklike.log.storage import Head, HeadTimes, LogStorage
from pyflinklike.log.working_state import WorkingState
from pyflinklike.runtime.timer_queue import Timers
from pyflinklike.state.assembly import Assembled
from pyflinklike.state.table import TableChanges, TableSpec
from pyflinklike.types.pickle_switch import check_pickled

__all__ = ["CurrentGroup"]


class CurrentGroup:
    """Points the tables and timers of an operator at one key group at a time.

    Args:
        backend: Holds the entries of tables.
        log: Reads and writes the durable form.
        assembled: The states by name; the mapping may grow.
        queues: The timer queue of each domain.
        allow_pickle: Whether a table of pickles may be declared.
    """

    def __init__(
        self,
        backend: KeyedStateBackend,
        log: KeyGroupLog,
        assembled: Mapping[str, Assembled],
        queues: Iterable[Timers],
        *,
        allow_pickle: bool = True,
    ) -> None:
        self.backend = backend
        # Asked once, not for each key group: `isinstance` looks at every method of the protocol.
        self._local = backend if isinstance(backend, LocalStateBackend) else None
        self._log = log
        self._assembled = assembled
        self._queues = tuple(queues)
        self._allow_pickle = allow_pickle
        self._state: WorkingState | None = None
        self.specs = [queue.table.spec for queue in self._queues]
        """The specs of all tables, those of timers first."""

    @property
    def state(self) -> WorkingState:
        """The working state of the current key group, which must exist."""
        assert self._state is not None
        return self._state

    def where(self, index: int) -> str:
        """Name a key group for messages."""
        return self._log.where(index)

    def position(self) -> dict[int, int]:
        """Return the first segment that the working state lacks, by key group; empty without a group."""
        state = self._state
        return {} if state is None else {state.index: state.next_sequence}

    # The tables

    def declare(self, spec: TableSpec) -> None:
        """Fill a new table with its restored entries, now and whenever a key group is entered.

        Args:
            spec: The spec of a table that the backend has made.

        Raises:
            DeclarationError: A broadcast state has the table's name.
            DeclarationValueError: The table holds pickles, which are refused.
            IncompatibleStateError: The restored entries were written under another declaration.
        """
        if any(each.is_replicated and each.name == spec.name for each in self.specs):
            msg = f"{spec.name!r} is already declared as broadcast state, got another state"
            raise DeclarationError(f"{msg} of that name; rename one")
        if not self._allow_pickle:
            check_pickled(f"state {spec.name!r}", spec.value_type, spec.user_key_type)
        self.specs.append(spec)
        if self._state is not None:
            self._fill(self._state, spec)

    def _fill(self, state: WorkingState, spec: TableSpec) -> None:
        for changes in self._log.restorer.restored(state, spec, self._stamp_of(spec)):
            self.backend.apply(changes)

    def _stamp_of(self, spec: TableSpec) -> int:
        """Return the stamp in ms for entries that were written before TTL was switched on."""
        assembled = self._assembled.get(spec.name)
        return 0 if assembled is None or assembled.ttl is None else assembled.ttl.stamp()

    # To make a key group current

    def load(
        self, storage: LogStorage, head: Head | None, state: WorkingState | int
    ) -> WorkingState:
        """Make a key group current, brought up to its head.

        Args:
            storage: The host's storage of that group.
            head: The head that the storage has; None without one.
            state: Working state that the caller has kept of the group, or the index of the
                group to use what the backend has kept.

        Returns:
            The working state in use now, which may be another one than `state`.

        Raises:
            CorruptStateError: The log is damaged.
            IncompatibleStateError: The log is another operator's, or a table was written under
                another declaration.
        """
        index = state if isinstance(state, int) else state.index
        try:
            if isinstance(state, int):
                # Out of the warm cache while it is worked on: if its batch fails, it is gone.
                state = self.backend.take_warm(index) or WorkingState(index)
            state = self._log.load(storage, head, state)
            self.enter(state)
        except LocalStateError:
            if head is None:
                raise
            # Local files are damaged; the log holds the same state.
            state = self._log.rebuilt(storage, head, index)
            self.enter(state)
        self._rebuild_from(storage, head, index)
        return state

    def enter(self, state: WorkingState) -> None:
        """Make a key group current, with its working state as it is."""
        # The log of the former group cannot rebuild this one.
        self._rebuild_no_more()
        self._state = state
        self.backend.enter(state.index, state.tables)
        for spec in self.specs:
            self._fill(state, spec)
        for queue in self._queues:
            queue.enter(state.timers)
        for assembled in self._assembled.values():
            if assembled.ttl is not None:
                assembled.ttl.entered()

    def add(self, snapshot: Segment, where: str) -> None:
        """Add the entries of a savepoint to the current key group.

        Args:
            snapshot: Entries of a savepoint, none of which the group has already.
            where: Names the savepoint in messages.

        Raises:
            CorruptStateError: The savepoint is damaged.
            IncompatibleStateError: A state was written under another declaration.
        """
        state, specs = self.state, {each.name: each for each in self.specs}
        for section in sections_of([snapshot], where):
            spec = specs.get(section.declaration.name)
            stamp = 0 if spec is None else self._stamp_of(spec)
            changes = self._log.restorer.added(state, section, spec, stamp)
            if changes is not None:
                self.backend.apply(changes)
        state.timers.clear()  # agendas are derived from the timers' table, which may have changed
        self.enter(state)

    def leave(self) -> None:
        """Leave the current key group, so that no table holds on to it."""
        self.enter(WorkingState(0))
        self._state = None

    def _rebuild_from(self, storage: LogStorage, head: Head | None, index: int) -> None:
        """Let the backend rebuild the current key group while it is worked on."""
        if head is None or self._local is None:
            return

        def logged() -> Iterator[TableChanges]:
            former = self._log.rebuilt(storage, head, index)
            for spec in self.specs:
                yield from self._log.restorer.restored(former, spec, self._stamp_of(spec))

        self._local.rebuild_from(logged)

    def _rebuild_no_more(self) -> None:
        if self._local is not None:
            self._local.rebuild_from(None)

    # What happens to the current key group

    def commit(self, storage: LogStorage, head: Head | None, times: HeadTimes) -> Head | None:
        """Log the changes as `KeyGroupLog.commit` does, and return the new head, if any."""
        head = self._log.commit(storage, head, self.state, times)
        self._rebuild_no_more()  # the log has changed: it must not be read by the former head
        return head

    def rewrite(self) -> None:
        """Make the next commit write the whole key group, in place of its former log."""
        self.state.rewrite = True

    def keep_warm(self) -> None:
        """Let the backend keep the working state, once nothing of the batch can fail here."""
        # Damaged local state is not kept, and the batch need not fail: the log has the same entries.
        with contextlib.suppress(LocalStateError):
            self.backend.keep_warm(self.state)

    def settle(self) -> None:
        """End a batch for a host without a log, and go on with what the backend has kept.

        Raises:
            HostError: The backend could not keep it.
        """
        state = self.state
        changed = any(map(len, self.backend.drain()))
        self.backend.keep_warm(state)
        if changed and self._local is not None:
            self._local.release()  # as the end of a task does
        self.enter(self.backend.take_warm(state.index) or state)

    def snapshot(self, contents: Iterable[TableChanges]) -> bytes:
        """Return the key group as one segment, without a change of the working state.

        Args:
            contents: The entries of the declared tables.
        """
        copy = WorkingState(self.state.index, pending=self.state.pending)
        segments = self._log.snapshot(copy, [each for each in contents if len(each)])
        return joined(segments).to_bytes()
