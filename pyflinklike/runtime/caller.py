# SPDX-License-Identifier: Apache-2.0
"""The protocol between an operator and the caller of the user's function.

The operator knows nothing else of a function.  The caller alone knows which methods the function
has, and what the value of a record is to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pyflinklike.api.context import RuntimeContext
from pyflinklike.runtime.outputs import Outputs
from pyflinklike.types import TypeInformation

__all__ = ["Caller"]


class Caller(Protocol):
    """Calls one function, as `FunctionCalls` does."""

    @property
    def function(self) -> Any:
        """The user's function."""

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""

    @property
    def outputs(self) -> Outputs:
        """The outputs that the host has not taken yet."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function, which declares its states.

        Raises:
            UserFunctionError: The function raised.
        """

    def close(self) -> None:
        """Close the function.

        Raises:
            UserFunctionError: The function raised.
        """

    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group, in order.

        Args:
            keys: In their frozen form.
            values: For each record the element, or with two inputs the pair of the number of the
                input and the element.
            timestamps: In ms, None for an element without event time.

        Raises:
            UserFunctionError: The function raised.
        """

    def one_by_one(self) -> Callable[[Any, Any, int | None], None]:
        """Return a function that processes a single record of the current group.

        Returns:
            A function of the key, the value and the timestamp, with the errors of `process`.
        """

    def fire(self, queue: Any, now: int) -> int:
        """Fire the due timers of a queue, and return their number.

        Args:
            queue: `Timers` of the current group, in the form that the function's operator has.
            now: The time of its domain in ms.

        Raises:
            UserFunctionError: The function raised.
        """

    def name(self) -> str:
        """Return the name of the function for messages."""
