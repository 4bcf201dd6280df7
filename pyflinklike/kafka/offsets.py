# SPDX-License-Identifier: Apache-2.0
"""The offsets up to which a stream has read, as Spark's checkpoint has them, and ranges of offsets."""

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
            at = {
                (topic, int(partition)): offset
                for topic, partitions in json["offsets"].items()
                for partition, offset in partitions.items()
            }
            ids = dict(json["topic_ids"])
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
