# SPDX-License-Identifier: Apache-2.0
"""Offsets up to which a stream has read, as Spark's checkpoint stores them, and ranges of offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import attrs
from pyspark.sql.datasource import InputPartition

from pyflinklike._checks import is_int64
from pyflinklike.errors import CorruptStateError

__all__ = ["OffsetRange", "Offsets", "Partition", "limit_ends", "split_ranges"]


Partition = tuple[str, int]
"""A topic and the number of one of its partitions."""


@attrs.frozen
class Offsets:
    """The next offset to read of each partition, and the ids of the topics.

    Args:
        at: The offsets by partition.
        topic_ids: The ids by topic; empty where the brokers have no ids (Kafka before 2.8).
    """

    at: Mapping[Partition, int]
    topic_ids: Mapping[str, str] = {}

    def to_json(self) -> dict[str, Any]:
        """Return what Spark stores: `{"offsets": {topic: {partition: 1}}, "topic_ids": {...}}`.

        Equal offsets have equal JSON, including the order of its keys: Spark compares the text.
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
            at = {
                (topic, int(partition)): offset
                for topic, partitions in json["offsets"].items()
                for partition, offset in partitions.items()
            }
            ids = dict(json["topic_ids"])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _foreign(json) from None
        if not all(is_int64(offset) and offset >= 0 for offset in at.values()):
            raise _foreign(json)
        return cls(at, ids)


def _foreign(json: Any) -> CorruptStateError:
    msg = (
        f"offsets of pyflinklike.kafka are expected in the checkpoint, got {json!r:.500}; "
        "another source wrote it, or it is damaged: start with a new checkpoint"
    )
    return CorruptStateError(msg)


class OffsetRange(InputPartition):
    """The offsets of a partition of a topic that one task reads.

    Args:
        topic: The name of the topic.
        partition: The number of the partition.
        start: The first offset.
        end: The offset after the last one.
    """

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition, self.start, self.end = topic, partition, start, end

    def __len__(self) -> int:
        """Return how many offsets it has; there may be fewer records."""
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

    Each partition gets its share of them, by how much it has left, as in Spark's own connector.  At
    least one offset is taken where there is any, so that a stream always goes on.

    Args:
        start: The offsets where the micro-batch starts, for every partition of `end`.
        end: The offsets where the partitions end now.
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
    """Cut large ranges into parts of about equal size, so that there are at least `least`.

    Args:
        ranges: Ranges that are not empty.
        least: The value of `minPartitions`; the result is shorter only where there are fewer
            offsets.
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
    """Cut a range into parts whose lengths differ by one offset at most."""
    edges = [whole.start + len(whole) * number // count for number in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, start, end) for start, end in pairwise(edges)]
