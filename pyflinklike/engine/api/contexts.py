# SPDX-License-Identifier: Apache-2.0
"""The contexts of a function: its states, the place where it runs, and its timers.

The runtime subclasses these classes.  To the user a context is valid during the call that receives
it.  Names and signatures are those of `pyflink.datastream`; all times are ms since the epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, TypeVar

from pyflinklike.api.metrics import MetricGroup
from pyflinklike.errors import DeclarationError
from pyflinklike.shown import shown
from pyflinklike.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)

__all__ = ["KeyedStateStore", "RuntimeContext", "StoreDeclaration", "TimerService"]

ACC = TypeVar("ACC")
IN = TypeVar("IN")
K = TypeVar("K")
OUT = TypeVar("OUT")
S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)
T = TypeVar("T")
V = TypeVar("V")


class StoreDeclaration(Protocol[S_co]):
    """The part of a store's descriptor that this layer knows: the store that it declares."""

    @property
    def name(self) -> str:
        """The name of the store, unique within the function."""

    def new_store(self) -> S_co:
        """Make the store, which is not open yet."""


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


class RuntimeContext(KeyedStateStore):
    """What a function may know of the place where it runs; `Function.open` receives it."""

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


class TimerService(ABC):
    """The clock and the timers of the current key, as PyFlink's `TimerService`.

    A timer is identified by key, time and domain: registering it twice fires it once.  A timer
    never fires during its registration, however late it is.

    The four methods that touch timers raise a `StateAccessError` where there is no current key.
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
