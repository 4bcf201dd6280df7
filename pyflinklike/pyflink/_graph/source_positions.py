# SPDX-License-Identifier: Apache-2.0
"""The position of a source: how far it was read, as counts of elements.

Any iterator of Python can be a source here, so there is no offset to seek to.  Instead a source is read again
from its beginning, and as many elements are skipped as were read before.  So it must yield the same elements
in the same order each time; `Source.is_read_alike` says whether it does.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.state_processor._savepoints.manifest import Position, move_on

__all__ = ["ReadParts", "find_beginning", "find_parts_left"]

Elements = Iterator[tuple[Any, "int | None"]]


def find_beginning(source: Source, count: int) -> Position:
    """Return the position of a source before its first element.

    Args:
        source: The source; one that ends has its splits listed now.
        count: The number of splits, if they have no names.
    """
    if source.is_bounded and source.has_named_splits:
        return {"left": [[name, 0] for name in source.splits()]}
    return {"splits": count, "read": [0] * count}


def find_parts_left(source: Source, position: Position) -> list[Elements]:
    """Return the elements of each split after a position; one iterator for splits that follow one another.

    Args:
        source: The source that the position belongs to.
        position: One of the forms that count elements.
    """
    if "left" in position:
        splits = [(source.read_split(name), skip) for name, skip in position["left"]]
    else:
        count, read = position["splits"], position["read"]
        splits = [
            (source.read(index, count), skip) for index, skip in enumerate(read) if skip is not None
        ]
    parts = [_without_first(elements, skip) for elements, skip in splits]
    # "first" counts elements over all splits in order; a source that Spark has read has such a position.
    first = position.get("first", 0)
    return [_without_first(chain.from_iterable(parts), first)] if first else parts


def _without_first(elements: Elements, skip: int) -> Elements:
    return islice(elements, skip, None) if skip else elements


class ReadParts:
    """The parts of a source that the instances of this process read, and how far they have read.

    Args:
        source: The source to read.
        instances: The number of instances that share the parts.
        position: The position from which they go on; None reads from the beginning.
    """

    def __init__(self, source: Source, instances: int, position: Position | None) -> None:
        self._source, self._instances = source, instances
        self._begun = position
        self._parts: list[Elements] | None = None
        self._counts: list[int | None] = []
        """The number of elements of each part that were read here; None at its end."""

    def elements(self, index: int) -> Elements:
        """Yield the elements of one instance, part by part.

        Args:
            index: The number of the instance, from 0.

        Raises:
            SparkSetupError: This process cannot read the source; it is raised at once.
        """
        return self._elements(index, self._open())

    def _elements(self, index: int, parts: list[Elements]) -> Elements:
        for number in range(index, len(parts), self._instances):
            for element in parts[number]:
                self._counts[number] += 1  # type: ignore[operator]
                yield element
            self._counts[number] = None

    def is_at_an_end(self) -> bool:
        """Return whether this process has read no element yet, or all elements."""
        self._open()
        return not any(self._counts) or not any(each is not None for each in self._counts)

    def position(self) -> Position:
        """Return how far the source was read."""
        parts, begun = self._open(), self._begun
        assert begun is not None
        if "first" in begun:
            (count,) = self._counts
            # After the end of all splits no element is left, so the number to skip does not matter.
            return {**begun, **_leave_nothing(begun)} if count is None else move_on(begun, count)
        assert len(parts) == len(self._counts)
        counts = iter(self._counts)
        if "left" in begun:
            behind = [(name, skip, next(counts)) for name, skip in begun["left"]]
            return {
                "left": [[name, skip + count] for name, skip, count in behind if count is not None]
            }
        read = [None if each is None else _sum(each, next(counts)) for each in begun["read"]]
        return {"splits": begun["splits"], "read": read}

    def _open(self) -> list[Elements]:
        if self._parts is None:
            if self._begun is None:
                self._begun = find_beginning(self._source, self._instances)
            self._parts = find_parts_left(self._source, self._begun)
            self._counts = [0] * len(self._parts)
        return self._parts


def _leave_nothing(position: Position) -> Position:
    if "left" in position:
        return {"left": [], "first": 0}
    return {"read": [None] * position["splits"], "first": 0}


def _sum(skip: int, count: int | None) -> int | None:
    return None if count is None else skip + count
