# SPDX-License-Identifier: Apache-2.0
"""What a user writes, and what a user is handed.

Two kinds of class live here, and nothing that runs.

Users subclass `KeyedProcessFunction` (and `ReduceFunction`, `AggregateFunction`
for the states that fold).  One instance serves many keys: what belongs to a key
goes into state, obtained once in `open()`; an attribute of the function belongs
to no key, is not durable, and is not shared between workers.

The runtime subclasses `RuntimeContext`, `TimerService` and the two contexts of
`KeyedProcessFunction`.  To the user they are valid for the length of the call
they are handed to; a context must not be kept.

Outputs are yielded: `yield value` goes to the main output, `yield tag, value`
with an `OutputTag` to that side output.

Names and signatures are those of `pyflink.datastream.functions` and
`pyflink.datastream.timerservice`; all times are ms since the epoch, as there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import attrs

from pyflinklike.clock import TimeDomain
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown
from pyflinklike.types import TypeInformation, Types

if TYPE_CHECKING:
    from pyflinklike.descriptors import (
        AggregatingStateDescriptor,
        ListStateDescriptor,
        MapStateDescriptor,
        ReducingStateDescriptor,
        ValueStateDescriptor,
    )
    from pyflinklike.metrics import MetricGroup
    from pyflinklike.state import (
        AggregatingState,
        ListState,
        MapState,
        ReducingState,
        ValueState,
    )

__all__ = [
    "AggregateFunction",
    "Function",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "OutputTag",
    "ReduceFunction",
    "ReduceFunctionWrapper",
    "RuntimeContext",
    "TimerService",
    "as_reduce_function",
]


class KeyedStateStore(ABC):
    """Where a function obtains its state, as `pyflink.datastream.KeyedStateStore`.

    A state that was obtained once follows the current key by itself.  Asking twice
    for one name gives the same state.

    Raises (all five):
        DeclarationError: The name is taken by a state declared otherwise.
        IncompatibleStateError: What was restored under the name does not fit.
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """The state that holds one value per key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """The state that holds a list per key."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """The state that holds a map per key."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """The state that folds what is added with a `ReduceFunction`."""

    @abstractmethod
    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor
    ) -> AggregatingState[Any, Any]:
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

    # Any: the stores are a layer above this one.  Not abstract: PyFlink's contexts have none.
    def get_store(self, store_descriptor: Any) -> Any:
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

    Raises (the four that touch timers):
        StateAccessError: There is no current key.
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


class Function:
    """Base of all user functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Called once before the first element; obtain the states here.

        On a Spark stream that is once per Python worker and run of the query: the function
        stays open from one micro-batch to the next.  There is no current key yet: states can be obtained, not read.
        """

    def close(self) -> None:
        """Called once after the last element; release here what `open` took.

        Not called where a worker is ended, as Spark ends those of a stream.
        """


class KeyedProcessFunction(Function, ABC):
    """A function of one element at a time, with state and timers per key.

    As `pyflink.datastream.KeyedProcessFunction`.  Both methods give their outputs
    as an iterable, commonly by being generators, or return None for none.
    """

    class Context(ABC):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of the element, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """The clock, and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The time of the element or timer in ms; None if the element has none."""

    class OnTimerContext(Context):
        """What `on_timer` may ask; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Which clock the timer followed."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process one element.

        Args:
            value: The element.
            ctx: The element's key and time, and the timers of that key.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side
            output.
        """

    # The return type must admit the generators that override it.
    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002  for those who override it
        ctx: KeyedProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterable[Any] | None:
        """Process a timer that is due; does nothing by default.

        Args:
            timestamp: The time the timer was registered for, in ms.
            ctx: The timer's key and domain, and the timers of that key.

        Returns:
            The outputs, as of `process_element`.
        """
        return None


class ReduceFunction(Function, ABC):
    """Folds two values into one of the same type, for `ReducingState`."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """The fold of what was there and what is added; must be associative."""


@attrs.frozen
class ReduceFunctionWrapper(ReduceFunction):
    """A callable as a `ReduceFunction`; equal if it wraps an equal callable.

    Args:
        func: Called with what was there and what is added.
    """

    _func: Callable[[Any, Any], Any]

    def reduce(self, value1: Any, value2: Any) -> Any:
        """What the callable makes of the two."""
        return self._func(value1, value2)


def as_reduce_function(
    function: ReduceFunction | Callable[[Any, Any], Any],
) -> ReduceFunction:
    """A `ReduceFunction` as it is; another callable wrapped into one.

    Raises:
        DeclarationTypeError: It is neither, or a `ReduceFunction` class that was not
            instantiated (PyFlink wraps that class, and fails at the second element).
    """
    if isinstance(function, ReduceFunction):
        return function
    given: Any = function
    if isinstance(given, type) and issubclass(given, ReduceFunction):
        remedy = "give an instance of the class"
    elif callable(given):
        return ReduceFunctionWrapper(given)
    else:
        remedy = "give for example lambda a, b: a + b"
    msg = f"The input must be a ReduceFunction or a callable function! Got {shown(given)}; {remedy}"
    raise DeclarationTypeError(msg)


class AggregateFunction(Function, ABC):
    """Folds values into an accumulator of another type, for `AggregatingState`."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """A new accumulator that has seen no value."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with `value` added: the same object, changed, or another."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """What the state's reader sees; must leave the accumulator unchanged."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """One accumulator that has seen what both have; may reuse either."""


def _to_type_info(type_info: TypeInformation | list[TypeInformation] | None) -> TypeInformation:
    """The type of a side output, as PyFlink makes it of what is given."""
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, list):
        return Types.ROW(type_info)
    given: Any = type_info
    if not isinstance(given, TypeInformation):
        msg = (
            f"OutputTag type_info must be None, list or TypeInformation, "
            f"got {shown(given)}; give for example Types.STRING()"
        )
        raise DeclarationTypeError(msg)
    return given


@attrs.frozen
class OutputTag:
    """The name and type of a side output, as `pyflink.datastream.OutputTag`.

    Two tags of one id are the same tag, whatever their types, as in PyFlink, which
    looks outputs up by id.

    Args:
        tag_id: The name, not empty.
        type_info: The type of what is yielded to it; a list is a row of these types,
            None is pickled objects.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: The name is empty or None.
    """

    tag_id: str = attrs.field()
    type_info: TypeInformation = attrs.field(default=None, converter=_to_type_info, eq=False)

    @tag_id.validator
    def _check_tag_id(self, _: attrs.Attribute[str], tag_id: Any) -> None:
        if tag_id is None or tag_id == "":
            msg = (
                f"OutputTag tag_id cannot be None or empty string, got {tag_id!r}; "
                f"give for example OutputTag('late')"
            )
            raise DeclarationValueError(msg)
        if not isinstance(tag_id, str):
            msg = (
                f"OutputTag tag_id must be a str, got {tag_id!r}; "
                f"give for example OutputTag('late')"
            )
            raise DeclarationTypeError(msg)
