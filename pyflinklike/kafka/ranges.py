# SPDX-License-Identifier: Apache-2.0
"""Ranges of offsets: what one task reads, and how much one micro-batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from pyflinklike.kafka.offsets import Partition

__all__ = ["OffsetRange", "limited", "split"]


class OffsetRange(InputPartition):
    """The offsets of a partition of a topic that one task reads.

    Args:
        topic: Its name.
        partition: Its number.
        start: The first offset.
        end: The one after the last.
    """

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(None)
        self.topic, self.partition, self.start, self.end = topic, partition, start, end

    def __len__(self) -> int:
        """How many offsets it has; records may be fewer."""
        return self.end - self.start

    def __eq__(self, other: object) -> bool:
        """Whether it is the same range."""
        return isinstance(other, OffsetRange) and vars(self) == vars(other)

    def __hash__(self) -> int:
        """Equal for equal ranges."""
        return hash((self.topic, self.partition, self.start, self.end))


def limited(
    start: Mapping[Partition, int], end: Mapping[Partition, int], most: int
) -> dict[Partition, int]:
    """The ends of a micro-batch of at most so many offsets.

    Each partition gets its share of them, by how much it has left; as in Spark's own connector.
    At least one offset is taken where there is any, so that a stream always goes on.

    Args:
        start: Of the micro-batch, for every partition of `end`.
        end: What there is.
        most: `maxOffsetsPerTrigger`.
    """
    left = {each: last - start[each] for each, last in end.items()}
    total = sum(left.values())
    if total <= most:
        return dict(end)
    taken = {each: size * most // total for each, size in left.items()}
    # What rounding leaves over goes to the largest.
    for each in sorted(left, key=lambda each: (-left[each], each)):
        if sum(taken.values()) >= most:
            break
        taken[each] += taken[each] < left[each]
    return {each: start[each] + taken[each] for each in end}


def split(ranges: Sequence[OffsetRange], least: int) -> list[OffsetRange]:
    """At least so many ranges, the large ones cut into parts of about equal size.

    Args:
        ranges: None of them empty.
        least: `minPartitions`; fewer come out only where there are fewer offsets.
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
    """A range in parts, no two of which differ by more than one offset."""
    edges = [whole.start + len(whole) * number // count for number in range(count + 1)]
    return [OffsetRange(whole.topic, whole.partition, start, end) for start, end in pairwise(edges)]
