# SPDX-License-Identifier: Apache-2.0
"""What users subclass to make something of the contents of a window, with PyFlink's names.

The function of windows that a user gave, of whatever kind, called in one way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic

import attrs

from pyflinklike.engine.api.contexts import KeyedStateStore, RuntimeContext
from pyflinklike.engine.functions import Function
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.engine.type_vars import IN, OUT, K, T, W
from pyflinklike.errors import DeclarationTypeError

__all__ = [
    "AllWindowFunction",
    "AppliedFunction",
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


KeyOf = Callable[[], Any]


@attrs.frozen
class AppliedFunction:
    """Makes outputs of the contents of a window.

    Args:
        function: The user's; without one the contents are the outputs.
    """

    function: Function | None = None

    @classmethod
    def of(cls, function: Any, kinds: tuple[type, ...]) -> AppliedFunction:
        """One that calls a function.

        Args:
            function: The user's, or None.
            kinds: What it may be.

        Raises:
            DeclarationTypeError: It is none of these.
        """
        if function is not None and not isinstance(function, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            remedy = instance_of(kinds[-1], function, "give an instance of one")
            msg = f"window_function should be a {names}, got {shown(function)}; {remedy}"
            raise DeclarationTypeError(msg)
        return cls(function)  # type: ignore[arg-type]  # it is one of the kinds

    def call(self) -> str:
        """What messages call the method that makes the outputs."""
        process = (ProcessWindowFunction, ProcessAllWindowFunction)
        method = "process" if isinstance(self.function, process) else "apply"
        return f"{type(self.function).__qualname__}.{method}"

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function."""
        if self.function is not None:
            self.function.open(runtime_context)

    def close(self) -> None:
        """Close the function."""
        if self.function is not None:
            self.function.close()

    def process(self, key: KeyOf, context: Any, contents: Sequence[Any]) -> Iterable[Any] | None:
        """What the function gives.

        Args:
            key: Tells the key.
            context: With the window.
            contents: Of the window.
        """
        function = self.function
        if function is None:
            return contents
        if isinstance(function, ProcessWindowFunction):
            return function.process(key(), context, contents)
        if isinstance(function, WindowFunction):
            return function.apply(key(), context.window(), contents)
        if isinstance(function, ProcessAllWindowFunction):
            return function.process(context, contents)
        assert isinstance(function, AllWindowFunction)
        return function.apply(context.window(), contents)

    def clear(self, context: Any) -> None:
        """The window ends."""
        if isinstance(self.function, (ProcessWindowFunction, ProcessAllWindowFunction)):
            self.function.clear(context)
