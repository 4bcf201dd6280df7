# SPDX-License-Identifier: Apache-2.0
"""Instances of nodes, and what travels between them.

A station is one parallel instance of a node.  Whoever sends to it asks for a channel, which takes
elements and watermarks; the station's own watermark is the least one of all its channels.

Which instance gets an element.

Instances that make watermarks: those that read a source, and those that assign timestamps.

Instances that carry out sinks.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from pyflinklike.engine.checks import is_int64
from pyflinklike.engine.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.engine.graph.nodes import KeyBy, Node, Partition, Partitioning
from pyflinklike.engine.graph.sinks import SinkWriter
from pyflinklike.engine.graph.watermarks import TimestampAssigner, WatermarkStrategy
from pyflinklike.engine.runtime.call_contexts import TaskInfo
from pyflinklike.engine.runtime.user_errors import where_raised
from pyflinklike.engine.shown import shown, shown_error
from pyflinklike.engine.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.engine.types.copies import as_given, copied
from pyflinklike.engine.types.frozen_keys import key_group_of
from pyflinklike.errors import PyflinklikeError, StateValueError, UserFunctionError

__all__ = [
    "Channel",
    "CollectStation",
    "Converter",
    "Exit",
    "Gate",
    "KeyByStation",
    "Send",
    "SinkStation",
    "SourceStation",
    "Station",
    "TimestampStation",
    "WatermarkMaker",
    "converter_of",
    "forwarded",
    "guarded",
    "guarded_call",
    "misfit",
    "nowhere",
    "routed",
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


_KEY_MISFIT = "what the key selector gives does not fit the key_type of key_by"
_KNOWN_KEYS = 100_000
"""For so many keys the instance is remembered; keys without end must not fill the memory."""

Keyed = Callable[[Any, Any, "int | None"], None]


def routed(node: Node, index: int, parallelism: int, channels: Sequence[Channel]) -> Send:
    """What sends to one of the instances of a consumer, or to all.

    Args:
        node: That sends.
        index: Of the instance that sends.
        parallelism: Of the node that sends.
        channels: To each instance of the consumer.
    """
    elements = [channel.element for channel in channels]
    if isinstance(node, Partition):
        return _partitioned(node, index, elements)
    return forwarded(index, parallelism, elements)


def forwarded(index: int, parallelism: int, elements: list[Send]) -> Send:
    """What sends to the instance of the same number, or to one after the other.

    Args:
        index: Of the instance that sends.
        parallelism: Of the node that sends.
        elements: Of each instance of the consumer.
    """
    if len(elements) == 1:
        return elements[0]
    if len(elements) == parallelism:
        return elements[index]
    return _in_turn(index, elements)


def _in_turn(index: int, elements: list[Send]) -> Send:
    following = cycle([*elements[index % len(elements) :], *elements[: index % len(elements)]])

    def send(value: Any, timestamp: int | None) -> None:
        next(following)(value, timestamp)

    return send


def _partitioned(node: Partition, index: int, elements: list[Send]) -> Send:
    how = node.how
    if how is Partitioning.BROADCAST:

        def send_all(value: Any, timestamp: int | None) -> None:
            for each in elements:
                each(copied(value), timestamp)

        return send_all
    if how is Partitioning.CUSTOM:
        return _by_partitioner(node, elements)
    if how is Partitioning.GLOBAL:
        return elements[0]
    if how is Partitioning.SHUFFLE:
        choose = random.Random(index).choice  # noqa: S311  # spreads elements, guards nothing

        def send_any(value: Any, timestamp: int | None) -> None:
            choose(elements)(value, timestamp)

        return send_any
    if how is Partitioning.FORWARD:
        return elements[index % len(elements)]
    return _in_turn(index, elements)


def _by_partitioner(node: Partition, elements: list[Send]) -> Send:
    assert node.selector is not None
    assert node.partitioner is not None
    key_of, count = guarded(node.selector, "the key selector"), len(elements)
    partition = guarded(node.partitioner, "the partitioner")

    def send(value: Any, timestamp: int | None) -> None:
        chosen = partition(key_of(value), count)
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            msg = (
                f"a partitioner gives a number from 0 to {count - 1}, got {shown(chosen)} for "
                f"element {shown(value)}; take it modulo the number of partitions"
            )
            raise UserFunctionError(msg)
        elements[chosen](value, timestamp)

    return send


class KeyByStation(Station):
    """Gives elements keys, and sends those of one key to one instance.

    Args:
        out: Takes watermarks.
        node: Tells the key.
        consumers: The channels to each consumer's instances.
        key_groups: How many there are.
        task: Which instance it is.
    """

    def __init__(
        self,
        out: Exit,
        node: KeyBy,
        consumers: Sequence[Sequence[Channel]],
        key_groups: int,
        task: TaskInfo,
    ) -> None:
        super().__init__(out)
        self._selector = node.selector
        self._key_of = guarded_call(node.selector.get_key, "the key selector")
        self._freeze, self._key_groups = node.key_type.freeze_key, key_groups
        self._sends = [self._to(channels) for channels in consumers]
        self._task = task

    def _element(self, position: int) -> Send:  # noqa: ARG002
        key_of, freeze, sends = self._key_of, self._freeze, self._sends
        if len(sends) == 1:
            send = sends[0]

            def one(value: Any, timestamp: int | None) -> None:
                try:
                    key = freeze(key_of(value))
                except StateValueError as error:
                    raise misfit(_KEY_MISFIT, error) from error
                send(key, value, timestamp)

            return one

        def element(value: Any, timestamp: int | None) -> None:
            try:
                key = freeze(key_of(value))
            except StateValueError as error:
                raise misfit(_KEY_MISFIT, error) from error
            for each in sends:
                each(key, copied(value), timestamp)

        return element

    def _to(self, channels: Sequence[Channel]) -> Keyed:
        """What sends an element to the instance that has its key."""
        sends = [channel.keyed or _without_key(channel.element) for channel in channels]
        if len(sends) == 1:
            return sends[0]
        groups, count = self._key_groups, len(sends)
        # The hash of a key takes 1 to 3 microseconds, more than all else here, and most keys come again.
        known: dict[Any, Keyed] = {}

        def send(key: Any, value: Any, timestamp: int | None) -> None:
            found = known.get(key)
            if found is None:
                if len(known) == _KNOWN_KEYS:
                    known.clear()
                found = known[key] = sends[key_group_of(key, groups) * count // groups]
            found(key, value, timestamp)

        return send

    def open(self) -> None:
        """Open the selector."""
        self._selector.open(None)

    def close(self) -> None:
        """Close it."""
        self._selector.close()


def _without_key(element: Send) -> Keyed:
    return lambda _, value, timestamp: element(value, timestamp)


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


def _dropped(_: Any, __: int | None) -> None:
    """An element that nobody reads."""


def _ended(_: int) -> None:
    """A watermark that nobody reads."""


def nowhere() -> Exit:
    """The exit of an instance behind which nothing comes."""
    return Exit(_dropped, {}, _ended)


class SinkStation(Station):
    """Writes elements.

    Args:
        writer: Does it.
    """

    def __init__(self, writer: SinkWriter) -> None:
        super().__init__(nowhere())
        self.writer = writer

    def _element(self, position: int) -> Send:  # noqa: ARG002
        return self.writer.write


class CollectStation(Station):
    """Keeps elements for the program.

    Args:
        collected: Gets them.
    """

    def __init__(self, collected: deque[Any]) -> None:
        super().__init__(nowhere())
        self._collected = collected

    def _element(self, position: int) -> Send:  # noqa: ARG002
        append = self._collected.append
        return lambda value, _: append(as_given(value))
