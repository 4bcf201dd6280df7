# SPDX-License-Identifier: Apache-2.0
"""Instances of nodes, and what travels between them.

A station is one parallel instance of a node.  Whoever sends to it asks for a channel, which takes
elements and watermarks; the station's own watermark is the least one of all its channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.errors import PyflinklikeError, StateValueError, UserFunctionError
from pyflinklike.runtime.raised import where_raised
from pyflinklike.shown import shown, shown_error
from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.types.copies import copied

__all__ = [
    "Channel",
    "Converter",
    "Exit",
    "Gate",
    "Send",
    "Station",
    "converter_of",
    "guarded",
    "guarded_call",
    "misfit",
    "to_all",
]

Send = Callable[[Any, "int | None"], None]
"""Takes an element with its time in ms, or None."""

Converter = Callable[[Any], Any]


class Channel(NamedTuple):
    """The way from one instance to another one.

    Args:
        element: Takes an element with its time.
        watermark: Takes a watermark in ms.
        keyed: Takes a frozen key and an element with its time, where elements have keys.
    """

    element: Send
    watermark: Callable[[int], None]
    keyed: Callable[[Any, Any, int | None], None] | None = None


class Exit(NamedTuple):
    """Where what an instance gives goes.

    Args:
        main: Takes the elements of the main output.
        side: Take those of the side outputs that are read, by tag id.
        watermark: Takes watermarks.
    """

    main: Send
    side: dict[str, Send]
    watermark: Callable[[int], None]


class Gate:
    """The channels of one input or of all inputs of an instance, and the least watermark of them.

    Args:
        on_watermark: Called when that rises.
    """

    def __init__(self, on_watermark: Callable[[int], None]) -> None:
        self._on_watermark = on_watermark
        self._marks: list[int] = []
        self.watermark = MIN_WATERMARK

    def channel(self) -> Callable[[int], None]:
        """A further channel: takes its watermarks."""
        marks, number = self._marks, len(self._marks)
        marks.append(MIN_WATERMARK)

        def advance(watermark: int) -> None:
            marks[number] = watermark
            least = watermark if len(marks) == 1 else min(marks)
            if least > self.watermark:
                self.watermark = least
                self._on_watermark(least)

        return advance


class Station:
    """An instance of a node; this one passes on what it gets, as `Union` does.

    Args:
        out: Where what it gives goes.
    """

    def __init__(self, out: Exit) -> None:
        self._gate = Gate(self._on_watermark)
        self._out = out

    def channel(self, position: int) -> Channel:
        """A channel for somebody who sends to this instance.

        Args:
            position: Of the input, from 0.
        """
        return Channel(self._element(position), self._gate.channel())

    def _element(self, position: int) -> Send:  # noqa: ARG002
        return self._out.main

    def _on_watermark(self, watermark: int) -> None:
        self._out.watermark(watermark)

    def open(self) -> None:
        """Open the user's functions."""

    def close(self) -> None:
        """Close them."""

    def tick(self, now: int) -> None:
        """The processing time is another one.

        Args:
            now: In ms.
        """


def converter_of(type_info: TypeInformation) -> Converter | None:
    """What makes an element one of a type, where it leaves an operator; None where there is none.

    As in Flink: a FLOAT is rounded, an int that does not fit is refused, rows get names.
    """
    if isinstance(type_info, PickledByteArrayTypeInfo):
        return None
    convert = type_info.freeze if type_info.is_identity else type_info.converted
    return lambda value: None if value is None else convert(value)


def misfit(whose: str, error: StateValueError) -> StateValueError:
    """Say of a value that does not fit its type whose it is.

    Args:
        whose: The rule that it breaks, such as that of an output of an operator.
        error: What the type says.
    """
    return StateValueError(f"{whose}: {error}")


def guarded(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """A call of a user's function whose failure says of which function and element it is.

    Args:
        call: Given an element first.
        name: Of the function.
    """

    def guard(value: Any, *more: Any) -> Any:
        try:
            return call(value, *more)
        except PyflinklikeError:
            raise
        except Exception as error:
            raise _failure(name, value, error) from error

    return guard


def guarded_call(call: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """The same for a call with nothing but an element: without a tuple for the rest."""

    def guard(value: Any) -> Any:
        try:
            return call(value)
        except PyflinklikeError:
            raise
        except Exception as error:
            raise _failure(name, value, error) from error

    return guard


def _failure(name: str, value: Any, error: Exception) -> UserFunctionError:
    where = where_raised(error)
    msg = f"{name} failed for element {shown(value)}: {shown_error(error)}{where}"
    return UserFunctionError(msg)


def to_all(sends: Sequence[Send]) -> Send:
    """One that sends to all; each gets a copy of what can be changed, as a network gives it.

    Args:
        sends: May be none.
    """
    if len(sends) == 1:
        return sends[0]

    def send(value: Any, timestamp: int | None) -> None:
        for each in sends:
            each(copied(value), timestamp)

    return send
