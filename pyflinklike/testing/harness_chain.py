# SPDX-License-Identifier: Apache-2.0
"""A chain of operators, each in its harness: a query of several functions without Spark.

Every output goes to the next operator at once, and a watermark passes on when the timers that it
made due have fired, as in Flink.  On Spark a chain gives the same outputs, micro-batch by
micro-batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import attrs

from pyflinklike._clock import MAX_WATERMARK
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.functions.output_tag import OutputTag

T = TypeVar("T")
Link = Callable[[Any], "tuple[Any, int | None] | None"]


class _Harness(Protocol):
    """The methods of a harness that a chain uses; `KeyedProcessHarness` has them."""

    @property
    def output(self) -> list[Any]: ...
    def process_element(self, value: Any, timestamp: int | None = None) -> list[Any]: ...
    def process_watermark(self, watermark: int) -> list[Any]: ...
    def set_processing_time(self, processing_time: int) -> list[Any]: ...
    def side_output(self, tag: OutputTag[T]) -> list[T]: ...
    def close(self) -> None: ...


@attrs.define
class _Linked:
    """A harness behind another one.

    Args:
        before: The harness whose outputs become its elements.
        harness: The harness of this operator.
        link: Makes an element and its event time from an output, or None to leave it out.
        side: The side output that it takes; None for the main output.
        taken: How many values it has taken from the side output.
    """

    before: _Harness
    harness: _Harness
    link: Link
    side: OutputTag[Any] | None
    taken: int = 0

    def process(self, main: list[Any]) -> list[Any]:
        """Process the outputs of the harness before since the last call; return the new outputs."""
        results = []
        for output in main if self.side is None else self._new(self.side):
            element = self.link(output)
            if element is not None:
                results += self.harness.process_element(*_check(element, output))
        return results

    def _new(self, side: OutputTag[Any]) -> list[Any]:
        # Harnesses keep all side outputs for the test to read, so the new ones are at the end.
        emitted = self.before.side_output(side)
        new, self.taken = emitted[self.taken :], len(emitted)
        return new


class HarnessChain:
    """A chain that drives harnesses one behind the other.

    `HarnessChain(first).then(second, link)` gives `second` the outputs of `first`.  You can still
    ask each harness for its state, timers and outputs, but drive them through the chain only.

    Example:
        ```python
        clean = KeyedProcessHarness(Clean(), key_selector=lambda row: row["user"])
        count = KeyedProcessHarness(Count(), key_selector=lambda row: row["page"])
        with HarnessChain(clean).then(count, lambda row: (row, row["at"])) as chain:
            assert chain.process_element({"user": "ann", "page": "/", "at": 5}, 5) == [("/", 1)]
        ```

    Args:
        harness: The first harness, such as a `KeyedProcessHarness`.
    """

    def __init__(self, harness: _Harness) -> None:
        self._first = self._last = harness
        self._linked: list[_Linked] = []

    def then(
        self, harness: _Harness, link: Link, *, side_output: OutputTag[Any] | None = None
    ) -> HarnessChain:
        """Put a harness behind the last one.

        Args:
            harness: The harness to put behind the last one.
            link: Takes an output of the harness before, and returns the next element with its event
                time in ms (or None), or None to leave the output out.  It stands for the DataFrame
                code between two operators.
            side_output: A side output of the harness before, to take instead of its main output.

        Returns:
            The chain itself.

        Raises:
            DeclarationTypeError: The link is not callable.
        """
        if not callable(link):
            msg = (
                f"a link is a function that makes an element and its time from an output, got "
                f"{short_repr(link)}; write for example lambda row: (row, row.at)"
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
            value: An element as the first function takes it.
            timestamp: Its event time in ms, if it has one.

        Returns:
            The main outputs that the last operator yielded in this call.
        """
        return self._through(self._first.process_element(value, timestamp))

    def process_elements(self, elements: Iterable[tuple[Any, int | None]]) -> list[Any]:
        """Process elements with their event times in ms, one by one in the order given."""
        return [result for each in elements for result in self.process_element(*each)]

    def process_watermark(self, watermark: int) -> list[Any]:
        """Pass a watermark in ms through: each operator's outputs come before the watermark."""
        return self._through(
            self._first.process_watermark(watermark),
            lambda harness: harness.process_watermark(watermark),
        )

    def set_processing_time(self, processing_time: int) -> list[Any]:
        """Set the processing time of all harnesses in ms; due timers of the first one fire first."""
        return self._through(
            self._first.set_processing_time(processing_time),
            lambda harness: harness.set_processing_time(processing_time),
        )

    def end_of_input(self) -> list[Any]:
        """Set the watermark of all harnesses to `MAX_WATERMARK`: every event timer fires."""
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
        """Return every value that the last operator gave to a side output so far, in order."""
        return self._last.side_output(tag)

    def _through(
        self, results: list[Any], advance: Callable[[_Harness], list[Any]] = lambda _: []
    ) -> list[Any]:
        for each in self._linked:
            # Outputs come first: they are from before the watermark that `advance` sets.
            results = each.process(results) + advance(each.harness)
        return results


def _check(element: Any, output: Any) -> tuple[Any, int | None]:
    """Return what a link returned, if it is a pair.

    Raises:
        DeclarationTypeError: It is not a pair.
    """
    if type(element) is not tuple or len(element) != 2:
        msg = (
            f"a link gives an element and its event time in ms, or None, got {short_repr(element)} for "
            f"output {short_repr(output)}; return (element, None) if there is no event time"
        )
        raise DeclarationTypeError(msg)
    return element
