# SPDX-License-Identifier: Apache-2.0
"""What a function is handed: where its states are, where it runs, and its timers.

The runtime subclasses these; to the user they are valid for the length of the call they are
handed to.  Names and signatures are those of `pyflink.datastream`; all times are ms since the epoch.
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
    """What this layer knows of a descriptor of a store: which store it declares."""

    @property
    def name(self) -> str:
        """Unique within the function."""

    def new_store(self) -> S_co:
        """The store, not yet opened."""


class KeyedStateStore(ABC):
    """Where a function obtains its state, as `pyflink.datastream.KeyedStateStore`.

    A state that was obtained once follows the current key by itself.  Asking twice
    for one name gives the same state.

    All five raise a `DeclarationError` where the name is taken by a state that is declared
    otherwise, and an `IncompatibleStateError` where what was restored under it does not fit.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """The state that holds one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """The state that holds a list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """The state that holds a map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """The state that folds what is added with a `ReduceFunction`."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, ACC, OUT]
    ) -> AggregatingState[IN, OUT]:
        """The state that folds what is added with an `AggregateFunction`."""


class RuntimeContext(KeyedStateStore):
    """What a function may know of where it runs; handed to `Function.open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """The name of the task."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """The number of instances that run side by side."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """The maximum parallelism, which is the number of key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Which of the parallel instances this is, from 0."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """How often this instance was tried before, so 0 at first."""

    def get_task_name_with_subtasks(self) -> str:
        """The name with index (here from 1, as Flink) and parallelism: MyTask (3/6)."""
        index = self.get_index_of_this_subtask() + 1
        parallelism = self.get_number_of_parallel_subtasks()
        return f"{self.get_task_name()} ({index}/{parallelism})"

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """The job's parameter `key`, or the default if it is not set."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Where this function registers its metrics."""

    # Not abstract: PyFlink's contexts have none.
    def get_store(self, store_descriptor: StoreDeclaration[S]) -> S:
        """The store of `pyflinklike.stores` that is declared so.

        Like a state it is obtained once in `open` and follows the current key by itself;
        asking twice gives the same store.

        Raises:
            DeclarationTypeError: It is no descriptor of a store.
            DeclarationError: The name is taken by something declared otherwise.
            IncompatibleStateError: What was restored under the name does not fit.
        """
        msg = f"{type(self).__name__} has no stores, got {shown(store_descriptor)}; use state"
        raise DeclarationError(msg)


class TimerService(ABC):
    """The clock and the timers of the current key, as PyFlink's `TimerService`.

    A timer is known by key, time and domain: registering it twice fires it once.
    A timer never fires inside its registration, however late it is.

    The four that touch timers raise a `StateAccessError` where there is no current key.
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """The processing time in ms, the same throughout a call."""

    @abstractmethod
    def current_watermark(self) -> int:
        """The watermark in ms; MIN_WATERMARK before the first event."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the processing time reaches `timestamp`, in ms."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Call `on_timer` when the watermark reaches `timestamp`, in ms."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Forget that timer of the current key; nothing happens if there is none."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Forget that timer of the current key; nothing happens if there is none."""
