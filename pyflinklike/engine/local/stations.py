# SPDX-License-Identifier: Apache-2.0
"""Which instance gets an element."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import Any

from pyflinklike.errors import StateValueError, UserFunctionError
from pyflinklike.graph.nodes import KeyBy, Node, Partition, Partitioning
from pyflinklike.local.stations import (
    Channel,
    Exit,
    Send,
    Station,
    guarded,
    guarded_call,
    misfit,
)
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.shown import shown
from pyflinklike.types.copies import copied
from pyflinklike.types.frozen_keys import key_group_of

__all__ = ["KeyByStation", "forwarded", "routed"]

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
