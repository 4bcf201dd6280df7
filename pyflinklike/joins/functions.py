# SPDX-License-Identifier: Apache-2.0
"""What users subclass to join two keyed streams; Flink has these in Java only.

Names are those of Java, written as PyFlink writes names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from pyflinklike.functions import Function

__all__ = ["CoGroupFunction", "FlatJoinFunction", "JoinFunction", "ProcessJoinFunction"]


class ProcessJoinFunction(Function, ABC):
    """A function of two elements of one key whose times are within an interval of each other.

    As Flink's `ProcessJoinFunction`.  State of the key may be obtained in `open`.
    """

    class Context(ABC):
        """What `process_element` may ask; valid during that call only."""

        @abstractmethod
        def get_left_timestamp(self) -> int | None:
            """The time of the left element in ms; None where there is none, in an outer join."""

        @abstractmethod
        def get_right_timestamp(self) -> int | None:
            """The time of the right element in ms; None where there is none, in an outer join."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """The time of the pair in ms: the later one of its two.

            Of an element without a partner it is the time at which that was known.
            """

        @abstractmethod
        def get_current_key(self) -> Any:
            """The key of both."""

    @abstractmethod
    def process_element(
        self, left: Any, right: Any, ctx: ProcessJoinFunction.Context
    ) -> Iterable[Any] | None:
        """Process a pair.

        Args:
            left: Of the first stream; None in an outer join, where `right` has no partner.
            right: Of the second stream; None in an outer join, where `left` has no partner.
            ctx: The times of both.

        Returns:
            The outputs; a pair that begins with an `OutputTag` goes to that side output.
        """


class JoinFunction(Function, ABC):
    """Makes one output of two elements of one key and window, as Flink's `JoinFunction`."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Any:
        """The output for a pair.

        Args:
            first: Of the first stream; None in an outer join, where the other stream has
                elements in the window and this one has none.
            second: Of the second stream, likewise.
        """


class FlatJoinFunction(Function, ABC):
    """Makes any number of outputs of two elements of one key and window."""

    @abstractmethod
    def join(self, first: Any, second: Any) -> Iterable[Any] | None:
        """The outputs for a pair; None is none.

        Args:
            first: As of `JoinFunction.join`.
            second: As of `JoinFunction.join`.
        """


class CoGroupFunction(Function, ABC):
    """Makes outputs of all elements of one key and window, as Flink's `CoGroupFunction`."""

    @abstractmethod
    def co_group(self, first: list[Any], second: list[Any]) -> Iterable[Any] | None:
        """The outputs of a window.

        Args:
            first: The elements of the first stream, in order of arrival; may be empty, but not
                if `second` is.
            second: Those of the second stream.
        """
