# SPDX-License-Identifier: Apache-2.0
"""Functions of two inputs of which one is broadcast: rules, prices, models that every key needs.

Elements of the broadcast input change broadcast state, a map that is the same for every key;
elements of the other input read it.  Between the two inputs there is no order: an element may be
processed before a rule that is older.  Names are those of `pyflink.datastream`.

What `process_broadcast_element` does to broadcast state must depend on its elements and on that
state only, never on chance, the clock, or an attribute of the function.  Then the state is the same
in every instance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from pyflinklike.api.context import RuntimeContext, TimerService
from pyflinklike.clock import TimeDomain
from pyflinklike.functions import Function
from pyflinklike.state.broadcast import BroadcastState, ReadOnlyBroadcastState
from pyflinklike.state.descriptors import MapStateDescriptor, StateDescriptor
from pyflinklike.type_vars import K, V

__all__ = [
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "KeyedBroadcastProcessFunction",
]


class BaseBroadcastProcessFunction(Function, ABC):
    """The base of both functions with a broadcast input."""

    class ReadOnlyContext(ABC):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element in ms; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms, the same throughout a call."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in ms; MIN_WATERMARK before the first event."""

        @abstractmethod
        def get_broadcast_state(
            self, state_descriptor: MapStateDescriptor[K, V]
        ) -> ReadOnlyBroadcastState[K, V]:
            """Return the broadcast state of this declaration, to be read.

            Raises:
                DeclarationError: `broadcast` did not name it.
            """

    class Context(ABC):
        """What `process_broadcast_element` may ask; valid during that call only."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the time of the element in ms; None if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms, the same throughout a call."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in ms; MIN_WATERMARK before the first event."""

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
