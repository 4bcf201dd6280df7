# SPDX-License-Identifier: Apache-2.0
"""Where a `KafkaSource` starts and stops: PyFlink's `KafkaOffsetsInitializer`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import attrs

from pyflinklike.checks import is_int64
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.kafka.cluster import Cluster
from pyflinklike.kafka.offsets import Partition
from pyflinklike.shown import instance_of, shown

__all__ = [
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaTopicPartition",
    "checked_initializer",
    "offsets_within",
]


@attrs.frozen
class KafkaTopicPartition:
    """A partition of a topic, as PyFlink's.

    Args:
        topic: The name of the topic.
        partition: The number of the partition, from 0.

    Raises:
        DeclarationTypeError: The name is no text, or the number is no int from 0 on.
    """

    topic: str
    partition: int = attrs.field()

    @partition.validator
    def _check(self, _: attrs.Attribute[int], partition: Any) -> None:
        is_number = is_int64(partition) and partition >= 0
        if not isinstance(self.topic, str) or not is_number:
            msg = (
                f"a partition is the name of a topic and a number from 0 on, got {shown(self.topic)} "
                f"and {shown(partition)}; give for example ('clicks', 0)"
            )
            raise DeclarationTypeError(msg)


class KafkaOffsetResetStrategy(Enum):
    """Where a partition starts that has no offset otherwise, as PyFlink's."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


class _Kind(Enum):
    """The ways to find offsets."""

    EARLIEST = "earliest"
    LATEST = "latest"
    COMMITTED = "committed"
    TIMESTAMP = "timestamp"
    OFFSETS = "offsets"


@attrs.frozen
class KafkaOffsetsInitializer:
    """Offsets of all partitions, found when a job begins; a job that goes on has its own.

    Its static methods make it, as PyFlink's.
    """

    _kind: _Kind
    _otherwise: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE
    _time: int = 0
    _offsets: Mapping[KafkaTopicPartition, int] = attrs.field(factory=dict)

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Start at the first offset that each partition still has."""
        return KafkaOffsetsInitializer(_Kind.EARLIEST)

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Start at the end of each partition."""
        return KafkaOffsetsInitializer(_Kind.LATEST)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start at the offsets that the consumer group has committed, as a job of Flink does.

        Args:
            offset_reset_strategy: Where partitions without a committed offset start; `NONE` is an
                error.

        Raises:
            DeclarationTypeError: It is no `KafkaOffsetResetStrategy`.
        """
        strategy = _strategy(offset_reset_strategy)
        return KafkaOffsetsInitializer(_Kind.COMMITTED, strategy)

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Start at each partition's first record at this time or later; without one at its end.

        Args:
            timestamp: The time in ms since the epoch.

        Raises:
            DeclarationValueError: It is no int from 0 on.
        """
        if not is_int64(timestamp) or timestamp < 0:
            msg = f"a timestamp is an int of ms from 0 on, got {shown(timestamp)}; give for example 1700000000000"
            raise DeclarationValueError(msg)
        return KafkaOffsetsInitializer(_Kind.TIMESTAMP, time=timestamp)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Start at an offset for each partition.

        Args:
            offsets: The offsets by partition.
            offset_reset_strategy: Where partitions start that are not named, and for which the
                consumer group has committed no offset.

        Raises:
            DeclarationTypeError: `offsets` is no mapping of `KafkaTopicPartition`s to offsets from
                0 on.
        """
        for partition, offset in _items(offsets):
            if not isinstance(partition, KafkaTopicPartition) or not is_int64(offset) or offset < 0:
                msg = (
                    f"offsets are ints from 0 on by KafkaTopicPartition, got {shown(offset)} for "
                    f"{shown(partition)}; give for example {{KafkaTopicPartition('clicks', 0): 23}}"
                )
                raise DeclarationTypeError(msg)
        strategy = _strategy(offset_reset_strategy)
        return KafkaOffsetsInitializer(_Kind.OFFSETS, strategy, offsets=dict(offsets))

    def found(
        self, partitions: list[Partition], cluster: Cluster, group: str | None
    ) -> dict[Partition, int]:
        """Return the offsets of partitions, now.

        Args:
            partitions: The partitions to look at.
            cluster: The brokers.
            group: The id of the consumer group, or None.

        Raises:
            DeclarationValueError: There is no offset for a partition.
            BrokerError: A broker does not answer.
        """
        if self._kind is _Kind.EARLIEST:
            return cluster.earliest(partitions)
        if self._kind is _Kind.LATEST:
            return cluster.latest(partitions)
        if self._kind is _Kind.TIMESTAMP:
            return _until_the_end(cluster.at_time(partitions, self._time), partitions, cluster)
        named = {(each.topic, each.partition): offset for each, offset in self._offsets.items()}
        given = {each: named[each] for each in partitions if each in named}
        return self._completed(given, partitions, cluster, group)

    def _completed(
        self,
        given: Mapping[Partition, int],
        partitions: list[Partition],
        cluster: Cluster,
        group: str | None,
    ) -> dict[Partition, int]:
        """Add committed offsets, or those of the strategy, for all other partitions."""
        missing = [each for each in partitions if each not in given]
        committed = cluster.committed(missing, group) if group is not None and missing else {}
        left = [each for each in missing if each not in committed]
        if self._otherwise is KafkaOffsetResetStrategy.NONE:
            _refuse_none(left, group)
            return {**given, **committed}
        is_first = self._otherwise is KafkaOffsetResetStrategy.EARLIEST
        rest = cluster.earliest(left) if is_first else cluster.latest(left)
        return {**given, **committed, **rest}


def offsets_within(
    found: Mapping[Partition, int], cluster: Cluster, what: str
) -> dict[Partition, int]:
    """Return offsets, all of which the topics have.

    Args:
        found: The offsets by partition.
        cluster: The brokers.
        what: The name of the offsets in messages.

    Raises:
        DeclarationValueError: An offset lies before the first record that is left, or after the
            end.
        BrokerError: A broker does not answer.
    """
    first, last = cluster.earliest(found), cluster.latest(found)
    for each, offset in found.items():
        if not first[each] <= offset <= last[each]:
            topic, number = each
            msg = (
                f"{what} lie within the topic, got {offset} for partition {number} of {topic}, which "
                f"has {first[each]} to {last[each]}; records that are gone are left out by name only: "
                "give earliest() or an offset that is there"
            )
            raise DeclarationValueError(msg)
    return dict(found)


def _until_the_end(
    found: Mapping[Partition, int | None], partitions: Iterable[Partition], cluster: Cluster
) -> dict[Partition, int]:
    """Replace None by the end of the partition, where no record is so late."""
    ends = cluster.latest([each for each in partitions if found[each] is None])
    return {each: ends[each] if offset is None else offset for each, offset in found.items()}


def _refuse_none(left: list[Partition], group: str | None) -> None:
    if left:
        names = ", ".join(f"{topic}/{number}" for topic, number in left)
        whose = "without a group.id" if group is None else f"of the consumer group {group!r}"
        msg = (
            f"committed_offsets needs an offset of every partition, got none {whose} for {names}; set "
            "the group's id, or give a KafkaOffsetResetStrategy for the others"
        )
        raise DeclarationValueError(msg)


def _strategy(given: Any) -> KafkaOffsetResetStrategy:
    if not isinstance(given, KafkaOffsetResetStrategy):
        msg = f"it takes a KafkaOffsetResetStrategy, got {shown(given)}; give for example KafkaOffsetResetStrategy.EARLIEST"
        raise DeclarationTypeError(msg)
    return given


def _items(offsets: Any) -> Iterable[tuple[Any, Any]]:
    if not isinstance(offsets, Mapping):
        msg = f"offsets are a mapping, got {shown(offsets)}; give for example {{KafkaTopicPartition('clicks', 0): 23}}"
        raise DeclarationTypeError(msg)
    return offsets.items()


def checked_initializer(given: Any) -> KafkaOffsetsInitializer:
    """Return the argument, which must say where to start or stop.

    Raises:
        DeclarationTypeError: It is no `KafkaOffsetsInitializer`.
    """
    if not isinstance(given, KafkaOffsetsInitializer):
        remedy = instance_of(
            KafkaOffsetsInitializer, given, "give for example KafkaOffsetsInitializer.earliest()"
        )
        msg = f"it takes a KafkaOffsetsInitializer, got {shown(given)}; {remedy}"
        raise DeclarationTypeError(msg)
    return given
