# SPDX-License-Identifier: Apache-2.0
"""What users subclass to make something of the contents of a window, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic

from pyflinklike.api.context import KeyedStateStore
from pyflinklike.functions import Function
from pyflinklike.type_vars import IN, OUT, K, T, W

__all__ = [
    "AllWindowFunction",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "WindowFunction",
]


class WindowFunction(Function, ABC, Generic[IN, OUT, K, W]):
    """Makes outputs of the contents of a window."""

    @abstractmethod
    def apply(self, key: K, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """The outputs of a window; a pair that begins with an `OutputTag` goes to that side output.

        Args:
            key: Of the elements.
            window: Which window.
            inputs: Its elements, as a list in order of arrival; behind `reduce` or `aggregate`
                the one result.
        """


class AllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """A `WindowFunction` of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """The outputs of a window, as of `WindowFunction`."""


class _Context(ABC, Generic[T]):
    """What a function of windows may ask; valid during the call it is handed to."""

    @abstractmethod
    def window(self) -> T:
        """The window."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """State of this key and window.  What you put there you clear in `clear`.

        Raises:
            StateAccessError: A state is asked for where windows merge.
        """

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """State of this key, which all its windows share; no window's end clears it."""


class ProcessWindowFunction(Function, ABC, Generic[IN, OUT, K, W]):
    """Makes outputs of the contents of a window, with a context that has time and state."""

    class Context(_Context[T]):
        """What `process` and `clear` may ask; valid during that call only."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """The processing time in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """The watermark in ms."""

    @abstractmethod
    def process(
        self, key: K, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """The outputs of a window; a pair that begins with an `OutputTag` goes to that side output.

        Args:
            key: Of the elements.
            context: The window, the time, and state.
            elements: As a list in order of arrival; behind `reduce` or `aggregate` the one result.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """The window ends: clear what you put into `context.window_state()`."""


class ProcessAllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """A `ProcessWindowFunction` of a stream without keys."""

    class Context(_Context[T]):
        """What `process` and `clear` may ask; valid during that call only."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """The outputs of a window, as of `ProcessWindowFunction`."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """The window ends: clear what you put into `context.window_state()`."""
