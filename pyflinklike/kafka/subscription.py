# SPDX-License-Identifier: Apache-2.0
"""The subscription of a reader: partitions of topics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs

from pyflinklike.errors import BrokerError, DeclarationValueError
from pyflinklike.kafka.offsets import Partition
from pyflinklike.shown import shown

__all__ = ["SUBSCRIPTIONS", "Subscription", "subscription_of"]

SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")


@attrs.frozen
class Subscription:
    """One of the three ways to say what is read; the fields of the other two are empty.

    Args:
        topics: The names of topics; of `subscribe`.
        pattern: A regular expression that the whole name of a topic matches; of `subscribePattern`.
        partitions: Single partitions; of `assign`.
    """

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[Partition, ...] = ()

    def chosen(self, there: Mapping[str, Iterable[int]]) -> list[Partition]:
        """Return the partitions to read, sorted.

        Args:
            there: The partitions of every topic that exists.

        Raises:
            BrokerError: A topic or partition that is named does not exist.
        """
        every = {(topic, number) for topic, numbers in there.items() for number in numbers}
        if self.pattern is not None:
            fits = re.compile(self.pattern).fullmatch
            return sorted(each for each in every if fits(each[0]))
        if self.partitions:
            missing = [f"{topic}/{number}" for topic, number in {*self.partitions} - every]
            chosen = set(self.partitions)
        else:
            missing = sorted(set(self.topics) - set(there))
            chosen = {each for each in every if each[0] in self.topics}
        if missing:
            msg = (
                f"what is subscribed to must be there, got no {', '.join(sorted(missing))} from the brokers; "
                "create the topic, or see that this user may describe it"
            )
            raise BrokerError(msg)
        return sorted(chosen)


def subscription_of(given: Mapping[str, str]) -> Subscription:
    """Read the subscription from the options.

    Raises:
        DeclarationValueError: Not exactly one of the three options is given, or it cannot be read.
    """
    names = [name for name in SUBSCRIPTIONS if name in given]
    if len(names) != 1:
        msg = f"exactly one of the options subscribe, subscribePattern and assign is needed, got {names or 'none'}"
        raise DeclarationValueError(msg)
    (name,) = names
    value = given[name].strip()
    if name == "assign":
        return Subscription(partitions=_assigned(value))
    if name == "subscribePattern":
        return Subscription(pattern=_pattern(value))
    topics = tuple(topic.strip() for topic in value.split(",") if topic.strip())
    if not topics:
        msg = f"the option subscribe must name topics, separated by commas, got {shown(value)}"
        raise DeclarationValueError(msg)
    return Subscription(topics=topics)


def _pattern(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        msg = f"the option subscribePattern must be a regular expression of Python, got {shown(value)}: {error}"
        raise DeclarationValueError(msg) from error
    return value


def _assigned(value: str) -> tuple[Partition, ...]:
    try:
        found = tuple(
            (topic, int(number))
            for topic, numbers in json.loads(value).items()
            for number in numbers
        )
    except (ValueError, AttributeError, TypeError) as error:
        found = ()
        cause: Exception | None = error
    else:
        cause = None
    if not found:
        msg = f'the option assign must be JSON such as {{"topic": [0, 1]}}, got {shown(value)}'
        raise DeclarationValueError(msg) from cause
    return found
