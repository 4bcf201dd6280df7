# SPDX-License-Identifier: Apache-2.0
"""The events in a worker's life between the operations, as rules of the machine."""

from __future__ import annotations

import copy
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import rule

from pyflinklike.testing.agreement.operations import Operations
from pyflinklike.testing.agreement.replica import Replica

__all__ = ["WorkersLife"]

workers = st.integers(0, 2)


class WorkersLife(Operations):
    """Commits, losses, moves, failures, compaction and exchanged snapshots."""

    def _all(self, event: Callable[[Replica], None]) -> None:
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            event(replica)

    @rule()
    def end_batch(self) -> None:
        """Commit, and go on with what the worker kept."""
        self._all(Replica.end_batch)
        self.committed = copy.deepcopy(self.model)

    @rule()
    def lose_working_state(self) -> None:
        """Commit, and go on without working state."""
        self._all(Replica.end_batch)
        self._all(Replica.lose)
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()

    @rule(to=workers)
    def move(self, to: int) -> None:
        """Commit, and go on in a worker that has an old working state, or none."""
        self._all(Replica.end_batch)
        self._all(lambda replica: replica.move(to))
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()

    @rule(written=st.booleans(), back=st.booleans())
    def fail_batch(self, written: bool, back: bool) -> None:
        """Go back to before the batch, but not in time, also with what a worker kept of it."""
        for replica in self.replicas:
            replica.operator.clock.processing_time = self.model.now
            replica.fail(written=written)
            if back:
                replica.load()
        now = self.model.now
        self.model = copy.deepcopy(self.committed)
        self.model.now = now
        self.agree_on_counts()

    @rule()
    def compact(self) -> None:
        """Commit as a snapshot."""
        self._all(Replica.compact)
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()

    @rule()
    def exchange_snapshots(self) -> None:
        """Let each replica go on from what another one wrote."""
        snapshots = [replica.operator.snapshot() for replica in self.replicas]
        for replica, snapshot in zip(self.replicas, snapshots[1:] + snapshots[:1]):
            replica.restore(snapshot)
        self.committed = copy.deepcopy(self.model)
        self.agree_on_counts()
