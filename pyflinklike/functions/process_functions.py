# SPDX-License-Identifier: Apache-2.0
"""Process functions: of one element at a time, of two inputs, and with a broadcast input.

One instance serves many keys.  Keep everything that belongs to a key in state, and get the states once,
in `open()`.  An attribute of the function belongs to no key, is not durable, and is not shared between
workers.

A function yields its outputs: `yield value` goes to the main output, and `yield tag, value` with an
`OutputTag` goes to that side output.

Two inputs with the same key share one state and one set of timers.  Between two inputs there is no
order: an element of one may come before an older element of the other.  If a program needs an order, it
stores the first comer in state, and waits with a timer.

A broadcast input brings data that every key needs, such as rules, prices and models.  Its elements
change broadcast state, a map that is the same for every key; elements of the other input read it.
`process_broadcast_element` must change that state only as its element and the state itself require,
never by chance, by the clock, or by an attribute of the function.  Then the state is the same in every
instance.

The only operator state is broadcast state, as in PyFlink: list state and union list state are missing.  Flink's
Java API has list states for what belongs to an operator's instance instead of a key, above all the
offsets of sources and the transactions of sinks.  On Spark, Spark itself stores both.

Names are PyFlink's (`pyflink.datastream`).
"""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from pyflinklike._clock import TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.errors import DeclarationTypeError, OutputError
from pyflinklike.functions.contexts import RuntimeContext, TimerService
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.state.fold_functions import Function
from pyflinklike.types import TypeInformation
from pyflinklike.types.row import Row

__all__ = [
    "OPERATOR_STATE_METHODS",
    "OPERATOR_STATE_REMEDY",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "NamespacedFunction",
    "PreparedTogether",
    "ProcessFunction",
    "TimedResult",
    "check_results",
    "refuse_checkpointed_function",
]


class ProcessFunction(Function, ABC):
    """A function of one element at a time, of a stream without keys.

    As `pyflink.datastream.ProcessFunction`.  It has neither state nor timers, because both belong to
    keys.
    """

    class Context(ABC):
        """The context of `process_element`; valid during that call only."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clock; it registers no timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element in ms; None if it has no time."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element.

        Args:
            value: The element, of the input's type.
            ctx: The element's time, and the clock.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """


class KeyedProcessFunction(Function, ABC):
    """A function of one element at a time, with state and timers per key.

    As `pyflink.datastream.KeyedProcessFunction`.  Both methods return their outputs as an iterable,
    usually because they are generators.  None means no outputs.

    Example:
        ```python
        class Count(KeyedProcessFunction):
            def open(self, runtime_context):
                self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

            def process_element(self, value, ctx):
                self.count.update((self.count.value() or 0) + 1)
                yield ctx.get_current_key(), self.count.value()
        ```
    """

    class Context(ABC):
        """The context of `process_element`; valid during that call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clock and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element or timer in ms; None if the element has no time."""

    class OnTimerContext(Context):
        """The context of `on_timer`; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timer followed."""

    # Not abstract, because a function may have no state.
    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the states; called once before the first element.

        There is no current key yet, so states can be obtained but not read.
        """

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process one element.

        Args:
            value: The element, of the input's type.
            ctx: The element's key and time, and the timers of that key.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """

    # Functions override it with generators, so the return type must admit them.
    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002  for functions that override it
        ctx: KeyedProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterable[Any] | None:
        """Process a timer that is due; the default does nothing.

        Args:
            timestamp: The time for which the timer was registered, in ms.
            ctx: The timer's key and domain, and the timers of that key.

        Returns:
            The outputs, as for `process_element`.
        """
        return None


# Functions of two inputs


class CoProcessFunction(Function, ABC):
    """A function of the elements of two inputs without keys.

    As `pyflink.datastream.CoProcessFunction`.  It has neither state nor timers, because both belong
    to keys.
    """

    Context: TypeAlias = ProcessFunction.Context
    """The context of `process_element1` and `process_element2`; valid during that call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element of the first input.

        Args:
            value: The element, of the first input's type.
            ctx: The element's time, and the clock.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element of the second input, as `process_element1` does for the first."""


class KeyedCoProcessFunction(Function, ABC):
    """A function of the elements of two inputs, with state and timers per key.

    As `pyflink.datastream.KeyedCoProcessFunction`.  An element of either input finds the state and
    the timers of its key.  The watermark is the smaller one of the two inputs', so a timer fires once
    both inputs have reached its time.

    Example:
        ```python
        class Enrich(KeyedCoProcessFunction):
            def open(self, runtime_context):
                self.name = runtime_context.get_state(ValueStateDescriptor("name", Types.STRING()))

            def process_element1(self, value, ctx):
                yield value.order, self.name.value()

            def process_element2(self, value, ctx):
                self.name.update(value.name)
        ```
    """

    Context: TypeAlias = KeyedProcessFunction.Context
    """The context of `process_element1` and `process_element2`; valid during that call only."""
    OnTimerContext: TypeAlias = KeyedProcessFunction.OnTimerContext
    """The context of `on_timer`; valid during that call only."""

    # Not abstract, because a function may have no state.
    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the states; called once before the first element.

        There is no current key yet, so states can be obtained but not read.
        """

    @abstractmethod
    def process_element1(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process one element of the first input.

        Args:
            value: The element, of the first input's type.
            ctx: The element's key and time, and the timers of that key.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """

    @abstractmethod
    def process_element2(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process one element of the second input, as `process_element1` does for the first."""

    # Functions override it with generators, so the return type must admit them.
    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002  for functions that override it
        ctx: KeyedProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterable[Any] | None:
        """Process a timer that is due; the default does nothing.

        Args:
            timestamp: The time for which the timer was registered, in ms.
            ctx: The timer's key and domain, and the timers of that key.

        Returns:
            The outputs, as for `process_element1`.
        """
        return None


class CoMapFunction(Function, ABC):
    """Makes at most one output of each element of two inputs.

    As `pyflink.datastream.CoMapFunction`; `open` may get state per key.
    """

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the output for an element of the first input; None means no output."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the output for an element of the second input; None means no output."""


class CoFlatMapFunction(Function, ABC):
    """Makes any number of outputs of each element of two inputs.

    As `pyflink.datastream.CoFlatMapFunction`; `open` may get state per key.
    """

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return the outputs for an element of the first input; None means no output."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return the outputs for an element of the second input; None means no output."""


# Functions of two inputs, one of them broadcast


class BaseBroadcastProcessFunction(Function, ABC):
    """The base of both functions with a broadcast input."""

    class BaseContext(ABC):
        """The context that each call receives; valid during that call only."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element in ms; None if it has no time."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms, the same throughout a call."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in ms; MIN_WATERMARK before the first event."""

    class ReadOnlyContext(BaseContext):
        """The context of `process_element`; valid during that call only."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> ReadOnlyBroadcastState[K, V]:
            """Return the broadcast state of this declaration, which can only be read.

            Raises:
                DeclarationError: `broadcast` did not name the state.
            """

    class Context(BaseContext):
        """The context of `process_broadcast_element`; valid during that call only."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> BroadcastState[K, V]:
            """Return the broadcast state of this declaration, which can be read and written.

            Raises:
                DeclarationError: `broadcast` did not name the state.
            """

    # Not abstract, because a function may use broadcast state alone, which is declared elsewhere.
    def open(self, runtime_context: RuntimeContext) -> None:
        """Get the states of keys; called once before the first element.

        There is no current key yet, so states can be obtained but not read.
        """

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Process an element of the broadcast input, once in each parallel instance.

        So its outputs appear once per instance, as in Flink: on Spark, once per partition.

        Args:
            value: The element, of the broadcast input's type.
            ctx: The broadcast state, and the element's time.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """A function of elements without keys, and of a broadcast input.

    As `pyflink.datastream.BroadcastProcessFunction`.  It has no keyed state and no timers.
    """

    @abstractmethod
    def process_element(
        self, value: Any, ctx: BaseBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Process one element of the input that is not broadcast.

        Args:
            value: The element, of the type of that input.
            ctx: The element's time, and the broadcast state, which can only be read.

        Returns:
            The outputs, as for `process_broadcast_element`.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """A function of keyed elements, with state and timers per key, and of a broadcast input.

    As `pyflink.datastream.KeyedBroadcastProcessFunction`, but also with `apply_to_keyed_state`, which
    Flink has only in Java.

    Example:
        ```python
        LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.LONG())

        class OverLimit(KeyedBroadcastProcessFunction):
            def process_broadcast_element(self, value, ctx):
                ctx.get_broadcast_state(LIMITS).put(value.name, value.limit)

            def process_element(self, value, ctx):
                for name, limit in ctx.get_broadcast_state(LIMITS).items():
                    if value.amount > limit:
                        yield ctx.get_current_key(), name
        ```
    """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """The context of `process_element`; valid during that call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clock and the timers of the current key."""

    class OnTimerContext(ReadOnlyContext):
        """The context of `on_timer`; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timer followed."""

    class Context(BaseBroadcastProcessFunction.Context):
        """The context of `process_broadcast_element`; there is no current key during that call."""

        @abstractmethod
        def apply_to_keyed_state(
            self,
            state_descriptor: StateDescriptor[Any],
            function: Callable[[Any, Any], None],
        ) -> None:
            """Read or change a keyed state under every key that has it, in no specified order.

            It reads all entries of this state, so the cost grows with the number of keys.

            Args:
                state_descriptor: The descriptor of the state, the one that `open` used.
                function: Called with a key and the state, which is that key's during the call.  It
                    returns nothing: only `process_element` and `on_timer` make outputs.

            Raises:
                DeclarationError: The function has declared another state under the name.
                OutputError: The function returned something.
            """

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Process one element of the keyed input.

        Args:
            value: The element, of the keyed input's type.
            ctx: The element's key and time, the timers of that key, and the broadcast state, which
                can only be read.

        Returns:
            The outputs, as for `process_broadcast_element`.
        """

    # Functions override it with generators, so the return type must admit them.
    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002  for functions that override it
        ctx: KeyedBroadcastProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterable[Any] | None:
        """Process a timer that is due; the default does nothing.

        Args:
            timestamp: The time for which the timer was registered, in ms.
            ctx: The timer's key and domain, and the broadcast state, which can only be read.

        Returns:
            The outputs, as for `process_broadcast_element`.
        """
        return None


# For programs of this library, such as the window operator


@attrs.frozen
class PreparedTogether:
    """Records of a micro-batch that a `NamespacedFunction` is about to process together.

    Args:
        left: The numbers of the other records, which the caller then processes one by one.
        write: Makes the changes to state and timers that the records make.
    """

    left: Sequence[int]
    write: Callable[[], None]


class NamespacedFunction(KeyedProcessFunction):
    """A function whose timers, and some of whose states, belong to a key and a namespace.

    Before it uses one of them, it sets the namespace: `runtime_context.current.namespace = ...`, in the
    form that `namespace_type.freeze_key` returns.  When a timer fires, the current namespace is the one
    in which it was registered.  `open` receives a `NamespacedRuntimeContext`.
    """

    namespace_type: TypeInformation
    """The type of the namespaces; stored state can be read only with the same type."""

    registrar: str = "on_timer"
    """The method that registers timers when a timer fires, for messages."""

    hidden_state: str = ""
    """The name of a state that the user did not declare; messages do not mention it."""

    def uses_processing_timers(self, registers: Callable[[object], bool]) -> bool:
        """Return whether the function registers processing-time timers, which the host must know.

        A program can register timers of both domains, so the names in its code do not say which.

        Args:
            registers: Returns whether the code of an object's class registers such timers.
        """
        raise NotImplementedError

    def add_bulk(
        self,
        keys: Sequence[Any],  # noqa: ARG002
        values: Sequence[Any],  # noqa: ARG002
        timestamps: Sequence[int | None],  # noqa: ARG002
        *,
        unchanged: bool,  # noqa: ARG002
    ) -> PreparedTogether | None:
        """Prepare to process records of a key group together, if the user's code sees no difference.

        Outputs, state, timers and metrics must be the same as after `process_element` of each record.
        This method leaves state, timers and outputs as they are: `write` changes them.  If it raises,
        the caller processes the records one by one.

        Args:
            keys: The keys in frozen form; the function makes each of them current.
            values: The elements, in the same order.
            timestamps: The times of the elements in ms; None for an element without a time.
            unchanged: Whether no element may be changed, because the caller processes the elements
                again if this raises.

        Returns:
            None if the caller must process all records one by one.
        """
        return None

    def called(self) -> str:
        """Return the name for messages: the user's own function's, if there is one."""
        return type(self).__qualname__

    def failed_call(self, error: BaseException, method: str) -> tuple[str, str]:
        """Return which call of the user's code raised, and where, for a message.

        Args:
            error: The error that was raised.
            method: The method of this function that was running.

        Returns:
            The call, such as "Ratio.process", and a text such as "window TimeWindow(...)", or "".
        """
        del error
        return f"{self.called()}.{method}", ""


class TimedResult(NamedTuple):
    """An output with a time of its own, for programs of this library, such as windows.

    Any other output has the time of the element or timer whose call returned it.

    Args:
        value: The output, as a function would yield it.
        timestamp: The time of the output in ms.
    """

    value: Any
    timestamp: int


# Checks of what functions return and define


def check_results(results: Any, givers: str = "process_element and on_timer") -> None:
    """Refuse a single output that a function returned instead of yielding it.

    Args:
        results: The object that the function returned.
        givers: The names of such functions, for the message.

    Raises:
        OutputError: The object is a single output, and not an iterable of outputs.
    """
    # The usual kinds come first, because the checks below cost more than a call.
    kind = results.__class__
    if kind is list or (kind is tuple and not (results and isinstance(results[0], OutputTag))):
        return
    tagged = isinstance(results, tuple) and results and isinstance(results[0], OutputTag)
    row = isinstance(results, (Row, str, bytes, Mapping))
    # Python also iterates over an object that has no `__iter__`, but can be indexed from 0.
    iterable = hasattr(results, "__iter__") or hasattr(results, "__getitem__")
    if tagged or row or not iterable:
        is_async = inspect.isawaitable(results) or inspect.isasyncgen(results)
        remedy = "yield it instead of returning it"
        if is_async:
            remedy = "nothing awaits it: write def without async"
            with contextlib.suppress(AttributeError):
                results.close()  # otherwise Python warns that it was never awaited
        msg = f"{givers} give an iterable of outputs, got {short_repr(results)}; {remedy}"
        raise OutputError(msg)


def refuse_checkpointed_function(function: Any) -> None:
    """Refuse a port of Java's `CheckpointedFunction`, because its methods would never be called.

    Raises:
        DeclarationTypeError: The function is such a port.
    """
    for names in _JAVA_NAMES:
        if all(callable(getattr(function, name, None)) for name in names):
            msg = (
                f"nothing calls {' and '.join(names)}, got {type(function).__qualname__} with "
                f"them; {OPERATOR_STATE_REMEDY}"
            )
            raise DeclarationTypeError(msg)


OPERATOR_STATE_METHODS: Final = frozenset(
    {"get_operator_state_store", "get_operator_list_state", "get_union_list_state"}
)
"""The names of methods of Java's contexts, for which a port may look here."""
OPERATOR_STATE_REMEDY: Final = (
    "the only operator state is broadcast state, as in PyFlink: keep a list per key "
    "(get_list_state in open), or under one key for all elements, and keep what every instance needs "
    "in broadcast state; Spark itself keeps the offsets of sources and the transactions of sinks"
)
_JAVA_NAMES: Final = (
    ("initialize_state", "snapshot_state"),
    ("initializeState", "snapshotState"),
)
