# SPDX-License-Identifier: Apache-2.0
"""The contexts of a function: its states, its parallel instance, and its timers.

The runtime derives from these classes.  A user may use a context only during the call that receives it.
Names and signatures are PyFlink's (`pyflink.datastream`); all times are ms since the epoch.

Programs of this library, such as the window operator, keep some state and timers under a pair: a key and
a *namespace* of that key, such as a window.  Users of such a program see the program's own names for it:
`window_state()`, or `get_partitioned_state` of a trigger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

from pyflinklike._messages import short_repr
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

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class KeyedStateStore(ABC):
    """The object from which a function gets its states, as `pyflink.datastream.KeyedStateStore`.

    A function gets each state once, in `open`, and the state follows the current key by itself.  A
    second call with the same name returns the same state.

    All five methods raise a `DeclarationError` if the function has declared another state under the
    name, and an `IncompatibleStateError` if the state restored under the name does not fit.
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
    """Calls the user's function inside a call of a program of ours, so that it can fail alone."""

    def __call__(
        self,
        call: Callable[[], Sequence[Any]],
        subject: Callable[[], str],
        name: str | None = None,
        *,
        settled: bool = False,
    ) -> Sequence[Any] | None:
        """Make a call; if it raises, undo what it did, write its dead letter, and go on.

        Args:
            call: Makes the call and returns its outputs, which this does not change.
            subject: Returns what the function was called with, as text; used after the call is undone.
            name: The name of the method, for messages; None if the traceback has it.
            settled: Whether everything done before this call stays, whatever happens.  Otherwise it
                is undone if the whole call fails, and the letter's failure snapshot begins before it.

        Returns:
            The outputs, which the program emits; None if the call failed.
        """


class RuntimeContext(KeyedStateStore):
    """The facts about a function's operator and instance; `Function.open` receives this object."""

    _attempt: Attempt | None = None  # for programs of ours; None if failures make no dead letters

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
        """Return how often this instance was started before; 0 for the first attempt."""

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

    # Not abstract, because PyFlink's contexts do not have it.
    def get_store(self, store_descriptor: StoreDeclaration[S]) -> S:
        """Return the store of `pyflinklike.stores` that a descriptor declares.

        A function gets a store once, in `open`, like a state, and the store follows the current key
        by itself.  A second call returns the same store.

        Raises:
            DeclarationTypeError: The argument is no descriptor of a store.
            DeclarationError: The function has declared something else under the name.
            IncompatibleStateError: The store restored under the name does not fit.
        """
        msg = f"{type(self).__name__} has no stores, got {short_repr(store_descriptor)}; use state"
        raise DeclarationError(msg)


class StoreDeclaration(Protocol[S_co]):
    """The part of a store's descriptor that functions use: it makes the store."""

    @property
    def noun(self) -> str:
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

    A timer is identified by key, time and domain, so it fires once even if it is registered twice.
    A timer never fires during its registration, however late it is.

    The methods that touch timers raise a `StateAccessError` if there is no current key.

    Example:
        ```python
        def process_element(self, value, ctx):
            in_a_minute = ctx.timestamp() + 60_000
            ctx.timer_service().register_event_time_timer(in_a_minute)

        def on_timer(self, timestamp, ctx):
            yield ctx.get_current_key(), "a minute has passed"
        ```
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the processing time in ms, the same throughout a call."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return the watermark in ms; MIN_WATERMARK before the first event."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Let `on_timer` be called when the processing time reaches `timestamp`, in ms."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Let `on_timer` be called when the watermark reaches `timestamp`, in ms."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Delete the current key's timer at that time; if there is no such timer, do nothing."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Delete the current key's timer at that time; if there is no such timer, do nothing."""

    # PyFlink cannot list timers.  Spark's `listTimers` can, but a query of Spark's has only one domain.

    @abstractmethod
    def list_processing_time_timers(self) -> list[int]:
        """Return the times in ms of the current key's processing-time timers, ascending.

        A timer that is firing is not in the list: it is removed before `on_timer` is called.
        """

    @abstractmethod
    def list_event_time_timers(self) -> list[int]:
        """Return the times in ms of the current key's event-time timers, ascending.

        A timer that is firing is not in the list: it is removed before `on_timer` is called.
        """


# State and timers of a key and a namespace


class NamespacedRuntimeContext(RuntimeContext):
    """The context that `open` of a `NamespacedFunction` receives.

    Its other states (`get_state` and so on) belong to the key alone, like the states of any function.
    """

    current: CurrentKey
    """The current key, and the current namespace, which the function sets."""
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
            name: The name of the state's table, which no other state of the function has.
            state_descriptor: The rest of its declaration; messages use the descriptor's own name.
            kind: The kind of state under which it is stored; restored state of another kind is
                refused.  None takes the kind of the descriptor.
            settings: Other parts of the declaration that must not change between runs.

        Raises:
            DeclarationError: The function has declared another state under the name.
            IncompatibleStateError: The state restored under the name does not fit.
        """

    @abstractmethod
    def reserve(self, state_descriptor: StateDescriptor) -> None:
        """Reserve a state of the key for the program, so that a user's state of that name is refused.

        Args:
            state_descriptor: The same object with which the program itself gets the state.
        """

    @abstractmethod
    def merge_namespaces(self, name: str, target: Hashable, sources: Iterable[Hashable]) -> None:
        """Move the current key's contents of some namespaces of a state into another one.

        Args:
            name: The name of the state's table; the program has got the state before.
            target: The namespace that receives the contents, in frozen form.
            sources: The namespaces that lose them, in frozen form.

        Raises:
            DeclarationTypeError: The state is no list, reducing or aggregating state.
        """


class NamespacedTimerService(TimerService):
    """The clock, and the timers of the current key and namespace."""

    @abstractmethod
    def has_event_time_timer(self, timestamp: int) -> bool:
        """Return whether the current key and namespace have a timer for that time, in ms."""
