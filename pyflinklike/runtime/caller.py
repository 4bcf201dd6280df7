# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of whatever calls the user's function.

The operator and `serving` know only this: which methods a function has, and what a record's value
is to it, is the caller's matter.  `runtime/callers.py` says which caller a function has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from pyflinklike.api.context import RuntimeContext
from pyflinklike.runtime.outputs import Outputs
from pyflinklike.types import TypeInformation

__all__ = ["Caller"]


class Caller(Protocol):
    """Calls one function; `FunctionCalls` is one."""

    @property
    def function(self) -> Any:
        """The user's."""

    @property
    def key_type(self) -> TypeInformation:
        """Of the keys."""

    @property
    def outputs(self) -> Outputs:
        """What the function yielded since it was taken."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Have the function declare its states.

        Raises:
            UserFunctionError: The function raised.
        """

    def close(self) -> None:
        """Tell the function that it is over.

        Raises:
            UserFunctionError: The function raised.
        """

    def process(
        self, keys: Iterable[Any], values: Iterable[Any], timestamps: Iterable[int | None]
    ) -> None:
        """Process records of the current group, in order.

        Args:
            keys: In their frozen form.
            values: What the caller takes for a record's value: the element, or with two inputs
                the number of its input and the element.
            timestamps: In ms, None for an element that has none.

        Raises:
            UserFunctionError: The function raised.
        """

    def one_by_one(self) -> Callable[[Any, Any, int | None], None]:
        """What processes a single record of the current group, as `process` does many.

        Returns:
            A function of the key, the value and the timestamp, with the same errors.
        """

    def fire(self, queue: Any, now: int) -> int:
        """Fire the timers of a queue that are due; how many there were.

        Args:
            queue: `Timers` of the current group, of the kind that the function's are.
            now: The time of its domain in ms.

        Raises:
            UserFunctionError: The function raised.
        """

    def name(self) -> str:
        """The function's, for messages."""
