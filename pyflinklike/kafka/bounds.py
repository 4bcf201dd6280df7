# SPDX-License-Identifier: Apache-2.0
"""`startingOffsets` and `endingOffsets` as offsets."""

from __future__ import annotations

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.cluster import Cluster
from pyflinklike.kafka.offsets import Partition
from pyflinklike.kafka.options import EARLIEST, LATEST, Bounds

__all__ = ["resolved"]


def resolved(
    bounds: Bounds, partitions: list[Partition], cluster: Cluster, option: str
) -> dict[Partition, int]:
    """Return the offsets that an option means, now.

    Args:
        bounds: The value of the option.
        partitions: The partitions that are subscribed to.
        cluster: The brokers.
        option: The name of the option.

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
            f"{option} must have an offset for every partition that is subscribed to and no other, "
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
