# SPDX-License-Identifier: Apache-2.0
"""Offsets: what a stream has read, what brokers say, and the ranges that tasks read.

`Offsets` are in Spark's checkpoint.  A `Cluster` asks the brokers for topics, and for the offsets that
the options of a reader mean.  An `OffsetRange` is the part of a partition that one task reads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import attrs
from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql.datasource import InputPartition

from pyflinklike._checks import is_int64
from pyflinklike.errors import BrokerError, CorruptStateError, DeclarationValueError
from pyflinklike.kafka.options import (
    EARLIEST,
    LATEST,
    Bounds,
    Partition,
    ReaderOptions,
    by_partition,
    hide_secrets,
    make_client,
    without_consumer_settings,
)


@attrs.frozen
class Offsets:
    """The next offset that each partition has to read, and the ids of the topics.

    Args:
        at: The offsets by partition, each from 0 on.
        topic_ids: The ids by topic; empty if the brokers have no ids (Kafka before 2.8).
    """

    at: Mapping[Partition, int]
    topic_ids: Mapping[str, str] = {}

    def to_json(self) -> dict[str, Any]:
        """Return the form for Spark: `{"offsets": {topic: {partition: 1}}, "topic_ids": {...}}`.

        Equal offsets have equal JSON, including the order of its keys, because Spark compares the text.
        """
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.at.items()):
            topics.setdefault(topic, {})[str(partition)] = offset
        return {"offsets": topics, "topic_ids": dict(sorted(self.topic_ids.items()))}

    @classmethod
    def from_json(cls, json: Any) -> Offsets:
        """Return the offsets that `to_json` wrote.

        Raises:
            CorruptStateError: `json` is something else.
        """
        try:
            at, ids = by_partition(json["offsets"]), dict(json["topic_ids"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _foreign(json) from None
        # Negative offsets stand for ends, and a checkpoint never has these.
        if not all(is_int64(offset) and offset >= 0 for offset in at.values()):
            raise _foreign(json)
        return cls(at, ids)


def _foreign(json: Any) -> CorruptStateError:
    msg = (
        f"the checkpoint must hold offsets of pyflinklike.kafka, got {json!r:.500}; "
        "another source wrote them, or they are damaged: start with a new checkpoint"
    )
    return CorruptStateError(msg)


class OffsetRange(InputPartition):
    """The offsets of a partition of a topic that one task reads.

    Args:
        topic: The name of the topic.
        partition: The number of the partition, from 0.
        start: The first offset of the range.
        end: The offset after the last one.
    """

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition, self.start, self.end = topic, partition, start, end

    def __len__(self) -> int:
        """Return the number of offsets; there may be fewer records."""
        return self.end - self.start

    def __eq__(self, other: object) -> bool:
        """Return whether the other is the same range."""
        return isinstance(other, OffsetRange) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Return a hash, equal for equal ranges."""
        return hash((self.topic, self.partition, self.start, self.end))


def limit_ends(
    start: Mapping[Partition, int], end: Mapping[Partition, int], most: int
) -> dict[Partition, int]:
    """Return the ends of a micro-batch of at most `most` offsets.

    Each partition gets a share in proportion to what it has left, as in Spark's own connector.  If any
    partition has an offset left, at least one is taken, so that a stream always goes on.

    Args:
        start: The offsets at which the micro-batch starts, for every partition of `end`.
        end: The offsets at which the partitions end now.
        most: The value of `maxOffsetsPerTrigger`.
    """
    left = {each: last - start[each] for each, last in end.items()}
    total = sum(left.values())
    if total <= most:
        return dict(end)
    taken = {each: size * most // total for each, size in left.items()}
    # The remainder of the rounding goes to the largest partitions.
    for each in sorted(left, key=lambda each: (-left[each], each)):
        if sum(taken.values()) >= most:
            break
        taken[each] += taken[each] < left[each]
    return {each: start[each] + taken[each] for each in end}


def split_ranges(ranges: Sequence[OffsetRange], least: int) -> list[OffsetRange]:
    """Cut large ranges into parts of about equal size, until there are at least `least` ranges.

    Args:
        ranges: Ranges, none of them empty.
        least: The value of `minPartitions`; the result is shorter only if there are fewer offsets.
    """
    total = sum(map(len, ranges))
    if len(ranges) >= least or total == 0:
        return list(ranges)
    parts = {each: max(1, min(len(each), round(len(each) / total * least))) for each in ranges}
    for each in sorted(ranges, key=len, reverse=True):
        missing = least - sum(parts.values())
        parts[each] += max(0, min(missing, len(each) - parts[each]))
    return [part for each in ranges for part in _parts(each, parts[each])]


def _parts(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Cut a range into parts whose lengths differ by at most one offset."""
    edges = [whole.start + len(whole) * number // count for number in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, start, end) for start, end in pairwise(edges)]


# Requests of a reader's driver to the brokers: the topics, and the offsets that its options mean


@attrs.frozen
class Topics:
    """The topics that a reader reads, as they are now.

    Args:
        partitions: The partitions that the reader has subscribed to, sorted.
        ids: The id of each topic; empty if the brokers have no ids.
    """

    partitions: list[Partition]
    ids: Mapping[str, str]


class Cluster:
    """The brokers, from the view of a reader's driver.

    Args:
        options: The options of the reader, with the brokers' addresses.

    Raises:
        DeclarationValueError: librdkafka refuses a setting.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._admin = make_client(AdminClient, without_consumer_settings(options.settings))
        self._seconds = options.api_timeout_ms / 1_000
        # A consumer's default, which an admin client does not have.
        level = options.settings.get("isolation.level", "read_committed")
        self._level = (
            IsolationLevel.READ_COMMITTED
            if level == "read_committed"
            else IsolationLevel.READ_UNCOMMITTED
        )

    def topics(self) -> Topics:
        """Return the topics that the reader has subscribed to, as they are now.

        Raises:
            BrokerError: No broker answers, or a topic does not exist.
        """
        try:
            # Ask for all topics, because the request for a single one could create it.
            metadata = self._admin.list_topics(timeout=self._seconds)
        except KafkaException as error:
            raise self._away("their topics", error) from None
        there = {name: list(topic.partitions) for name, topic in metadata.topics.items()}
        chosen = self._options.subscription.chosen(there)
        names = sorted({topic for topic, _ in chosen})
        # Without a controller, as in librdkafka's mock cluster, the request would never get an answer.
        known = metadata.controller_id in metadata.brokers
        return Topics(chosen, self._ids(names) if names and known else {})

    def _ids(self, names: list[str]) -> dict[str, str]:
        described = self._admin.describe_topics(
            TopicCollection(names), request_timeout=self._seconds
        )
        found = {name: self._result(each, "the ids of topics") for name, each in described.items()}
        # Brokers before 2.8 answer with zeros.
        return {
            name: str(topic.topic_id)
            for name, topic in found.items()
            if topic.topic_id is not None and topic.topic_id.get_most_significant_bits()
        }

    def earliest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the first offset that each partition still has.

        Raises:
            BrokerError: A broker does not answer.
        """
        return self._offsets(partitions, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the offset after the last readable record; for `read_committed`, the last stable one.

        Raises:
            BrokerError: A broker does not answer.
        """
        return self._offsets(partitions, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def at_time(self, partitions: Iterable[Partition], milliseconds: int) -> dict[Partition, int]:
        """Return the offset of the first record at this time or later; other partitions are left out.

        Args:
            partitions: The partitions to look at.
            milliseconds: The time, in ms since the epoch.

        Raises:
            BrokerError: A broker does not answer.
        """
        where = OffsetSpec.for_timestamp(milliseconds)
        found = self._offsets(partitions, where)
        return {each: offset for each, offset in found.items() if offset >= 0}

    def read_committed(self, partitions: Iterable[Partition], group: str) -> dict[Partition, int]:
        """Return the offsets that a consumer group has committed; other partitions are left out.

        Args:
            partitions: The partitions to look at.
            group: The id of the consumer group.

        Raises:
            BrokerError: A broker does not answer, or this user may not describe the group.
        """
        asked = [TopicPartition(*each) for each in partitions]
        request = ConsumerGroupTopicPartitions(group, asked)
        (future,) = self._admin.list_consumer_group_offsets(
            [request], request_timeout=self._seconds
        ).values()
        answer = self._result(future, f"the offsets of the consumer group {group!r}")
        return {
            (each.topic, each.partition): each.offset
            for each in answer.topic_partitions
            if each.offset >= 0
        }

    def _offsets(self, partitions: Iterable[Partition], where: Any) -> dict[Partition, int]:
        asked = {TopicPartition(*each): where for each in partitions}
        if not asked:
            return {}
        futures = self._admin.list_offsets(
            asked, isolation_level=self._level, request_timeout=self._seconds
        )
        return {
            (each.topic, each.partition): self._result(
                future, f"the offsets of {each.topic}/{each.partition}"
            ).offset
            for each, future in futures.items()
        }

    def _result(self, future: Future[Any], what: str) -> Any:
        try:
            return future.result(self._seconds + 5)  # librdkafka's own time-out comes first
        except (KafkaException, TimeoutError) as error:
            raise self._away(what, error) from None

    def _away(self, what: str, error: Exception) -> BrokerError:
        settings = self._options.settings
        said = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        return BrokerError(
            f"brokers must answer within {self._options.api_timeout_ms} ms "
            f"(kafka.default.api.timeout.ms), got no answer about {what} from "
            f"{settings['bootstrap.servers']}: {hide_secrets(said, settings)}; make sure that they run, "
            "that this machine reaches them, and that kafka.security.protocol is the same as theirs"
        )


def resolve_offsets(
    bounds: Bounds, partitions: list[Partition], cluster: Cluster, option: str
) -> dict[Partition, int]:
    """Return the offsets that an option means at this moment.

    Args:
        bounds: The value of the option: a word, or an offset for each partition.
        partitions: The partitions that the reader has subscribed to.
        cluster: The brokers that know these offsets.
        option: The name of the option, for messages.

    Raises:
        DeclarationValueError: The option names other partitions, or an offset after the end.
        BrokerError: A broker does not answer.
    """
    if bounds == "earliest":
        return cluster.earliest(partitions)
    latest = cluster.latest(partitions)
    if isinstance(bounds, str):
        return latest
    if set(bounds) != set(partitions):
        names = ", ".join(f"{topic}/{number}" for topic, number in set(bounds) ^ set(partitions))
        msg = (
            f"{option} must have an offset for each partition of the subscription and for no other, "
            f"got a difference in {names}"
        )
        raise DeclarationValueError(msg)
    first = cluster.earliest([each for each, offset in bounds.items() if offset == EARLIEST])
    found = {**bounds, **first}
    found.update({each: latest[each] for each, offset in bounds.items() if offset == LATEST})
    for (topic, number), offset in found.items():
        end = latest[topic, number]
        if offset > end:
            msg = f"{option} must lie within the topic, got {offset} for {topic}/{number}, which ends at {end}"
            raise DeclarationValueError(msg)
    return found
