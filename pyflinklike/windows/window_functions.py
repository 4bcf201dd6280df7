# SPDX-License-Identifier: Apache-2.0
"""Window functions: users subclass them to make outputs from the contents of a window.

The names are PyFlink's.  The operator calls all kinds of functions in one way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic

import attrs

from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import IN, OUT, K, T, W
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions.code_search import warn_of_slips
from pyflinklike.functions.contexts import KeyedStateStore, RuntimeContext
from pyflinklike.state.fold_functions import Function, check_methods

__all__ = [
    "AllWindowFunction",
    "AppliedFunction",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "WindowFunction",
]


class WindowFunction(Function, ABC, Generic[IN, OUT, K, W]):
    """A function that makes outputs from the contents of a window."""

    @abstractmethod
    def apply(self, key: K, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return the outputs of a window.

        An output that is a pair beginning with an `OutputTag` goes to that side output.

        Args:
            key: The key of the elements.
            window: The window that fires.
            inputs: A list of the elements in order of arrival; after `reduce` or `aggregate` a list
                of the one result.
        """


class AllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """A `WindowFunction` of a stream without keys."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT] | None:
        """Return the outputs of a window, as `WindowFunction.apply` without a key."""


class _Context(ABC, Generic[T]):
    """The window and the state that a window function may use during one call."""

    @abstractmethod
    def window(self) -> T:
        """Return the window."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Return the states of this key and window; clear them in `clear`.

        Raises:
            StateAccessError: Windows merge, so they cannot have states of their own.
        """

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Return the states of this key, which its windows share; they outlive every window."""


class ProcessWindowFunction(Function, ABC, Generic[IN, OUT, K, W]):
    """A function that makes outputs from a window, with a context for time and state."""

    class Context(_Context[T]):
        """The window, the time and the state; valid during one call only."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in ms."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the watermark in ms."""

    @abstractmethod
    def process(
        self, key: K, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Return the outputs of a window.

        An output that is a pair beginning with an `OutputTag` goes to that side output.

        Args:
            key: The key of the elements.
            context: The window, the time and the state.
            elements: A list in order of arrival; after `reduce` or `aggregate` a list of the one
                result.
        """

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Clear the states of `context.window_state()`: the window ends."""


class ProcessAllWindowFunction(Function, ABC, Generic[IN, OUT, W]):
    """A `ProcessWindowFunction` of a stream without keys."""

    class Context(_Context[T]):
        """The window and the state; valid during one call only."""

    @abstractmethod
    def process(
        self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]
    ) -> Iterable[OUT] | None:
        """Return the outputs of a window, as `ProcessWindowFunction.process` without a key."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Clear the states of `context.window_state()`: the window ends."""


KeyOf = Callable[[], Any]


@attrs.frozen
class AppliedFunction:
    """The user's window function of any kind, called in one way.

    Args:
        function: The function; None if the contents are the outputs.
    """

    function: Function | None = None

    @classmethod
    def of(cls, function: Any, kinds: tuple[type, ...]) -> AppliedFunction:
        """Wrap a function of one of the expected kinds.

        Args:
            function: The user's function, or None.
            kinds: The classes that the windows accept.

        Raises:
            DeclarationTypeError: The function is of none of these classes.
        """
        if function is not None and not isinstance(function, kinds):
            names = " or ".join(kind.__name__ for kind in kinds)
            remedy = instance_of(kinds[-1], function, "give an instance of one")
            msg = f"window_function should be a {names}, got {short_repr(function)}; {remedy}"
            raise DeclarationTypeError(msg)
        warn_of_slips(check_methods(function))
        return cls(function)  # type: ignore[arg-type]  # it is one of the kinds

    def call(self) -> str:
        """Name the method that makes the outputs, for messages."""
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
        """Call the function for a window, and return its outputs.

        Args:
            key: Returns the key; called only if the function takes a key, since it must be thawed.
            context: The context, with its window set.
            contents: The contents of the window.
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

    def clears(self) -> bool:
        """Return whether the function has something to do when a window ends."""
        if not isinstance(self.function, (ProcessWindowFunction, ProcessAllWindowFunction)):
            return False
        # A `clear` that is not overridden does nothing, so ends of windows need not call it.
        clear = getattr(self.function.clear, "__func__", None)
        return clear not in (ProcessWindowFunction.clear, ProcessAllWindowFunction.clear)

    def clear(self, context: Any) -> None:
        """Let the function clear its state of a window that ends."""
        self.function.clear(context)  # type: ignore[union-attr]  # asked only if it `clears`
