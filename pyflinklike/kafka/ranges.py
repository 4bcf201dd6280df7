# SPDX-License-Identifier: Apache-2.0
"""Ranges of offsets: the share of one task, and the share of one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from pyflinklike.kafka.offsets import Partition

__all__ = ["OffsetRange", "limited", "split"]


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


def limited(
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


def split(ranges: Sequence[OffsetRange], least: int) -> list[OffsetRange]:
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
