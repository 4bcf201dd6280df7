# SPDX-License-Identifier: Apache-2.0
"""Process functions: of one element at a time, of two inputs, and with a broadcast input.

One instance serves many keys.  What belongs to a key goes into state, obtained once in `open()`.
An attribute of the function belongs to no key, is not durable, and is not shared between workers.

Outputs are yielded: `yield value` goes to the main output, `yield tag, value` with an `OutputTag`
to that side output.

Two inputs that are keyed alike share one state and one set of timers.  Between two inputs there is
no order: an element of one may come before an older one of the other.  A program that needs an
order stores what comes first in state, and waits with a timer.

A broadcast input brings what every key needs, such as rules, prices and models.  Its elements
change broadcast state, a map that is the same for every key; elements of the other input read it.
What `process_broadcast_element` does to that state must depend on its elements and on that state
only, never on chance, the clock, or an attribute of the function.  Then the state is the same in
every instance.

Of operator state there is broadcast state, as in PyFlink, and no list or union list state.  Flink's
Java API has list states for what belongs to an operator's instance instead of a key, above all the
offsets of sources and the transactions of sinks.  On Spark, Spark itself stores both.

Names are those of `pyflink.datastream`.
"""

from __future__ import annotations

import contextlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import attrs

from pyflinklike._clock import TimeDomain
from pyflinklike._messages import shown
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

    As `pyflink.datastream.ProcessFunction`.  It has neither state nor timers, both of which belong
    to keys.
    """

    class Context(ABC):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clock; it registers no timers."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element in ms; None if it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element.

        Args:
            value: The element.
            ctx: The element's time, and the clock.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """


class KeyedProcessFunction(Function, ABC):
    """A function of one element at a time, with state and timers per key.

    As `pyflink.datastream.KeyedProcessFunction`.  Both methods return their outputs as an iterable,
    commonly by being generators, or return None for none.
    """

    class Context(ABC):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clock and the timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element or timer in ms; None if the element has none."""

    class OnTimerContext(Context):
        """What `on_timer` may ask; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timer followed."""

    # Not abstract: a function without state needs none.
    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the states; called once before the first element.

        There is no current key yet: states can be obtained, not read.
        """

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


# Functions of two inputs


class CoProcessFunction(Function, ABC):
    """A function of the elements of two inputs without keys.

    As `pyflink.datastream.CoProcessFunction`.  It has neither state nor timers, both of which
    belong to keys.
    """

    Context: TypeAlias = ProcessFunction.Context
    """What `process_element1` and `process_element2` may ask; valid during that call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Process one element of the first input.

        Args:
            value: The element.
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
    the timers of its key.  The watermark is the smaller one of both inputs': a timer fires once
    both inputs have reached its time.
    """

    Context: TypeAlias = KeyedProcessFunction.Context
    """What `process_element1` and `process_element2` may ask; valid during that call only."""
    OnTimerContext: TypeAlias = KeyedProcessFunction.OnTimerContext
    """What `on_timer` may ask; valid during that call only."""

    # Not abstract: a function without state needs none.
    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the states; called once before the first element.

        There is no current key yet: states can be obtained, not read.
        """

    @abstractmethod
    def process_element1(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process one element of the first input.

        Args:
            value: The element.
            ctx: The element's key and time, and the timers of that key.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """

    @abstractmethod
    def process_element2(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Process one element of the second input, as `process_element1` does for the first."""

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
            The outputs, as of `process_element1`.
        """
        return None


class CoMapFunction(Function, ABC):
    """Makes at most one output of each element of two inputs.

    As `pyflink.datastream.CoMapFunction`; state per key is obtained in `open`.
    """

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the output for an element of the first input; None is no output."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the output for an element of the second input; None is no output."""


class CoFlatMapFunction(Function, ABC):
    """Makes any number of outputs of each element of two inputs.

    As `pyflink.datastream.CoFlatMapFunction`; state per key is obtained in `open`.
    """

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return the outputs for an element of the first input; None is no output."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return the outputs for an element of the second input; None is no output."""


# Functions of two inputs of which one is broadcast


class BaseBroadcastProcessFunction(Function, ABC):
    """The base of both functions with a broadcast input."""

    class BaseContext(ABC):
        """What each call may ask; valid during that call only."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element in ms; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms, the same throughout a call."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in ms; MIN_WATERMARK before the first event."""

    class ReadOnlyContext(BaseContext):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> ReadOnlyBroadcastState[K, V]:
            """Return the broadcast state of this declaration, to be read.

            Raises:
                DeclarationError: `broadcast` did not name it.
            """

    class Context(BaseContext):
        """What `process_broadcast_element` may ask; valid during that call only."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> BroadcastState[K, V]:
            """Return the broadcast state of this declaration, to be read and written.

            Raises:
                DeclarationError: `broadcast` did not name it.
            """

    # Not abstract: broadcast state is declared with the input.
    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the states of keys; called once before the first element.

        There is no current key yet: states can be obtained, not read.
        """

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: Any) -> Iterable[Any] | None:
        """Process an element of the broadcast input, once in each parallel instance.

        So its outputs come out once per instance, as in Flink: on Spark, once per partition.

        Args:
            value: The element.
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
            value: The element.
            ctx: The element's time, and the broadcast state, to be read.

        Returns:
            The outputs, as of `process_broadcast_element`.
        """


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """A function of keyed elements, with state and timers per key, and of a broadcast input.

    As `pyflink.datastream.KeyedBroadcastProcessFunction`, and with `apply_to_keyed_state`, which
    Flink has in Java only.
    """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the element, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the clock and the timers of the current key."""

    class OnTimerContext(ReadOnlyContext):
        """What `on_timer` may ask; valid during that call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return the clock that the timer followed."""

    class Context(BaseBroadcastProcessFunction.Context):
        """What `process_broadcast_element` may ask; there is no current key during that call."""

        @abstractmethod
        def apply_to_keyed_state(
            self,
            state_descriptor: StateDescriptor[Any],
            function: Callable[[Any, Any], None],
        ) -> None:
            """Look at, or change, a keyed state of every key that has it, in no specified order.

            It reads all entries of this state: the cost grows with the number of keys.

            Args:
                state_descriptor: The descriptor of the state, as in `open`.
                function: Called with a key and the state, which is that key's during the call.  It
                    returns nothing: outputs come from `process_element` and `on_timer`.

            Raises:
                DeclarationError: The name is taken by a state that is declared otherwise.
                OutputError: The function returned something.
            """

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext
    ) -> Iterable[Any] | None:
        """Process one element of the keyed input.

        Args:
            value: The element.
            ctx: The element's key and time, the timers of that key, and the broadcast state, to be
                read.

        Returns:
            The outputs, as of `process_broadcast_element`.
        """

    # The return type must admit the generators that override it.
    def on_timer(
        self,
        timestamp: int,  # noqa: ARG002  for those who override it
        ctx: KeyedBroadcastProcessFunction.OnTimerContext,  # noqa: ARG002
    ) -> Iterable[Any] | None:
        """Process a timer that is due; does nothing by default.

        Args:
            timestamp: The time the timer was registered for, in ms.
            ctx: The timer's key and domain, and the broadcast state, to be read.

        Returns:
            The outputs, as of `process_broadcast_element`.
        """
        return None


# For programs of this library, such as the window operator


@attrs.frozen
class PreparedTogether:
    """Records of a micro-batch that a `NamespacedFunction` is about to process together.

    Args:
        left: The numbers of the other records, which are to be processed one by one afterwards.
        write: Writes to state and timers what processing the records does.
    """

    left: Sequence[int]
    write: Callable[[], None]


class NamespacedFunction(KeyedProcessFunction):
    """A function whose timers, and some of whose states, belong to a key and a namespace.

    Before it uses one of them it sets the namespace, `runtime_context.current.namespace = ...`, in
    the form that `namespace_type.freeze_key` returns.  When a timer fires, the namespace in which
    it was registered is the current one.  `open` receives a `NamespacedRuntimeContext`.
    """

    namespace_type: TypeInformation
    """The type of the namespaces; stored state is read with the same type only."""

    registrar: str = "on_timer"
    """What registers timers when one fires, for messages."""

    hidden_state: str = ""
    """The name of a state that the user did not declare; messages do not mention it."""

    def uses_processing_timers(self, registers: Callable[[object], bool]) -> bool:
        """Return whether the function registers processing-time timers.

        A program can do both, so its own code does not say which; the host has to know.

        Args:
            registers: Says of an object whether the code of its class registers them.
        """
        raise NotImplementedError

    def prepare_together(
        self,
        keys: Sequence[Any],  # noqa: ARG002
        values: Sequence[Any],  # noqa: ARG002
        timestamps: Sequence[int | None],  # noqa: ARG002
        *,
        unchanged: bool,  # noqa: ARG002
    ) -> PreparedTogether | None:
        """Prepare to process records of a key group together, as far as nobody can tell.

        Outputs, state, timers and metrics are those of `process_element` for each record in turn.
        Nothing has changed until `write` is called, nor where this raises: the caller then processes
        the records one by one.

        Args:
            keys: In their frozen form; the function makes each of them current.
            values: The elements.
            timestamps: In ms, None for an element without event time.
            unchanged: Whether no element may be changed, as it will be processed again if this
                raises.

        Returns:
            None if all records are to be processed one by one.
        """
        return None

    def called(self) -> str:
        """Return the function's name in messages: that of the user's own function, if any."""
        return type(self).__qualname__

    def failed_call(self, error: BaseException, method: str) -> tuple[str, str]:
        """Return which call of the user's code raised, and where, for a message.

        Args:
            error: What was raised.
            method: The method of this function that was running.

        Returns:
            For example "Ratio.process", and a text such as "window TimeWindow(...)", or "".
        """
        del error
        return f"{self.called()}.{method}", ""


class TimedResult(NamedTuple):
    """An output with a time of its own, for programs of this library, such as windows.

    Any other output has the time of the element or timer whose call returned it.

    Args:
        value: The output.
        timestamp: Its time in ms.
    """

    value: Any
    timestamp: int


# What functions may return and have


def check_results(results: Any, givers: str = "process_element and on_timer") -> None:
    """Refuse an output that was returned where it should have been yielded.

    Args:
        results: What the function returned.
        givers: The names of such functions, for the message.

    Raises:
        OutputError: It is a single output, not an iterable of outputs.
    """
    kind = results.__class__  # the usual kinds first: the checks below cost more than a call
    if kind is list or (kind is tuple and not (results and isinstance(results[0], OutputTag))):
        return
    tagged = isinstance(results, tuple) and results and isinstance(results[0], OutputTag)
    row = isinstance(results, (Row, str, bytes, Mapping))
    # As the language has it: what can be indexed from 0 can be iterated, too.
    iterable = hasattr(results, "__iter__") or hasattr(results, "__getitem__")
    if tagged or row or not iterable:
        is_async = inspect.isawaitable(results) or inspect.isasyncgen(results)
        remedy = "yield it instead of returning it"
        if is_async:
            remedy = "nothing awaits it: write def without async"
            with contextlib.suppress(AttributeError):
                results.close()  # else Python warns that nothing awaited it
        msg = f"{givers} give an iterable of outputs, got {shown(results)}; {remedy}"
        raise OutputError(msg)


def refuse_checkpointed_function(function: Any) -> None:
    """Refuse a port of Java's `CheckpointedFunction`: nothing would ever call its methods.

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
"""The methods that a port from Java asks for."""
OPERATOR_STATE_REMEDY: Final = (
    "of operator state there is broadcast state only, as in PyFlink: keep a list per key "
    "(get_list_state in open), or under one key for all elements, and what every instance must "
    "have in broadcast state; offsets of sources and transactions of sinks are Spark's"
)
_JAVA_NAMES: Final = (
    ("initialize_state", "snapshot_state"),
    ("initializeState", "snapshotState"),
)
