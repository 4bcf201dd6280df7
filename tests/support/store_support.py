# SPDX-License-Identifier: Apache-2.0
"""A store in an operator, driven through a worker's life, for tests that compare it with a model.

    player = Player(descriptor, 0)
    player.do(lambda store: store.put("a", 1), key="k", timestamp=5)
    player.commit()                       # what a micro-batch ends with
    player.live("restart")                # or "lose", "warm", "move"

A life verb never changes what the store holds.
"""

from __future__ import annotations

import importlib.util
import tempfile
import uuid
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tasks import opened

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    StateBackend,
)
from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._runtime.micro_batch import commit
from pyflinklike.stores import ChangelogRecord, StoreDescriptor
from pyflinklike.stores.store_codec import INT_SIZE, read_int

_GROUP, _GROUPS = 3, 8
_DIRECTORY = tempfile.TemporaryDirectory()
LIFE = st.sampled_from(["commit", "commit", "lose", "warm", "restart", "move"])


def sequences(step: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """Many steps, or few: what goes wrong goes wrong late, and is understood when it is short.

    Args:
        step: One of them.
    """
    # Left to itself, Hypothesis draws lists of 5 on average, whatever they may hold.
    return st.lists(step, min_size=20, max_size=40) | st.lists(step, max_size=6)


def _backends() -> list[StateBackend]:
    backends: list[StateBackend] = [HashMapStateBackend()]
    if importlib.util.find_spec("rocksdict") is not None:
        rocks = EmbeddedRocksDBStateBackend()
        rocks.set_db_storage_paths(_DIRECTORY.name)
        backends.append(rocks)
    return backends


BACKENDS = _backends()
"""Those that are installed."""


class _Doer(KeyedProcessFunction):
    """Does to its store what its elements say."""

    def __init__(self, descriptor: StoreDescriptor) -> None:
        self._descriptor = descriptor

    def open(self, runtime_context: Any) -> None:
        self.store = runtime_context.get_store(self._descriptor)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.result = value(self.store)


class Player:
    """One store in one operator over one backend, with its durable log.

    Args:
        descriptor: Of the store.
        backend: Index into `BACKENDS`.
    """

    def __init__(self, descriptor: StoreDescriptor, backend: int) -> None:
        self.descriptor = descriptor
        self._backend = backend
        self._owner = f"player-{uuid.uuid4()}"
        self.durable = InMemoryLogStorage()
        self.records: list[ChangelogRecord] = []
        self._watermark: int | None = None
        self._open()
        self.operator.load(self.durable, None, _GROUP)

    def _open(self) -> None:
        self._doer = _Doer(self.descriptor)
        self.operator = opened(self._doer, BACKENDS[self._backend], owner=self._owner)
        if self._watermark is not None:
            self.operator.clock.watermark = self._watermark

    def do(self, action: Callable[[Any], Any], key: str = "k", timestamp: int | None = None) -> Any:
        """What `action(store)` gives in `process_element`."""
        self.operator.process([key], [action], [timestamp])
        return self._doer.result

    def watermark(self, watermark: int) -> None:
        """Move the watermark."""
        self._watermark = watermark
        self.operator.clock.watermark = watermark

    def commit(self) -> None:
        """End the micro-batch."""
        commit(self.operator, self.durable, self.durable.head)
        outputs = self.operator.outputs.take()
        _, records = outputs.side.get(self.descriptor.changelog_tag.tag_id, ([], []))
        self.records += records

    def live(self, verb: str) -> None:
        """Commit, and go on with working state that is lost, warm, of a new process, or moved."""
        self.commit()
        operator, durable = self.operator, self.durable
        if verb == "lose":
            operator.load(durable, durable.head, KeyGroupState(_GROUP))
        elif verb == "warm":
            operator.group.cache()
            operator.load(durable, durable.head, _GROUP)
        elif verb in ("restart", "move"):
            blob = operator.snapshot() if verb == "move" else b""
            operator.close()
            if verb == "move":
                self._backend = (self._backend + 1) % len(BACKENDS)
                self._owner = f"player-{uuid.uuid4()}"
            self._open()
            if verb == "move":
                self.durable = InMemoryLogStorage.of_snapshot(blob, _GROUPS)
            self.operator.load(self.durable, self.durable.head, _GROUP)

    def count(self, name: str | None = None) -> int:
        """How many entries the store's table holds, expired ones included."""
        wanted = name or self.descriptor.name
        return sum(
            len(each) for each in self.operator.backend.contents() if each.spec.name == wanted
        )

    def times(self) -> set[int]:
        """The times of a window store's entries, expired ones included."""
        return {
            read_int(user_key, -INT_SIZE)
            for each in self.operator.backend.contents()
            if each.spec.name == self.descriptor.name
            for user_key in each.user_keys
        }

    def redeclare(self, descriptor: StoreDescriptor) -> None:
        """Go on in a new process with another declaration of the store."""
        self.commit()
        self.operator.close()
        self.descriptor = descriptor
        self._open()
        self.operator.load(self.durable, self.durable.head, _GROUP)

    def close(self) -> None:
        """Close the operator."""
        self.operator.close()


def replayed(records: list[ChangelogRecord]) -> dict[Any, Any]:
    """What a compacted topic of these records holds."""
    contents: dict[Any, Any] = {}
    for record in records:
        if record.op == "put":
            contents[record.key] = record.value
        else:
            contents.pop(record.key, None)
    return contents
