# SPDX-License-Identifier: Apache-2.0
"""The contexts of a function: its task, states and metrics in `open`, and `ctx` in every other call.

One object of each kind serves all calls of an operator.  Its class depends on the function: there
are contexts for functions with keys, with keys and namespaces, and without keys.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeVar

import attrs

from pyflinklike._changelog.operator_record import OperatorIdentity
from pyflinklike._clock import Clock, TimeDomain
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._runtime.operator_metrics import OperatorMetrics
from pyflinklike._runtime.outputs import Outputs
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StateAccessError,
)
from pyflinklike.functions.contexts import (
    NamespacedRuntimeContext,
    NamespacedTimerService,
    RuntimeContext,
    StoreDeclaration,
    TimerService,
)
from pyflinklike.functions.metric_group import MetricGroup
from pyflinklike.functions.process_functions import KeyedProcessFunction, ProcessFunction
from pyflinklike.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from pyflinklike.state.current_key import NO_KEY, CurrentKey
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.state_assembly import Assembled, assemble, merge_namespaces
from pyflinklike.state.table import Setting, Tables, TableSpec
from pyflinklike.state.write_buffer import WriteBuffer
from pyflinklike.types import TypeInformation

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
        job_parameters: The values that `get_job_parameter` returns, by name.
        key_columns: Names and types of the columns that make the key; empty without columns.
        batch: The number of the micro-batch; None for a host without micro-batches.
    """

    name: str
    index: int = 0
    parallelism: int = 1
    max_parallelism: int = 128
    attempt: int = 0
    job_parameters: Mapping[str, str] = attrs.field(factory=dict)
    key_columns: tuple[tuple[str, str], ...] = ()
    batch: int | None = None

    def identity(self, key_type: TypeInformation) -> OperatorIdentity:
        """Return the identity that ties the operator to its state."""
        return OperatorIdentity(
            self.name, self.max_parallelism, self.key_columns, key_type.signature
        )


@attrs.frozen
class OperatorParts:
    """The parts of an operator that every function invoker works with.

    Args:
        key_type: Thaws keys for messages.
        current: Holds the current key, which the invoker assigns.
        clock: Holds the timestamp of the current element, which the invoker assigns.
        context: The `ctx` that the function gets.
        before_every_call: Functions to call before every record and timer; the list may grow.
        metrics: Counts the timers that fire.
        outputs: Gathers outputs until the host takes them.
        guard: Undoes failed calls and turns them into dead letters.  If None, a failed call fails
            the query.
    """

    key_type: TypeInformation
    current: CurrentKey
    clock: Clock
    context: Any
    before_every_call: Sequence[Callable[[], None]]
    metrics: OperatorMetrics
    outputs: Outputs
    guard: Any = None


class OperatorRuntimeContext(RuntimeContext):
    """Answers the questions of a function about its task, and makes each of its states once.

    Args:
        task: The task that this instance serves.
        surroundings: The parts of the operator that states and stores need.
        assembled: The states by name; this object adds an entry for each new state.
        extensions: The extensions of the operator; the first store that is declared adds one.
    """

    def __init__(
        self,
        task: TaskInfo,
        surroundings: Surroundings,
        assembled: dict[str, Assembled],
        extensions: list[Extension],
    ) -> None:
        self._task = task
        self._surroundings = surroundings
        self._backend = surroundings.backend
        self._clock = surroundings.clock
        self._on_table = surroundings.on_table
        self._metrics = MetricGroup()
        self._specs: list[TableSpec] = []
        self._taken: list[StateDescriptor[Any]] = []
        self.assembled = assembled
        """The states made so far, by name."""
        self.extensions = extensions
        """The extensions of the operator; the list may grow."""
        self.before_every_call: list[Callable[[], None]] = []
        """The steps of TTL, and of stores if there are any, before every record and timer."""
        self.task_answers: dict[str, int] = {}
        """The fields of the task that the function asked for, if they differ from task to task."""

    @property
    def task(self) -> TaskInfo:
        """The task that is served."""
        return self._task

    def resume(self, task: TaskInfo) -> None:
        """Switch to another task of the same operator."""
        self._task = task

    def fits(self, task: TaskInfo) -> bool:
        """Return whether a task has the same values as the function got from its own task."""
        return all(getattr(task, name) == value for name, value in self.task_answers.items())

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
        # Noted: a function that stays open for a task of another index would use a wrong number.
        self.task_answers["index"] = self._task.index
        return self._task.index

    def get_attempt_number(self) -> int:
        """Return the number of earlier attempts of this task."""
        # Noted as well: a function that stays open would take the second attempt for the first.
        self.task_answers["attempt"] = self._task.attempt
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
        # A store may have more tables, which are named `<name>/...`.
        taken = [each for each in self.assembled if each.partition("/")[0] == name]
        if taken:
            msg = f"{taken[0]!r} is already declared as a state, got a store {name!r}; rename one"
            raise DeclarationError(msg)
        _check_store(store_descriptor)
        if not self.extensions:
            extension: Extension = store_descriptor.new_extension(self._surroundings)
            self.extensions.append(extension)
            self.before_every_call.append(extension.begin_call)
        store: S = self.extensions[0].open(store_descriptor)
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

    def end_open(self) -> None:
        """End `open` of the function; from then on other functions may use its descriptors.

        Raises:
            DeclarationError: A descriptor got its TTL only after its state was made.
        """
        # Not checked later: a program may give the descriptor to another function, with another
        # TTL.
        taken, self._taken = self._taken, []
        for each in taken:
            made = self.assembled.get(each.name)
            if made is not None and each.ttl_config != made.ttl_config:
                msg = (
                    f"state {each.name!r} was made from its descriptor with ttl={made.ttl_config!r}, "
                    f"got enable_time_to_live({each.ttl_config!r}) afterwards; call it before open() "
                    "obtains the state"
                )
                raise DeclarationError(msg)

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor]) -> S:
        if not isinstance(descriptor, wanted):
            remedy = instance_of(StateDescriptor, descriptor, "use its own getter")
            msg = f"this getter takes a {wanted.__name__}, got {short_repr(descriptor)}; {remedy}"
            raise DeclarationTypeError(msg)
        assembled = self.assembled.get(descriptor.name)
        if assembled is not None:
            return assembled.check(descriptor)
        if any(descriptor.name in each for each in self.extensions):
            msg = (
                f"{descriptor.name!r} is already declared as a store or as part of one, "
                "got a state of that name; rename one"
            )
            raise DeclarationError(msg)
        self._taken.append(descriptor)
        return self._make(descriptor, descriptor.spec())

    def _make(self, descriptor: StateDescriptor[S], spec: TableSpec) -> S:
        """Make a new state over a table of this spec."""
        made = assemble(descriptor, self._backend, self._clock, spec)
        self.assembled[spec.name] = made
        if made.ttl is not None and made.ttl.sweeps_every_record:
            self.before_every_call.append(made.ttl.sweep_some)
        self._on_table(spec)
        self._specs.append(spec)
        return made.state


def _check_store(descriptor: Any) -> None:
    """Refuse an object that does not declare a store.

    Raises:
        DeclarationTypeError: It is not a descriptor of a kind of store.
    """
    if isinstance(descriptor, type) or not hasattr(descriptor, "noun"):
        remedy = "for example KeyValueStoreDescriptor(name, key_type, value_type)"
        if hasattr(descriptor, "new_extension"):
            remedy = instance_of(descriptor, descriptor, remedy)
        msg = f"get_store takes a descriptor of a kind of store, got {short_repr(descriptor)}; {remedy}"
        raise DeclarationTypeError(msg)


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


class ClockReadings:
    """The clock times, for contexts without a timer service."""

    _clock: Clock

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._clock.processing_time

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._clock.watermark


# With namespaces


class NamespacedOperatorContext(OperatorRuntimeContext, NamespacedRuntimeContext):
    """An `OperatorRuntimeContext` that also has states of namespaces.

    Args:
        *common: The arguments of an `OperatorRuntimeContext`.
        namespace_type: The type of the namespaces.
        timers: The timer service of the current key and namespace.
    """

    def __init__(
        self,
        *common: Any,
        namespace_type: TypeInformation,
        timers: NamespacedTimerService,
    ) -> None:
        super().__init__(*common)
        self.current = self._backend.current
        self.timers = timers
        self._namespace_type = namespace_type
        self._reserved: dict[str, StateDescriptor[Any]] = {}

    def get_partitioned_state(
        self,
        name: str,
        state_descriptor: StateDescriptor[S],
        kind: str | None = None,
        settings: Sequence[Setting] = (),
    ) -> S:
        """Return a state of the current key and the current namespace."""
        made = self.assembled.get(name)
        if made is not None:
            return made.check(state_descriptor)
        own = state_descriptor.spec()
        spec = attrs.evolve(
            own,
            name=name,
            kind=kind or state_descriptor.kind,
            namespace_type=self._namespace_type,
            settings=(*own.settings, *settings),
        )
        return self._make(state_descriptor, spec)

    def reserve(self, state_descriptor: StateDescriptor[Any]) -> None:
        """Reserve a state's name for the program, so that the user's function cannot declare it."""
        self._reserved[state_descriptor.name] = state_descriptor

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor[Any]]) -> S:
        if isinstance(descriptor, StateDescriptor):
            owner = self._reserved.get(descriptor.name)
            if owner is not None and owner is not descriptor:
                # The windows have states of their own beside the user's.
                msg = f"{descriptor.name!r} is the name of a state of the windows' own, got a state"
                raise DeclarationValueError(f"{msg} of that name; choose another name")
        return super()._get(descriptor, wanted)

    def merge_namespaces(self, name: str, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the entries of the current key from some namespaces of a state into another one."""
        merge_namespaces(self.assembled[name], self.current, target, sources)


# Without keys


NO_TIMERS: Mapping[TimeDomain, PyflinklikeError] = {
    domain: StateAccessError(
        "Register timers is only supported on a keyed stream, got one without keys; call key_by "
        "before process, and subclass KeyedProcessFunction"
    )
    for domain in TimeDomain
}
"""The error that a registration of a timer raises."""


class UnkeyedCallContext(ProcessFunction.Context):
    """The `ctx` of a `ProcessFunction` or `CoProcessFunction`; one object serves all calls.

    Args:
        clock: The operator's clock, set by its host.
        timers: Shows the clock, and refuses every registration.
    """

    domain: TimeDomain | None = None
    """None: no timer ever fires."""
    fired_at: int | None = None

    def __init__(self, clock: Clock, timers: TimerService) -> None:
        self._clock = clock
        self._timers = timers

    def timestamp(self) -> int | None:
        """Return the event time of the element in ms, or None."""
        return self._clock.timestamp

    def timer_service(self) -> TimerService:
        """Return the service that shows the clock."""
        return self._timers


class UnkeyedOperatorContext(OperatorRuntimeContext):
    """An `OperatorRuntimeContext` without states and stores, since these belong to keys."""

    def get_store(self, store_descriptor: Any) -> NoReturn:
        """Refuse every store.

        Raises:
            DeclarationError: Always: the function's elements have no keys.
        """
        raise _no_keys("store", store_descriptor)

    def _get(self, descriptor: StateDescriptor[S], wanted: type[StateDescriptor]) -> S:  # noqa: ARG002
        raise _no_keys("state", descriptor)


def _no_keys(noun: str, descriptor: Any) -> DeclarationError:
    return DeclarationError(
        f"a {noun} belongs to keys, got {short_repr(descriptor)} in a function whose elements have no keys; "
        "call key_by before, and give a function for keyed streams"
    )


# Extensions of an operator


@attrs.frozen(kw_only=True)
class Surroundings:
    """The parts of an operator that its states and extensions use.

    Args:
        backend: Makes the tables, and holds their entries.
        clock: Has both times; an extension never asks for the processing time.
        key_type: Thaws the current key.
        application: The name of the operator, the first part of changelog names.
        on_table: Fills a new table with its restored entries.
        emit: Sends a value to a side output; the last argument is the key that it belongs to.
        wants: Returns whether the side output of a tag id is read.
        timestamp: Returns the time of the current element or timer in ms, or None.
        position: Returns the first segment that the working state lacks, by key group.
        write_buffer: Holds the writes of a call until it succeeds; None if they go to the tables at
            once.
    """

    backend: Tables
    clock: Clock
    key_type: TypeInformation
    application: str
    on_table: Callable[[TableSpec], None]
    emit: Callable[[Any, Any, Any], None]
    wants: Callable[[str], bool]
    timestamp: Callable[[], int | None]
    position: Callable[[], dict[int, int]]
    write_buffer: WriteBuffer | None = None


class Extension(Protocol):
    """Adds its own tables to an operator, and follows the operator's calls and batches.

    `StoreRegistry` is one; the first descriptor of a store that a function declares makes it.
    """

    def __contains__(self, name: object) -> bool:
        """Return whether a table of this name belongs to the extension."""

    def open(self, descriptor: Any) -> Any:
        """Return the declared object: the same one for the same declaration.

        Raises:
            DeclarationError: The descriptor is not one of this extension, or its name is taken.
            IncompatibleStateError: The state restored under the name does not fit.
        """

    def get(self, name: str) -> Any:
        """Return the object that was opened under a name."""

    def describe(self) -> dict[str, dict[str, Any]]:
        """Describe each opened object by name, as plain data for the operator record."""

    def begin_call(self) -> None:
        """Begin a record or timer."""

    def flush(self) -> None:
        """End the micro-batch of the current key group, which may add outputs."""

    def drop_expired(self) -> None:
        """Delete expired entries of the current key group."""

    def close(self) -> None:
        """Close all opened objects, which cannot be used after that."""
