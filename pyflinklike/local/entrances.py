# SPDX-License-Identifier: Apache-2.0
"""Instances that make watermarks: those that read a source, and those that assign timestamps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyflinklike.checks import is_int64
from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import UserFunctionError
from pyflinklike.graph.watermarks import TimestampAssigner, WatermarkStrategy
from pyflinklike.local.stations import Exit, Send, Station, guarded
from pyflinklike.shown import shown

__all__ = ["SourceStation", "TimestampStation", "WatermarkMaker"]


class WatermarkMaker:
    """Makes watermarks of the times of elements.

    Args:
        strategy: Says how.
        out: Where they go.
    """

    def __init__(self, strategy: WatermarkStrategy, out: Exit) -> None:
        self._watermark_after, self._out = strategy.watermark_after, out.watermark
        self._greatest: int | None = None
        self._last = MIN_WATERMARK

    def note(self, timestamp: int | None) -> None:
        """An element has this time."""
        if timestamp is not None and (self._greatest is None or timestamp > self._greatest):
            self._greatest = timestamp

    def emit(self) -> None:
        """Send the watermark that the elements so far make, if it is a later one."""
        if self._greatest is None:
            return
        watermark = self._watermark_after(self._greatest)
        if watermark is not None and watermark > self._last:
            self._last = watermark
            self._out(watermark)


def _assigning(assigner: TimestampAssigner | None) -> Send | None:
    """What tells the time of an element, given that which it has."""
    if assigner is None:
        return None
    name = f"{type(assigner).__qualname__}.extract_timestamp"
    extract = guarded(assigner.extract_timestamp, name)

    def time_of(value: Any, timestamp: int | None) -> int:
        told = extract(value, timestamp)
        if not is_int64(told):
            msg = (
                f"{name} gives an int of ms, got {shown(told)} for element {shown(value)}; "
                "convert it, for example int(seconds * 1000)"
            )
            raise UserFunctionError(msg)
        return told

    return time_of  # type: ignore[return-value]


class SourceStation(Station):
    """Reads its part of a source.

    Args:
        out: Where elements go.
        elements: With their times.
        strategy: Says what watermarks follow.
    """

    def __init__(
        self, out: Exit, elements: Iterator[tuple[Any, int | None]], strategy: WatermarkStrategy
    ) -> None:
        super().__init__(out)
        self.maker = WatermarkMaker(strategy, out)
        self._elements = elements
        self._time_of: Any = _assigning(strategy.assigner)

    def step(self) -> bool:
        """Read one element; whether there was one."""
        for value, timestamp in self._elements:
            self.take(value, timestamp)
            return True
        self.end()
        return False

    def take(self, value: Any, timestamp: int | None) -> None:
        """An element comes in.

        Args:
            value: The element.
            timestamp: Its time in ms from the source, or None.
        """
        if self._time_of is not None:
            timestamp = self._time_of(value, timestamp)
        self.maker.note(timestamp)
        self._out.main(value, timestamp)

    def take_all(self, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Elements come in, in order.

        Args:
            elements: With their times, as of `take`.
        """
        time_of, note, send = self._time_of, self.maker.note, self._out.main
        for value, given in elements:
            timestamp = given if time_of is None else time_of(value, given)
            if timestamp is not None:
                note(timestamp)
            send(value, timestamp)

    def end(self) -> None:
        """No further element will come."""
        self._out.watermark(MAX_WATERMARK)


class TimestampStation(Station):
    """Gives elements other times; watermarks of others end here, but for the last one.

    Args:
        out: Where elements go.
        strategy: Says which.
    """

    def __init__(self, out: Exit, strategy: WatermarkStrategy) -> None:
        super().__init__(out)
        self.maker = WatermarkMaker(strategy, out)
        self._time_of: Any = _assigning(strategy.assigner)

    def _element(self, position: int) -> Send:  # noqa: ARG002
        time_of, note, send = self._time_of, self.maker.note, self._out.main

        def element(value: Any, timestamp: int | None) -> None:
            if time_of is not None:
                timestamp = time_of(value, timestamp)
            note(timestamp)
            send(value, timestamp)

        return element

    def _on_watermark(self, watermark: int) -> None:
        if watermark == MAX_WATERMARK:
            self._out.watermark(watermark)
