# SPDX-License-Identifier: Apache-2.0
"""The grouping keys of key groups, chosen so that Spark's partitions get equal shares.

Spark puts a grouping key into the partition `pmod(hash(key), partitions)`.  The keys 0, 1, 2 ...
spread unevenly: of 128 keys the fuller one of 2 partitions gets 74, and the fullest of 8 gets 23
instead of 16.  The slowest task decides how long a batch takes.  So the grouping key of key
group `g` of `n` is a number whose hash is `g` modulo `n`.  If the number of partitions divides
`n`, each partition gets the same number of key groups.

The numbers depend only on `max_parallelism` and on the operator's place in its state operator.
The checkpoint fixes both.
"""

from __future__ import annotations

from functools import lru_cache

from pyflinklike.spark.wire.places import first_of

__all__ = ["group_ids", "index_of"]

_MASK = 0xFFFFFFFF


@lru_cache(maxsize=128)
def group_ids(max_parallelism: int, place: int = 0) -> tuple[int, ...]:
    """Find the grouping key of each key group of the operator at a place."""
    found: dict[int, int] = {}
    candidate = first_of(place)
    while len(found) < max_parallelism:
        found.setdefault(index_of(candidate, max_parallelism), candidate)
        candidate += 1
    return tuple(found[index] for index in range(max_parallelism))


def index_of(group_id: int, max_parallelism: int) -> int:
    """Return the key group of a grouping key."""
    return _signed_hash(group_id) % max_parallelism


def _signed_hash(value: int) -> int:
    """Compute Spark's `hash` of an int: Murmur3, x86, 32 bits, seed 42."""
    mixed = value * 0xCC9E2D51 & _MASK
    mixed = _rotated(mixed, 15) * 0x1B873593 & _MASK
    state = (_rotated(42 ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    state ^= 4  # the length of an int
    state = (state ^ state >> 16) * 0x85EBCA6B & _MASK
    state = (state ^ state >> 13) * 0xC2B2AE35 & _MASK
    state ^= state >> 16
    return state - (1 << 32) if state >> 31 else state


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _MASK
