# SPDX-License-Identifier: Apache-2.0
"""A worker over the log of one key group, without an operator."""

from collections.abc import Callable
from typing import Any

import attrs

from pyflinklike._changelog.key_group_log import KeyGroupLog
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import HeadTimes, InMemoryLogStorage
from pyflinklike._changelog.operator_record import OperatorIdentity
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types import Types

COUNT = TableSpec("count", Shape.SINGLE, "value", Types.LONG())


@attrs.define
class Cleanup:
    """What a log is told of expiry: a time, a period, and what a compaction deletes."""

    before: Callable[[], object] = bool
    period: int = 0
    time: int = 0

    def now(self) -> int:
        """By assignment."""
        return self.time

    def is_compaction_due(self, compacted_at: int) -> bool:
        """By age."""
        return bool(self.period) and self.time - compacted_at >= self.period

    def drop_expired(self) -> None:
        """What the test wants."""
        self.before()


class Worker:
    """A process that has some tables and works on key group 0."""

    def __init__(
        self, *specs: TableSpec, max_parallelism: int = 8, before: Callable[[], object] = bool
    ) -> None:
        self.cleanup = Cleanup(before)
        self.metrics = OperatorMetrics()
        self.backend = HashMapStateBackend().create_keyed_state_backend(CurrentKey(), "tested")
        self.specs = specs or (COUNT,)
        self.tables = {spec.name: self.backend.table(spec) for spec in self.specs}
        self.now = 0
        self.log = KeyGroupLog(
            self.backend,
            Types.STRING(),
            OperatorIdentity("totals", max_parallelism),
            self.cleanup,
            self.metrics,
        )
        self.group = KeyGroupState(0)

    def load(self, store: InMemoryLogStorage, group: KeyGroupState | None = None) -> KeyGroupState:
        """Bring the group up to the head; what is warm is used if it may be."""
        self.group = self.log.load(store, store.head, self.group if group is None else group)
        self.backend.enter(0, self.group.tables)
        for spec in self.specs:
            for changes in self.log.restorer.restore(self.group, spec, self.now):
                self.backend.apply(changes)
        return self.group

    def put(self, key: str, entry: Any, table: str = "count") -> None:
        """Put an entry."""
        self.backend.current.key = key
        self.tables[table].put(None, entry)

    def delete(self, key: str) -> None:
        """Delete an entry."""
        self.backend.current.key = key
        self.tables["count"].delete(None)

    def commit(self, store: InMemoryLogStorage, wake_at: int | None = None) -> Any:
        """Commit; the head now."""
        return self.log.commit(store, store.head, self.group, HeadTimes(wake_at))

    def batch(self, store: InMemoryLogStorage, **entries: int) -> None:
        """Load what is warm, put, commit."""
        self.load(store)
        for key, entry in entries.items():
            self.put(key, entry)
        self.commit(store)

    def contents(self, table: str = "count") -> dict[Any, Any]:
        """The entries of a table."""
        return {key: entry for key, _, entry in self.tables[table].scan()}


def read_cold(store: InMemoryLogStorage) -> dict[str, Any]:
    """What a new worker finds."""
    worker = Worker()
    worker.load(store)
    return worker.contents()
