# SPDX-License-Identifier: Apache-2.0
"""Contexts of a function: its task, states and metrics in `open`, and `ctx` in every other call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from pyflinklike.api.context import RuntimeContext, StoreDeclaration, TimerService
from pyflinklike.api.metrics import MetricGroup
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.clock import Clock, TimeDomain
from pyflinklike.errors import DeclarationError, DeclarationTypeError, StateAccessError
from pyflinklike.log.identity import OperatorIdentity
from pyflinklike.runtime.extension import Extension
from pyflinklike.shown import instance_of, shown
from pyflinklike.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from pyflinklike.state.assembly import Assembled, assemble
from pyflinklike.state.current_key import NO_KEY, CurrentKey
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.table import Tables, TableSpec
from pyflinklike.types import TypeInformation

__all__ = ["CallContext", "OperatorRuntimeContext", "TaskInfo"]

ACC = TypeVar("ACC")
IN = TypeVar("IN")
K = TypeVar("K")
OUT = TypeVar("OUT")
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")


@attrs.frozen
class TaskInfo:
    """The task that an operator instance serves.

    Args:
        name: The name of the operator.
        index: The number of this parallel instance, from 0.
        parallelism: The number of instances that run side by side.
        max_parallelism: The number of key groups.
        attempt: The number of earlier attempts of this task.
        job_parameters: The answers of `get_job_parameter`.
        key_columns: Names and types of the columns that make the key; empty without columns.
    """

    name: str
    index: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt: int = 0
    job_parameters: Mapping[str, str] = attrs.field(factory=dict)
    key_columns: tuple[tuple[str, str], ...] = ()

    def identity(self, key_type: TypeInformation) -> OperatorIdentity:
        """Return the identity that ties the operator to its state."""
        return OperatorIdentity(
            self.name, self.max_parallelism, self.key_columns, key_type.signature
        )


class OperatorRuntimeContext(RuntimeContext):
    """Answers a function's questions, and makes each of its states once.

    Args:
        task: The task that the function is told of.
        backend: Makes the tables of states.
        clock: Gives TTL the time.
        assembled: Filled with the states by name.
        on_table: Fills each new table with its restored entries.
        stores: Opens the stores of `get_store`.
    """

    def __init__(
        self,
        task: TaskInfo,
        backend: Tables,
        clock: Clock,
        assembled: dict[str, Assembled],
        on_table: Callable[[TableSpec], None],
        stores: Extension,
    ) -> None:
        self._task = task
        self._backend = backend
        self._clock = clock
        self._on_table = on_table
        self._stores = stores
        self._metrics = MetricGroup()
        self._specs: list[TableSpec] = []
        self.assembled = assembled
        """The states made so far, by name."""
        self.before_every_call: list[Callable[[], None]] = []
        """The steps of TTL, and of stores if there are any, before every record and timer."""
        self.told: dict[str, int] = {}
        """The fields that the function has asked for, of those that differ from task to task."""

    def resume(self, task: TaskInfo) -> None:
        """Switch to another task of the same operator."""
        self._task = task

    def fits(self, task: TaskInfo) -> bool:
        """Return whether a task agrees with all that the function was told of its own."""
        return all(getattr(task, name) == value for name, value in self.told.items())

    def get_task_name(self) -> str:
        """Return the name of the operator."""
        return self._task.name

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of instances that run side by side."""
        return self._task.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._task.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """Return the number of this instance, from 0."""
        # Noted, since a function that stays open for another task would go by a wrong number.
        self.told["index"] = self._task.index
        return self._task.index

    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts of this task."""
        # Noted as well: the second attempt of a task once took itself for the first.
        self.told["attempt"] = self._task.attempt
        return self._task.attempt

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a parameter of the job, or the default."""
        return self._task.job_parameters.get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        """Return the group in which the function registers its metrics."""
        return self._metrics

    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Return the declared value state: the same object for the same declaration."""
        return self._get(state_descriptor, ValueStateDescriptor)

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the declared list state: the same object for the same declaration."""
        return self._get(state_descriptor, ListStateDescriptor)

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the declared map state: the same object for the same declaration."""
        return self._get(state_descriptor, MapStateDescriptor)

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Return the declared reducing state: the same object for the same declaration."""
        return self._get(state_descriptor, ReducingStateDescriptor)

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
    ) -> AggregatingState[IN, OUT]:
        """Return the declared aggregating state: the same object for the same declaration."""
        return self._get(state_descriptor, AggregatingStateDescriptor)

    def get_store(self, store_descriptor: StoreDeclaration[S]) -> S:
        """Return the declared store: the same object for the same declaration."""
        name = getattr(store_descriptor, "name", None)
        # A store's other tables are called `<name>/...`.
        taken = [each for each in self.assembled if each.partition("/")[0] == name]
        if taken:
            msg = f"{taken[0]!r} is already declared as a state, got a store {name!r}; rename one"
            raise DeclarationError(msg)
        store: S = self._stores.open(store_descriptor)
        if self._stores.begin_call not in self.before_every_call:
            self.before_every_call.append(self._stores.begin_call)
        return store

    def state_of(self, descriptor: StateDescriptor[S]) -> S:
        """Return the declared state, of any kind."""
        return self._get(descriptor, StateDescriptor)

    def keys_of(self, name: str) -> list[Any]:
        """Return the keys of the current key group that have a state, in their frozen form.

        Args:
            name: The name of a state that was obtained before.
        """
        spec = next(each for each in self._specs if each.name == name)
        return list(dict.fromkeys(key for key, _, _ in self._backend.table(spec).scan()))

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor]) -> S:
        if not isinstance(descriptor, wanted):
            remedy = instance_of(StateDescriptor, descriptor, "use its own getter")
            msg = f"this getter takes a {wanted.__name__}, got {shown(descriptor)}; {remedy}"
            raise DeclarationTypeError(msg)
        assembled = self.assembled.get(descriptor.name)
        if assembled is not None:
            return assembled.checked(descriptor)
        if descriptor.name in self._stores:
            msg = (
                f"{descriptor.name!r} is already declared as a store, or part of one, "
                "got a state of that name; rename one"
            )
            raise DeclarationError(msg)
        return self._made(descriptor, descriptor.spec())

    def _made(self, descriptor: StateDescriptor[S], spec: TableSpec) -> S:
        """Make a new state over a table of this spec."""
        made = assemble(descriptor, self._backend, self._clock, spec)
        self.assembled[spec.name] = made
        if made.ttl is not None and made.ttl.sweeps_every_record:
            self.before_every_call.append(made.ttl.sweep_some)
        self._on_table(spec)
        self._specs.append(spec)
        return made.state


class CallContext(KeyedProcessFunction.OnTimerContext):
    """The `ctx` of a function; one object serves all calls.

    Args:
        clock: The operator's clock, set by its host.
        current: Holds the current key in its frozen form.
        key_type: Thaws the current key.
        timers: The timer service of the current key.
    """

    def __init__(
        self, clock: Clock, current: CurrentKey, key_type: TypeInformation, timers: TimerService
    ) -> None:
        self._clock = clock
        self._current = current
        self._key_type = key_type
        self._timers = timers
        self.domain: TimeDomain | None = None
        """The domain of the timer that fires; None while an element is processed."""
        self.fired_at: int | None = None
        """The time of the timer that fires, in ms."""

    def get_current_key(self) -> Any:
        """Return the key of the element or timer."""
        key = self._current.key
        if key is NO_KEY:
            msg = "there is a current key only while process_element or on_timer runs, got none"
            raise StateAccessError(msg)
        return self._key_type.thaw_key(key)

    def timestamp(self) -> int | None:
        """Return the time of the element or timer in ms, or None."""
        return self._clock.timestamp if self.domain is None else self.fired_at

    def timer_service(self) -> TimerService:
        """Return the service with the clock and the timers of the current key."""
        return self._timers

    def time_domain(self) -> TimeDomain:
        """Return the domain of the timer that fires."""
        if self.domain is None:
            msg = "a time domain belongs to a timer, got a call outside on_timer"
            raise StateAccessError(msg)
        return self.domain
