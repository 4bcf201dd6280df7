# SPDX-License-Identifier: Apache-2.0
"""The function of windows that a user gave, of whatever kind, called in one way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from pyflinklike.api.context import RuntimeContext
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions import Function
from pyflinklike.shown import instance_of, shown
from pyflinklike.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = ["AppliedFunction"]

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
