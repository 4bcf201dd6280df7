# SPDX-License-Identifier: Apache-2.0
"""Which key groups of the next keyed operator get records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

from pyflinklike.spark.jobs.parts import Record
from pyflinklike.types.frozen_keys import key_group_of

__all__ = ["BROADCAST", "Spread", "by_key", "in_turn"]

BROADCAST = 1
"""The position of the broadcast input of an operator that has one."""

Part = tuple[Iterable[int], list[Record]]
"""Key groups, and the records that each of them gets."""

Spread = Callable[[list[Record]], Iterator[Part]]


def by_key(count: int) -> Spread:
    """Records go to the key groups of their keys, which are frozen; those of keys seen before are known.

    Args:
        count: How many key groups there are.
    """
    known: dict[Hashable, int] = {}

    def spread(records: list[Record]) -> Iterator[Part]:
        of_groups: dict[int, list[Record]] = {}
        for record in records:
            group = known.get(record[0])
            if group is None:
                group = known[record[0]] = key_group_of(record[0], count)
            of_groups.setdefault(group, []).append(record)
        return (((group,), mine) for group, mine in of_groups.items())

    return spread


def in_turn(count: int, start: int) -> Spread:
    """Records have no keys, and go to the key groups one after the other.

    Args:
        count: How many key groups there are.
        start: Which one begins.
    """
    dealt = start

    def spread(records: list[Record]) -> Iterator[Part]:
        nonlocal dealt
        first, dealt = dealt, dealt + len(records)
        mine = (((first + at) % count, records[at::count]) for at in range(count))
        return (((group,), some) for group, some in mine if some)

    return spread
