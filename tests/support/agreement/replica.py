# SPDX-License-Identifier: Apache-2.0
"""One operator over one backend, driven through everything that can happen to a worker."""

from __future__ import annotations

import uuid
from enum import Enum
from typing import Any

from pyflinklike._changelog.key_group_state import KeyGroupState, LocalStateBackend
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import TimerScheduling, commit
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.contexts import NamespacedRuntimeContext, RuntimeContext
from pyflinklike.functions.process_functions import KeyedProcessFunction, NamespacedFunction
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.fold_functions import AggregateFunction
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.types import Types

__all__ = ["FiveStates", "Mode", "Replica"]

_GROUP = 3
_MAX_PARALLELISM = 8
_AT_THE_FIRST_TIMER = TimerScheduling(
    wake_at=lambda operator, _: operator.earliest_timer(operator.event_timers)
)


class _Sorted(AggregateFunction):
    """An aggregate that keeps every element in a list that it changes in place, as users do."""

    def create_accumulator(self) -> list[int]:
        """Return an empty list."""
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        """Append to the list itself."""
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        """Return the elements in order, in a list of the user's own."""
        return sorted(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        """Return both lists joined."""
        return acc_a + acc_b


class FiveStates(KeyedProcessFunction):
    """A function that declares one state of each kind and does nothing with them."""

    def __init__(
        self, ttl: StateTtlConfig | None, fired: list[tuple[Any, int]] | None = None
    ) -> None:
        self._ttl = ttl
        self.fired: list[tuple[Any, int]] = [] if fired is None else fired

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the states."""

        def with_ttl(descriptor: StateDescriptor) -> Any:
            descriptor.enable_time_to_live(self._ttl)
            return descriptor

        def joined(one: str, other: str) -> str:
            return one + other

        get = runtime_context
        numbers = Types.LIST(Types.LONG())
        self.value = get.get_state(with_ttl(ValueStateDescriptor("value", numbers)))
        self.list = get.get_list_state(with_ttl(ListStateDescriptor("list", numbers)))
        self.map = get.get_map_state(
            with_ttl(MapStateDescriptor("map", Types.STRING(), Types.STRING()))
        )
        self.reducing = get.get_reducing_state(
            with_ttl(ReducingStateDescriptor("reducing", joined, Types.STRING()))
        )
        self.aggregating = get.get_aggregating_state(
            with_ttl(AggregatingStateDescriptor("aggregating", _Sorted(), numbers))
        )

    def merge(self, state: str, target: str, source: str) -> None:
        """Merge one namespace of a state into another, where there are namespaces."""
        raise NotImplementedError

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        """Do nothing: elements are not processed."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> None:
        """Note the call."""
        self.fired.append((ctx.get_current_key(), timestamp))


class FiveStatesOfPairs(FiveStates, NamespacedFunction):
    """The same states, of pairs of a key and a namespace."""

    namespace_type = Types.LONG()

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the states."""
        assert isinstance(runtime_context, NamespacedRuntimeContext)
        self._context = runtime_context
        super().open(_OfPairs(runtime_context))  # type: ignore[arg-type]  # it has the five getters

    def merge(self, state: str, target: str, source: str) -> None:
        """Merge one namespace of a state into another."""
        self._context.merge_namespaces(state, ord(target), [ord(source)])

    def on_timer(
        self,
        timestamp: int,
        ctx: KeyedProcessFunction.OnTimerContext,
    ) -> None:
        """Note the call under its namespace."""
        namespace: Any = self._context.current.namespace
        self.fired.append((chr(namespace), timestamp))


class _OfPairs:
    """A context whose every getter declares a state of pairs of a key and a namespace."""

    def __init__(self, context: NamespacedRuntimeContext) -> None:
        self._context = context

    def get_state(self, descriptor: StateDescriptor) -> Any:
        """Return the state."""
        return self._context.get_partitioned_state(descriptor.name, descriptor)

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state


class Mode(Enum):
    """When a replica commits, and what it goes on with."""

    LAZY = "commits when it is told to, and goes on with what the backend kept"
    COLD = "commits after every step, and rebuilds its working state from the log"
    WARM = "commits after every step, and goes on with what the backend kept"


class Replica:
    """A key group over one backend, with its durable store and the workers that have served it."""

    def __init__(
        self,
        backend: StateBackend,
        ttl: StateTtlConfig | None,
        mode: Mode,
        *,
        namespaced: bool = False,
    ) -> None:
        self._states = FiveStatesOfPairs if namespaced else FiveStates
        self._fired: list[tuple[Any, int]] = []
        self._backend, self._ttl = backend, ttl
        self._workers = [self._new_worker()]
        self._at = 0
        self.mode = mode
        self.store = InMemoryLogStorage()
        self.committed = InMemoryLogStorage()
        self.load()

    def _new_worker(self) -> tuple[FiveStates, KeyedProcessOperator]:
        states = self._states(self._ttl, self._fired)
        operator = make_keyed_operator(
            OperatorDeclaration(
                states,
                self._backend,
                Types.STRING(),
                TaskInfo("agreement", max_parallelism=_MAX_PARALLELISM),
                f"agreement-{uuid.uuid4()}",
            )
        )
        operator.open()
        return states, operator

    @property
    def states(self) -> FiveStates:
        """The states of the worker that serves the group."""
        return self._workers[self._at][0]

    @property
    def operator(self) -> KeyedProcessOperator:
        """The operator of the worker that serves the group."""
        return self._workers[self._at][1]

    def close(self) -> None:
        """Close all workers, and delete what they have on the disk."""
        for _, operator in self._workers:
            operator.close()
            if isinstance(operator.backend, LocalStateBackend):
                operator.backend.discard()

    def load(self) -> None:
        """Bring what the worker has of the group up to the head, and go on with it."""
        self.operator.load(self.store, self.store.head, _GROUP)

    def lose(self) -> None:
        """Go on without any working state."""
        self.operator.load(self.store, self.store.head, KeyGroupState(_GROUP))

    def commit(self) -> None:
        """Write what changed, in a transaction that succeeds."""
        self.store = self._write()

    def _write(self) -> InMemoryLogStorage:
        trial = self.store.copy()
        commit(self.operator, trial, trial.head, waking=_AT_THE_FIRST_TIMER)
        return trial

    def step(self) -> None:
        """Commit after an operation if eager, and go on as the mode says."""
        if self.mode is Mode.COLD:
            self.commit()
            self.lose()
        elif self.mode is Mode.WARM:
            self.commit()
            self.operator.group.cache()
            self.load()

    def end_batch(self) -> None:
        """Commit, and note the state that a failed batch goes back to."""
        self.commit()
        self.committed = self.store.copy()
        self.operator.group.cache()
        self.load()

    def fail(self, *, written: bool) -> None:
        """Lose a batch; if `written`, as late as after the worker kept what it had committed."""
        if written:
            self._write()
            self.operator.group.cache()
        self.store = self.committed.copy()
        self.lose()

    def move(self, to: int) -> None:
        """Move the group from this worker, which keeps what it has, to another one."""
        self.operator.group.cache()
        now = self.operator.clock.processing_time
        while to >= len(self._workers):
            self._workers.append(self._new_worker())
        self._at = to
        self.operator.clock.processing_time = now
        self.load()

    def compact(self) -> None:
        """Commit as a snapshot."""
        self.operator.group.rewrite()
        self.end_batch()

    def restore(self, snapshot: bytes) -> None:
        """Begin anew from a snapshot, in a store of its own."""
        self.store = InMemoryLogStorage.of_snapshot(snapshot, _MAX_PARALLELISM)
        self.committed = self.store.copy()
        self.lose()

    def counts(self) -> dict[str, int]:
        """Count the entries of each state that the backend stores."""
        states = self.operator.runtime_context.assembled
        return {
            changes.spec.name: len(changes)
            for changes in self.operator.backend.contents()
            if changes.spec.name in states
        }
