# SPDX-License-Identifier: Apache-2.0
"""Operators behind each other, each in its harness: a query of several keyed functions without Spark.

What one emits goes to the next at once, and a watermark passes on when the timers that it made due
have fired, as in Flink.  On Spark a chain gives the same, micro-batch by micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import attrs

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.shown import shown

__all__ = ["HarnessChain"]

T = TypeVar("T")
Link = Callable[[Any], "tuple[Any, int | None] | None"]


class _Harness(Protocol):
    """What a chain is made of, as `KeyedProcessHarness`."""

    @property
    def output(self) -> list[Any]: ...
    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]: ...
    def process_watermark(self, watermark: int) -> list[Any]: ...
    def set_processing_time(self, processing_time: int) -> list[Any]: ...
    def side_output(self, tag: OutputTag[T]) -> list[T]: ...
    def close(self) -> None: ...


@attrs.define
class _Linked:
    """A harness and how it gets its elements.

    Args:
        before: The harness whose outputs it gets.
        harness: It.
        link: Makes an element of an output.
        side: The side output that it gets, or None for the main one.
        taken: How many of the side output it has got.
    """

    before: _Harness
    harness: _Harness
    link: Link
    side: OutputTag[Any] | None
    taken: int = 0

    def process(self, main: list[Any]) -> list[Any]:
        """Process what the harness before emitted since the last call; the outputs."""
        results = []
        for output in main if self.side is None else self._new(self.side):
            element = self.link(output)
            if element is not None:
                results += self.harness.process_element(*_checked(element, output))
        return results

    def _new(self, side: OutputTag[Any]) -> list[Any]:
        emitted = self.before.side_output(side)
        new, self.taken = emitted[self.taken :], len(emitted)
        return new


class HarnessChain:
    """Drives harnesses one behind the other.

    `HarnessChain(first).then(second, link)` gives `second` what `first` emits.  Each harness can
    still be asked for its state, timers and outputs; drive them through the chain only.

    Args:
        harness: The first, as `KeyedProcessHarness`.
    """

    def __init__(self, harness: _Harness) -> None:
        self._first = self._last = harness
        self._linked: list[_Linked] = []

    def then(
        self, harness: _Harness, link: Link, *, side_output: OutputTag[Any] | None = None
    ) -> HarnessChain:
        """Put a harness behind the last one.

        Args:
            harness: The next.
            link: Given an output of the one before, the element for the next and its event time
                in ms (or None), or None where the output is left out: what DataFrame code between
                two operators does.
            side_output: Take this side output of the one before, and not its main output.

        Returns:
            The chain itself.

        Raises:
            DeclarationTypeError: The link is not callable.
        """
        if not callable(link):
            msg = (
                f"a link is a function that makes an element and its time of an output, got "
                f"{shown(link)}; write for example lambda row: (row, row.at)"
            )
            raise DeclarationTypeError(msg)
        self._linked.append(_Linked(self._last, harness, link, side_output))
        self._last = harness
        return self

    def __enter__(self) -> HarnessChain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all harnesses, the last one first."""
        for harness in reversed(self.harnesses):
            harness.close()

    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]:
        """Process one element.

        Args:
            value: The element.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs of the last operator in this call; so for all methods that drive.
        """
        return self._through(self._first.process_element(value, timestamp))

    def process_elements(self, elements: Iterable[tuple[Any, int | None]]) -> list[Any]:
        """Process elements with their event times in ms, in the order given, one by one."""
        return [result for each in elements for result in self.process_element(*each)]

    def process_watermark(self, watermark: int) -> list[Any]:
        """Let a watermark in ms pass through: each operator fires, and what it emits comes before it."""
        return self._through(
            self._first.process_watermark(watermark),
            lambda harness: harness.process_watermark(watermark),
        )

    def set_processing_time(self, processing_time: int) -> list[Any]:
        """Set the processing time of all in ms; what is due fires, the first operator first."""
        return self._through(
            self._first.set_processing_time(processing_time),
            lambda harness: harness.set_processing_time(processing_time),
        )

    def end_of_input(self) -> list[Any]:
        """The watermark goes to `MAX_WATERMARK` in all: every event timer fires."""
        return self.process_watermark(MAX_WATERMARK)

    @property
    def harnesses(self) -> list[Any]:
        """All harnesses, the first one first."""
        return [self._first, *(each.harness for each in self._linked)]

    @property
    def output(self) -> list[Any]:
        """Every main output of the last operator so far, in order."""
        return self._last.output

    def side_output(self, tag: OutputTag[T]) -> list[T]:
        """Every value that the last operator gave to a side output so far, in order."""
        return self._last.side_output(tag)

    def _through(
        self, results: list[Any], advance: Callable[[_Harness], list[Any]] = lambda _: []
    ) -> list[Any]:
        for each in self._linked:
            results = each.process(results) + advance(each.harness)
        return results


def _checked(element: Any, output: Any) -> tuple[Any, int | None]:
    """A pair that a link gave.

    Raises:
        DeclarationTypeError: It is none.
    """
    if type(element) is not tuple or len(element) != 2:
        msg = (
            f"a link gives an element and its event time in ms, or None, got {shown(element)} for "
            f"output {shown(output)}; return (element, None) where there is no event time"
        )
        raise DeclarationTypeError(msg)
    return element
