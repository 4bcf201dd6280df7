# SPDX-License-Identifier: Apache-2.0
"""Functions of two inputs; inputs that are keyed alike share one state and one set of timers.

Between the two inputs there is no order: an element of one may come before an older one of the
other.  A program that needs an order stores what comes first in state, and waits with a timer.
Names are those of `pyflink.datastream`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pyflinklike.api.context import RuntimeContext
from pyflinklike.api.process import KeyedProcessFunction, ProcessFunction
from pyflinklike.functions import Function

__all__ = [
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "KeyedCoProcessFunction",
]


class CoProcessFunction(Function, ABC):
    """A function of the elements of two inputs without keys.

    As `pyflink.datastream.CoProcessFunction`.  It has neither state nor timers, both of which
    belong to keys.
    """

    Context = ProcessFunction.Context
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

    Context = KeyedProcessFunction.Context
    """What `process_element1` and `process_element2` may ask; valid during that call only."""
    OnTimerContext = KeyedProcessFunction.OnTimerContext
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
