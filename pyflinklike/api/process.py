# SPDX-License-Identifier: Apache-2.0
"""Process functions: of one element at a time, and on keyed streams with state and timers per key.

One instance serves many keys.  What belongs to a key goes into state, obtained once in `open()`.
An attribute of the function belongs to no key, is not durable, and is not shared between workers.

Outputs are yielded: `yield value` goes to the main output, `yield tag, value` with an `OutputTag`
to that side output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pyflinklike.api.context import RuntimeContext, TimerService
from pyflinklike.clock import TimeDomain
from pyflinklike.functions import Function

__all__ = ["KeyedProcessFunction", "ProcessFunction"]


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
