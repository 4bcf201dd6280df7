# SPDX-License-Identifier: Apache-2.0
"""The contexts of a function: its states, the place where it runs, and its timers.

The runtime subclasses these classes.  To the user a context is valid during the call that receives
it.  Names and signatures are those of `pyflink.datastream`; all times are ms since the epoch.

Programs of this library, such as the window operator, have state and timers that belong to a pair:
the key, and a namespace of it, such as a window.  Users of such a program see its own names:
`window_state()`, or `get_partitioned_state` of a trigger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

from pyflinklike._messages import shown
from pyflinklike._type_vars import ACC, IN, OUT, K, T, V
from pyflinklike.errors import DeclarationError
from pyflinklike.functions.metric_group import MetricGroup
from pyflinklike.state import (
    AggregatingState,
    ListState,
    MapState,
    ReducingState,
    ValueState,
)
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.table import Setting

__all__ = [
    "Attempt",
    "KeyedStateStore",
    "NamespacedRuntimeContext",
    "NamespacedTimerService",
    "RuntimeContext",
    "StoreDeclaration",
    "TimerService",
]

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class KeyedStateStore(ABC):
    """Where a function obtains its state, as `pyflink.datastream.KeyedStateStore`.

    A state that was obtained once follows the current key by itself.  Asking twice for one name
    returns the same state.

    All five methods raise a `DeclarationError` where the name is taken by a state that is declared
    otherwise, and an `IncompatibleStateError` where the state restored under it does not fit.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Return the state that holds one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the state that holds a list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the state that holds a map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Return the state that folds each added value with a `ReduceFunction`."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
    ) -> AggregatingState[IN, OUT]:
        """Return the state that folds each added value with an `AggregateFunction`."""


class Attempt(Protocol):
    """Calls the user's function within a call of a program of ours, as a part that fails alone."""

    def __call__(
        self,
        call: Callable[[], Sequence[Any]],
        subject: Callable[[], str],
        name: str | None = None,
        *,
        settled: bool = False,
    ) -> Sequence[Any] | None:
        """Make a call; where it raises, undo what it did, put out its dead letter, and go on.

        Args:
            call: Makes it, and returns its outputs, which stay as they are.
            subject: Shows what the function was called with, once the call is undone.
            name: The name of the method, for messages; None if the traceback tells it.
            settled: Whether all stands that was done before, whatever comes.  Else it is undone if
                the whole call fails, and the letter's capsule begins before it.

        Returns:
            The outputs, which the program gives out; None if the call failed.
        """


class RuntimeContext(KeyedStateStore):
    """What a function may know of the place where it runs; `Function.open` receives it."""

    _attempt: Attempt | None = None  # for programs of ours; None if no letters are made

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the number of instances that run side by side."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the maximum parallelism, which is the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the number of this instance among the parallel ones, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return how often this instance was tried before, so 0 at first."""

    def get_task_name_with_subtasks(self) -> str:
        """Return the name with index (from 1, as in Flink) and parallelism: MyTask (3/6)."""
        index = self.get_index_of_this_subtask() + 1
        parallelism = self.get_number_of_parallel_subtasks()
        return f"{self.get_task_name()} ({index}/{parallelism})"

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return the job's parameter `key`, or the default if it is not set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group in which this function registers its metrics."""

    # Not abstract: PyFlink's contexts have none.
    def get_store(self, store_descriptor: StoreDeclaration[S]) -> S:
        """Return the store of `pyflinklike.stores` of this declaration.

        Like a state it is obtained once in `open` and follows the current key by itself; asking
        twice returns the same store.

        Raises:
            DeclarationTypeError: It is no descriptor of a store.
            DeclarationError: The name is taken by something declared otherwise.
            IncompatibleStateError: The store restored under the name does not fit.
        """
        msg = f"{type(self).__name__} has no stores, got {shown(store_descriptor)}; use state"
        raise DeclarationError(msg)


class StoreDeclaration(Protocol[S_co]):
    """The part of a store's descriptor that this layer knows: the store that it declares."""

    noun: ClassVar[str]
    """The name of its kind."""

    @property
    def name(self) -> str:
        """The name of the store, unique within the function."""

    def new_extension(self, surroundings: Any) -> Any:
        """Return what opens the stores of an operator, of what it finds around it there."""

    def new_store(self) -> S_co:
        """Make the store, which is not open yet."""


class TimerService(ABC):
    """The clock and the timers of the current key, as PyFlink's `TimerService`.

    A timer is identified by key, time and domain: registering it twice fires it once.  A timer
    never fires during its registration, however late it is.

    The methods that touch timers raise a `StateAccessError` where there is no current key.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time in ms, the same throughout a call."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the watermark in ms; MIN_WATERMARK before the first event."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the processing time reaches `timestamp`, in ms."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have `on_timer` called when the watermark reaches `timestamp`, in ms."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete that timer of the current key; if there is none, nothing happens."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete that timer of the current key; if there is none, nothing happens."""

    # PyFlink has no such method; Spark's `listTimers` has them of the one domain of a query.

    @abstractmethod
    def list_processing_time_timers(self) -> list[int]:
        """Return the times in ms of the current key's processing-time timers, ascending.

        A timer that is firing is not among them: it is removed before `on_timer` is called.
        """

    @abstractmethod
    def list_event_time_timers(self) -> list[int]:
        """Return the times in ms of the current key's event-time timers, ascending.

        A timer that is firing is not among them: it is removed before `on_timer` is called.
        """


# State and timers of a key and a namespace


class NamespacedRuntimeContext(RuntimeContext):
    """The context with which a `NamespacedFunction` is opened.

    Its other states (`get_state` and so on) belong to the key alone, as those of any function.
    """

    current: CurrentKey
    """Has the current key, and takes the current namespace."""
    timers: NamespacedTimerService
    """The clock, and the timers of the current key and namespace."""

    @abstractmethod
    def get_partitioned_state(
        self,
        name: str,
        state_descriptor: StateDescriptor[S],
        kind: str | None = None,
        settings: Sequence[Setting] = (),
    ) -> S:
        """Return the state of the current key and the current namespace.

        Args:
            name: The name of its table, unique among all states of the function.
            state_descriptor: The rest of its declaration; its own name is for messages.
            kind: The kind of state under which it is stored; state of another kind is refused.
                None takes that of the descriptor.
            settings: Other parts of the declaration that must not change between runs.

        Raises:
            DeclarationError: The name is taken by a state that is declared otherwise.
            IncompatibleStateError: The state restored under the name does not fit.
        """

    @abstractmethod
    def reserve(self, state_descriptor: StateDescriptor) -> None:
        """Reserve a state of the key for the program: a user's declaration of that name is refused.

        Args:
            state_descriptor: The very object with which the program itself obtains the state.
        """

    @abstractmethod
    def merge_namespaces(self, name: str, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the current key's contents of some namespaces of a state into another one.

        Args:
            name: The name of the state's table, which was obtained before.
            target: The namespace that receives the contents, frozen.
            sources: The namespaces that lose them, frozen.

        Raises:
            DeclarationTypeError: It is not a list, reducing or aggregating state.
        """


class NamespacedTimerService(TimerService):
    """The clock, and the timers of the current key and namespace."""

    @abstractmethod
    def has_event_time_timer(self, timestamp: int) -> bool:
        """Return whether a timer for that time, in ms, is registered."""
