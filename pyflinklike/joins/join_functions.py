# SPDX-License-Identifier: Apache-2.0
"""The functions that users subclass to join two keyed streams.

Flink has these functions in Java only.  Their names are Java's, in the spelling of PyFlink.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from types import GeneratorType
from typing import Any

from pyflinklike._messages import short_repr
from pyflinklike.functions.contexts import Attempt
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import check_results
from pyflinklike.state.fold_functions import Function
from pyflinklike.types.copies import as_given


class ProcessJoinFunction(Function, ABC):
    """A function of two elements of one key whose times are within an interval of each other.

    It is Flink's `ProcessJoinFunction`.  `open` may obtain states of the key.
    """

    class Context(ABC):
        """The times and the key of a pair; valid only during the call of `process_element`."""

        @abstractmethod
        def get_left_timestamp(self) -> int | None:
            """Return the time of the left element in ms; None if an outer join lacks it."""

        @abstractmethod
        def get_right_timestamp(self) -> int | None:
            """Return the time of the right element in ms; None if an outer join lacks it."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the time of the pair in ms: the later one of its two times.

            For an element without a partner it is the time after which no partner can come.
            """

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of both elements."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterable[Any] | None:
        """Process a pair.

        Args:
            left: The element of the first stream; None in an outer join if `right` has no partner.
            right: The element of the second stream; None in an outer join if `left` has no partner.
            ctx: The times and the key of the pair.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """


class JoinFunction(Function, ABC):
    """A function that makes one output from two elements of one key and window, as in Flink."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """Return the output for a pair.

        Args:
            first: The element of the first stream; None in an outer join if only the second stream
                has elements in the window.
            second: The element of the second stream; None in an outer join if only the first
                stream has elements in the window.
        """


class FlatJoinFunction(Function, ABC):
    """A function that makes any number of outputs from two elements of one key and window."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """Return the outputs for a pair; None means no output.

        Args:
            first: The element of the first stream, or None as in `JoinFunction.join`.
            second: The element of the second stream, or None as in `JoinFunction.join`.
        """


class CoGroupFunction(Function, ABC):
    """A function that makes outputs from all elements of one key and window, as in Flink."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """Return the outputs of a window; None means no output.

        Args:
            first: The elements of the first stream in order of arrival; empty if only the second
                stream has elements in the window.
            second: The elements of the second stream in order of arrival; empty if only the first
                stream has elements in the window.
        """


def outputs_in(results: Iterable[Any] | None, function: object, method: str) -> Iterable[Any]:
    """Return the outputs of a call; None means no output.

    Args:
        results: The result of the call.
        function: The user's function, for messages.
        method: The name of the method that was called, for messages.

    Raises:
        OutputError: The result is a single output, not an iterable of outputs.
    """
    if results is None:
        return ()
    if results.__class__ is not GeneratorType:
        check_results(results, f"calls of {type(function).__qualname__}.{method}")
    return results


def call_alone(
    attempt: Attempt,
    call: Callable[[], Iterable[Any] | None],
    pair: tuple[Any, Any],
    function: object,
    method: str,
    *,
    settled: bool = False,
) -> Iterable[Any]:
    """Call a function for a pair, and return its outputs; if it fails, only this pair is lost.

    Args:
        attempt: Makes calls that may fail alone; the operator provides it.
        call: Calls the function with the pair.
        pair: The two elements, for messages.
        function: The user's function, for messages.
        method: The name of the method that is called, for messages.
        settled: Whether everything done before this call stays, as in `Attempt`.
    """

    # Copied at once: a generator must run within the attempt, and may change what it has yielded.
    def gather() -> list[Any]:
        return [
            (each[0], *map(as_given, each[1:]))
            if each.__class__ is tuple and each and each[0].__class__ is OutputTag
            else as_given(each)
            for each in outputs_in(call(), function, method)
        ]

    name = f"{type(function).__qualname__}.{method}" if isinstance(function, Function) else None
    return attempt(gather, lambda: short_repr(pair), name, settled=settled) or ()
