# SPDX-License-Identifier: Apache-2.0
"""Stream operators, the instances of nodes, and the channels between them.

A stream operator is one parallel instance of a node.  Each sender asks it for a channel, which takes elements
and watermarks; the operator's own watermark is the least one of all its channels.  The classes here
call no operator of the runtime: they read sources, make watermarks, choose the next instance and
write to sinks.

The functions that take elements are closures, not methods, and single readers get no wrapper: an element passes
many of these calls, so a call and a look-up less for each are worth the lines.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

from pyflinklike._checks import is_int64
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike._messages import short_repr, shown_error
from pyflinklike._runtime.user_errors import hint, where_raised
from pyflinklike.errors import PyflinklikeError, StateValueError, UserFunctionError
from pyflinklike.functions.metric_group import Increment
from pyflinklike.pyflink._graph.nodes import KeyBy, Node, Partition, Partitioning
from pyflinklike.pyflink._graph.watermarks import TimestampAssigner, WatermarkStrategy
from pyflinklike.types import PickledByteArrayTypeInfo, TypeInformation
from pyflinklike.types.copies import copy_value
from pyflinklike.types.frozen_keys import key_group_of

Send = Callable[[Any, "int | None"], None]
"""Takes an element with its time in ms, or None."""

Converter = Callable[[Any], Any]


class Channel(NamedTuple):
    """The way from one instance to another one.

    Args:
        element: Takes an element with its time.
        watermark: Takes a watermark in ms.
        keyed: Takes a frozen key and an element with its time; None if the receiver takes no keys.
    """

    element: Send
    watermark: Callable[[int], None]
    keyed: Callable[[Any, Any, int | None], None] | None = None


class Output(NamedTuple):
    """The functions that take the outputs of an instance.

    Args:
        main: Takes the elements of the main output.
        side: For each tag id that is read, takes the elements of that side output.
        watermark: Takes watermarks in ms.
    """

    main: Send
    side: dict[str, Send]
    watermark: Callable[[int], None]


class StreamOperator:
    """An instance of a node; this class passes on all elements, as `Union` does.

    Args:
        out: Takes the outputs of the instance.
    """

    def __init__(self, out: Output) -> None:
        self._out = out
        self._watermarks: list[int] = []
        """The watermark of each channel; the instance's own watermark is the least one."""
        self._watermark = MIN_WATERMARK
        self.is_stopped = False
        """Whether the job is stopped before its input ends.  Then timers stay for the next job."""

    def channel(self, position: int) -> Channel:
        """Add a channel to this instance for one sender.

        Args:
            position: The number of the input, from 0.
        """
        return Channel(self._element(position), self._watermark_channel())

    def _watermark_channel(self) -> Callable[[int], None]:
        """Return the function that takes the watermarks of a new channel."""
        watermarks, number = self._watermarks, len(self._watermarks)
        watermarks.append(MIN_WATERMARK)

        def advance(watermark: int) -> None:
            watermarks[number] = watermark
            least = watermark if len(watermarks) == 1 else min(watermarks)
            if least > self._watermark:
                self._watermark = least
                self._on_watermark(least)

        return advance

    def _element(self, position: int) -> Send:  # noqa: ARG002
        return self._out.main

    def _on_watermark(self, watermark: int) -> None:
        self._out.watermark(watermark)

    def open(self) -> None:
        """Open the user's functions."""

    def close(self) -> None:
        """Close the user's functions."""

    def abandon(self) -> None:
        """Close after a failure, without another error."""

    def settle(self) -> None:
        """Pass on all outputs that are held back."""

    def tick(self, now: int) -> None:
        """Take the new processing time, in ms."""

    def take_metrics(self) -> list[Increment]:
        """Return the counts of the user's metrics since the last call."""
        return []


def converter_of(type_info: TypeInformation) -> Converter | None:
    """Return the conversion of an operator's outputs to their type; None if there is none.

    As in Flink, a FLOAT is rounded, an int that does not fit is refused, and rows get field names.
    """
    if isinstance(type_info, PickledByteArrayTypeInfo):
        return None
    convert = type_info.freeze if type_info.is_identity else type_info.converted
    return lambda value: None if value is None else convert(value)


def misfit(whose: str, error: StateValueError) -> StateValueError:
    """Make the error for a value that does not fit its type.

    Args:
        whose: The rule that the value breaks, which names its owner.
        error: The error of the type.
    """
    return StateValueError(f"{whose}: {error}")


def guard(call: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a function whose errors name the user's function and the element.

    Args:
        call: The user's function, whose first argument is the element.
        name: The name of the user's function.
    """

    def guard(value: Any, *more: Any) -> Any:
        try:
            return call(value, *more)
        except PyflinklikeError:
            raise
        except Exception as error:
            raise _failure(name, value, error) from error

    return guard


def guard_call(call: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """Do the same for a call whose only argument is the element."""

    # Written out, since `guard` makes a tuple of further arguments for each element.
    def guard(value: Any) -> Any:
        try:
            return call(value)
        except PyflinklikeError:
            raise
        except Exception as error:
            raise _failure(name, value, error) from error

    return guard


def _failure(name: str, value: Any, error: Exception) -> UserFunctionError:
    where = f"{where_raised(error)}{hint(error, has_timestamp=True)}"
    msg = f"{name} failed for element {short_repr(value)}: {shown_error(error)}{where}"
    return UserFunctionError(msg)


def to_all(sends: Sequence[Send]) -> Send:
    """Return a function that sends to all; each gets its own copy, as if from a network.

    Args:
        sends: The functions to call; if there are none, elements are dropped.
    """
    if len(sends) == 1:
        return sends[0]

    def send(value: Any, timestamp: int | None) -> None:
        for each in sends:
            each(copy_value(value), timestamp)

    return send


# Routes


_KEY_MISFIT = "the key that the key selector returns does not fit the key_type of key_by"
_KNOWN_KEYS = 100_000
"""The number of keys whose instance is remembered: new keys may come for ever, and must not fill the memory."""

Keyed = Callable[[Any, Any, "int | None"], None]


def route(node: Node, index: int, parallelism: int, channels: Sequence[Channel]) -> Send:
    """Return a function that sends to one of the instances of a consumer, or to all.

    Args:
        node: The node that sends.
        index: The number of the instance that sends, from 0.
        parallelism: The number of instances of the node that sends.
        channels: A channel to each instance of the consumer.
    """
    elements = [channel.element for channel in channels]
    if isinstance(node, Partition):
        return _partition(node, index, elements)
    return forward(index, parallelism, elements)


def forward(index: int, parallelism: int, elements: list[Send]) -> Send:
    """Return a function that sends to the instance of the same number, or to all instances in turn.

    Args:
        index: The number of the instance that sends, from 0.
        parallelism: The number of instances of the node that sends.
        elements: One function for each instance of the consumer.
    """
    if len(elements) == 1:
        return elements[0]
    if len(elements) == parallelism:
        return elements[index]
    return _in_turn(index, elements)


def _in_turn(index: int, elements: list[Send]) -> Send:
    # Each sender begins with another instance: else the first instance would get most elements.
    following = cycle([*elements[index % len(elements) :], *elements[: index % len(elements)]])

    def send(value: Any, timestamp: int | None) -> None:
        next(following)(value, timestamp)

    return send


def _partition(node: Partition, index: int, elements: list[Send]) -> Send:
    how = node.how
    if how is Partitioning.BROADCAST:
        return to_all(elements)
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
    key_of, count = guard(node.selector, "the key selector"), len(elements)
    partition = guard(node.partitioner, "the partitioner")

    def send(value: Any, timestamp: int | None) -> None:
        chosen = partition(key_of(value), count)
        if not isinstance(chosen, int) or not 0 <= chosen < count:
            msg = (
                f"a partitioner gives a number from 0 to {count - 1}, got {short_repr(chosen)} for "
                f"element {short_repr(value)}; take it modulo the number of partitions"
            )
            raise UserFunctionError(msg)
        elements[chosen](value, timestamp)

    return send


class KeyByStation(StreamOperator):
    """Gives elements keys, and sends all elements of a key to one instance.

    Args:
        out: Takes the watermarks; elements go to `consumers`.
        node: Has the key selector and the type of the keys.
        consumers: The channels to the instances of each consumer.
        key_groups: The number of key groups.
    """

    def __init__(
        self,
        out: Output,
        node: KeyBy,
        consumers: Sequence[Sequence[Channel]],
        key_groups: int,
    ) -> None:
        super().__init__(out)
        self._selector = node.selector
        self._key_of = guard_call(node.selector.get_key, "the key selector")
        self._freeze, self._key_groups = node.key_type.freeze_key, key_groups
        self._sends = [self._to(channels) for channels in consumers]

    def _element(self, position: int) -> Send:  # noqa: ARG002
        key_of, freeze = self._key_of, self._freeze
        send = self._sends[0] if len(self._sends) == 1 else _keyed_to_all(self._sends)

        def element(value: Any, timestamp: int | None) -> None:
            try:
                key = freeze(key_of(value))
            except StateValueError as error:
                raise misfit(_KEY_MISFIT, error) from error
            send(key, value, timestamp)

        return element

    def _to(self, channels: Sequence[Channel]) -> Keyed:
        """Return a function that sends an element to the instance that has its key."""
        sends = [channel.keyed or _without_key(channel.element) for channel in channels]
        if len(sends) == 1:
            return sends[0]
        groups, count = self._key_groups, len(sends)
        # The hash of a key takes 1 to 3 microseconds, more than all else here, and most keys recur.
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
        """Open the key selector."""
        self._selector.open(None)

    def close(self) -> None:
        """Close the key selector."""
        self._selector.close()


def _keyed_to_all(sends: list[Keyed]) -> Keyed:
    def send(key: Any, value: Any, timestamp: int | None) -> None:
        for each in sends:
            each(key, copy_value(value), timestamp)

    return send


def _without_key(element: Send) -> Keyed:
    return lambda _, value, timestamp: element(value, timestamp)


# Sources and watermarks


_TimeOf = Callable[[Any, "int | None"], "int | None"]


def _assign_times(assigner: TimestampAssigner | None) -> _TimeOf | None:
    """Return a function that takes an element and its time, and returns its new time."""
    if assigner is None:
        return None
    name = f"{type(assigner).__qualname__}.extract_timestamp"
    extract = guard(assigner.extract_timestamp, name)

    def time_of(value: Any, timestamp: int | None) -> int | None:
        found = extract(value, MIN_WATERMARK if timestamp is None else timestamp)
        if not is_int64(found):
            msg = (
                f"{name} gives an int of ms, got {short_repr(found)} for element {short_repr(value)}; "
                "convert it, for example int(seconds * 1000)"
            )
            raise UserFunctionError(msg)
        return None if found == MIN_WATERMARK else found

    return time_of


class TimestampStation(StreamOperator):
    """Gives elements times, and makes watermarks from them; of the input only the last watermark passes.

    Args:
        out: Takes the elements and watermarks.
        strategy: The rule for times and watermarks.
    """

    def __init__(self, out: Output, strategy: WatermarkStrategy) -> None:
        super().__init__(out)
        self.strategy = strategy
        self._time_of = _assign_times(strategy.assigner)
        self._greatest: int | None = None
        self._last = MIN_WATERMARK

    def _element(self, position: int) -> Send:  # noqa: ARG002
        time_of, send = self._time_of, self._out.main

        def element(value: Any, timestamp: int | None) -> None:
            if time_of is not None:
                timestamp = time_of(value, timestamp)
            if timestamp is not None and (self._greatest is None or timestamp > self._greatest):
                self._greatest = timestamp
            send(value, timestamp)

        return element

    def find_watermark(self) -> int | None:
        """Return the watermark that follows from the elements so far, in ms; None for none."""
        return None if self._greatest is None else self.strategy.watermark_after(self._greatest)

    def emit_watermark(self) -> None:
        """Send the watermark that follows from the elements so far, if it is later than the last."""
        watermark = self.find_watermark()
        if watermark is not None and watermark > self._last:
            self._last = watermark
            self._out.watermark(watermark)

    def _on_watermark(self, watermark: int) -> None:
        # The others belong to times that the elements had before.
        if watermark == MAX_WATERMARK:
            self._out.watermark(watermark)


class SourceStation(TimestampStation):
    """Reads its share of a source.

    Args:
        out: Takes the elements and watermarks.
        elements: The elements with their event times in ms, or None.
        strategy: The rule for times and watermarks.
    """

    def __init__(
        self, out: Output, elements: Iterator[tuple[Any, int | None]], strategy: WatermarkStrategy
    ) -> None:
        super().__init__(out, strategy)
        self._elements, self._take = elements, self._element(0)

    def step(self) -> bool:
        """Read one element, and return whether there was one."""
        for value, timestamp in self._elements:
            self._take(value, timestamp)
            return True
        self.end()
        return False

    def take_all(self, elements: Iterable[tuple[Any, int | None]]) -> None:
        """Take in many elements, in order.

        Args:
            elements: The elements with the times that the source gives them, in ms, or None.
        """
        take = self._take
        for value, timestamp in elements:
            take(value, timestamp)

    def end(self) -> None:
        """End the input, by the watermark above all others."""
        self._out.watermark(MAX_WATERMARK)


# Sinks


def nowhere() -> Output:
    """Return the output of an instance that has no readers."""
    return Output(lambda _, __: None, {}, lambda _: None)


class SinkStation(StreamOperator):
    """Gives elements to a sink.

    Args:
        write: Takes an element with its time.
    """

    def __init__(self, write: Send) -> None:
        super().__init__(nowhere())
        self._write = write

    def _element(self, position: int) -> Send:  # noqa: ARG002
        return self._write
