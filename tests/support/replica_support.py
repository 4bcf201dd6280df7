# SPDX-License-Identifier: Apache-2.0
"""A query without Spark that a replica follows: key groups, batches, and what was written in each.

    query = FollowedQuery([ValueStateDescriptor("v", Types.LONG())])
    query.batch([("a", lambda on: on["v"].update(7))])      # key, what its record does
    replica = replica_of(query)
    assert query.ask("a", lambda on: on["v"].value()) == replica["v"].get("a")

`ask` reads as the function would in the batch that was last, and nothing of it is kept: the oracle.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import attrs

from pyflinklike import MIN_WATERMARK, HashMapStateBackend, KeyedProcessFunction, Types
from pyflinklike._changelog.log_storage import HEAD_AT, InMemoryLogStorage
from pyflinklike._changelog.operator_record import OperatorRecord, register_key_groups
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.micro_batch import Records, serve
from pyflinklike.errors import SparkSetupError
from pyflinklike.queryable_state import Position, QueryableState
from pyflinklike.queryable_state.image import Image, Share, Write, image_of, next_image
from pyflinklike.queryable_state.queryable_state import CACHE_BYTES, Settings
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.stores import StoreDescriptor

_OWNERS = itertools.count()
STRING = Types.STRING()


class Doing(KeyedProcessFunction):
    """Opens states and stores, and lets its records do what they like with them, by name."""

    def __init__(self, descriptors: Iterable[Any]) -> None:
        self.descriptors = list(descriptors)

    def open(self, runtime_context: Any) -> None:
        getters = {
            "value": runtime_context.get_state,
            "list": runtime_context.get_list_state,
            "map": runtime_context.get_map_state,
            "reducing": runtime_context.get_reducing_state,
            "aggregating": runtime_context.get_aggregating_state,
        }
        self.on = {}
        for each in self.descriptors:
            is_store = isinstance(each, StoreDescriptor)
            getter = runtime_context.get_store if is_store else getters[each.kind]
            self.on[each.name] = getter(each)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.on["timers"] = ctx.timer_service()
        yield value(self.on)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return []


class RecordingStorage(InMemoryLogStorage):
    """Notes every write, as Spark's changelog does.

    Args:
        noted: Where.
        key_group: Whose log it is.
    """

    def __init__(self, noted: list[Write], key_group: int) -> None:
        super().__init__()
        self.noted, self.key_group = noted, key_group

    def _note(self, sequence: int, blob: bytes | None) -> None:
        self.noted.append(Write(self.key_group, sequence, blob))

    def write_head(self, head: Any) -> None:
        super().write_head(head)
        self._note(HEAD_AT, head.to_bytes())

    def write_segment(self, sequence: int, blob: bytes) -> None:
        super().write_segment(sequence, blob)
        self._note(sequence, blob)

    def clear_segments(self) -> None:
        for sequence in (HEAD_AT, *self.segments):
            self._note(sequence, None)
        super().clear_segments()


@attrs.define
class _Called:
    noted: list[Write]
    blobs: dict[int, bytes] = attrs.field(factory=dict)

    def read_segment(self, sequence: int) -> bytes | None:
        return self.blobs.get(sequence)

    def write_segment(self, sequence: int, blob: bytes) -> None:
        self.blobs[sequence] = blob
        self.noted.append(Write(None, sequence, blob))


class FollowedQuery:
    """A query whose batches are committed one by one; the source of replicas, too.

    Args:
        descriptors: Of its states and stores.
        max_parallelism: How many key groups it has.
    """

    def __init__(self, descriptors: Iterable[Any], max_parallelism: int = 4) -> None:
        self.batch_id, self.oldest, self.run, self.is_away = -1, 0, 0, False
        self.now, self.watermark = 0, MIN_WATERMARK
        self.share = Share()  # of what replicas hold that are opened from now on
        self.writes: list[list[Write]] = []
        self._begin(max_parallelism)
        self.restart(descriptors)

    def _begin(self, max_parallelism: int) -> None:
        self.max_parallelism = max_parallelism
        self.noted: list[Write] = []
        self.stores = [RecordingStorage(self.noted, index) for index in range(max_parallelism)]
        self.called = _Called(self.noted)

    def restart(self, descriptors: Iterable[Any]) -> None:
        """Go on with another program."""
        self.descriptors = list(descriptors)
        # Another one is asked: it keeps nothing of a key group, so that each question is the first.
        self.operator, self.asked = self._opened(), self._opened()
        identity = self.task.identity(STRING)
        declared = self.operator.describe_states()
        self.record = OperatorRecord(identity, "Doing", "0", "UTC", None, "None", declared)

    def begin_anew(self, descriptors: Iterable[Any], max_parallelism: int) -> None:
        """As if the checkpoint was deleted, and another query wrote there."""
        self.batch_id, self.run = -1, self.run + 1
        self.writes.clear()
        self._begin(max_parallelism)
        self.restart(descriptors)

    @property
    def task(self) -> TaskInfo:
        """Of the operator."""
        columns = (("k", "string"),)
        return TaskInfo("tested", max_parallelism=self.max_parallelism, key_columns=columns)

    def _opened(self) -> Any:
        operator = make_keyed_operator(
            OperatorDeclaration(
                Doing(self.descriptors),
                HashMapStateBackend(0),
                STRING,
                self.task,
                f"followed-{next(_OWNERS)}",
            )
        )
        operator.open()
        return operator

    def group_of(self, key: Any) -> int:
        """The key group of a key."""
        return zlib.crc32(repr(key).encode()) % self.max_parallelism

    def batch(
        self,
        records: Iterable[tuple[str, Callable[[Any], Any]]],
        now: int = 0,
        watermark: int | None = None,
        *,
        compact: bool = False,
        of_timers: bool = False,
    ) -> None:
        """Process a micro-batch, and commit it; of timers only, it calls no registry."""
        self.batch_id += 1
        self.now = max(now, self.now)
        self.watermark = self.watermark if watermark is None else watermark
        by_group: dict[int, list[Any]] = {}
        for key, act in records:
            by_group.setdefault(self.group_of(key), []).append((key, act))
        if not of_timers:
            register_key_groups(self.called, self.record, by_group, self.now)
        served_at = None if of_timers else self.now
        for index, mine in by_group.items():
            self._serve(self.operator, self.stores[index], index, mine, served_at, compact=compact)
        self.writes.append(list(self.noted))
        self.noted.clear()

    def _serve(
        self,
        operator: Any,
        store: Any,
        index: int,
        records: list[Any],
        served_at: int | None,
        *,
        compact: bool = False,
    ) -> Any:
        operator.clock.processing_time, operator.clock.watermark = self.now, self.watermark
        keys = [operator.frozen_key(key) for key, _ in records]
        acts = [act for _, act in records]
        if compact:
            first = acts[0]

            def act(on: Any) -> Any:
                operator.group.rewrite()
                return first(on)

            acts[0] = act
        serve(operator, store, index, Records(keys, acts, [None] * len(acts)), served_at=served_at)
        return operator.outputs.take().main

    def ask(self, key: Any, act: Callable[[Any], Any]) -> Any:
        """What the function would read in the batch that was last; nothing of it is kept."""
        return self.ask_group(self.group_of(key), key, act)

    def ask_group(self, index: int, key: Any, act: Callable[[Any], Any]) -> Any:
        """The same in any key group."""
        store = self.stores[index]
        copy = InMemoryLogStorage(store.head, dict(store.segments))
        (found,) = self._serve(self.asked, copy, index, [(key, act)], self.now)
        return found

    # As a source

    def _position(self) -> Position:
        known = None if self.watermark == MIN_WATERMARK else self.watermark
        return Position(self.batch_id, known, 1000 * self.run + self.batch_id, lambda: 0)

    def latest(self) -> Image:
        """All of the last batch."""
        self._check()
        share = self.share.store(self.route(self.record), self.max_parallelism)
        groups = {
            index: {HEAD_AT: store.head.to_bytes(), **store.segments}
            for index, store in enumerate(self.stores)
            if store.head is not None and share.has_group(index)
        }
        clock, called = BatchClock(self.now, self.watermark), dict(self.called.blobs)
        return image_of(self._position(), clock, groups, called, "tested", share=share)

    def after(self, image: Image) -> Image | None:
        """What came since."""
        self._check()
        former = image.position.batch_id
        if image.position == self._position():
            return None
        if not self.oldest - 1 <= former < self.batch_id:
            raise SparkSetupError("these batches are gone")
        writes = [each for batch in self.writes[former + 1 :] for each in batch]
        clock = BatchClock(self.now, self.watermark)
        return next_image(image, writes, self._position(), clock, "tested")

    def _check(self) -> None:
        if self.is_away:
            raise SparkSetupError("the checkpoint cannot be reached")

    def key_type(self, record: OperatorRecord) -> Any:
        """Of the keys."""
        return STRING

    def route(self, record: OperatorRecord) -> Any:
        """Finds keys."""
        groups = record.identity.max_parallelism
        return lambda key: (STRING.freeze_key(key), zlib.crc32(repr(key).encode()) % groups)


def replica_of(source: Any, *, now: Callable[[], int] = lambda: 0, **given: Any) -> QueryableState:
    """A replica that follows when it is told to."""
    options: dict[str, Any] = {
        "states": None,
        "clock": "batch",
        "allow_scan": True,
        "allow_pickle": False,
        "cache_bytes": CACHE_BYTES,
    }
    return QueryableState(source, Settings(**options | given), now)
