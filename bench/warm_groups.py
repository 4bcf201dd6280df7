# SPDX-License-Identifier: Apache-2.0
"""The share of warm key groups in a worker if they do not all fit, without Spark.

Each micro-batch has two partitions.  Each asks one Python worker for its key groups in order.
Partitions get their workers in one of these ways:

* `own`: each partition always has the same worker
* `any`: either of two workers
* `runs`: either of two workers, and they change in every tenth micro-batch
* `queue`: as in PySpark, four workers pack, keep state and unpack; the longest idle one is next

It compares our cache (`WarmGroups`) with a least recently used cache and the best fixed choice,
which knows how often each group will be asked for.

    python bench/warm_groups.py             # half a minute
"""

from __future__ import annotations

import argparse
import random
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Protocol

import attrs

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike.backends.heap.heap_backend import WarmGroups, weight_of

_GROUPS, _PARTITIONS = 128, 2
_BYTES = 1_000_000
_SETTLED = 40
"""The first micro-batches, which do not count."""


@attrs.frozen
class _Weighed:
    """Columns of so many bytes, which tell their weight."""

    nbytes: int


class Cache(Protocol):
    """A cache of key groups between micro-batches."""

    def take(self, owner: Hashable) -> Any:
        """Remove and return a group, if it is here."""

    def keep(self, owner: Hashable, group: KeyGroupState, limit: int) -> None:
        """Put a group back."""


class LeastRecentlyUsed:
    """The cache that one would write first."""

    def __init__(self) -> None:
        self._groups: OrderedDict[Hashable, KeyGroupState] = OrderedDict()
        self._bytes = 0

    def take(self, owner: Hashable) -> KeyGroupState | None:
        """Remove and return a group, if it is here."""
        group = self._groups.pop(owner, None)
        self._bytes -= 0 if group is None else weight_of(group)
        return group

    def keep(self, owner: Hashable, group: KeyGroupState, limit: int) -> None:
        """Put a group back, and drop what was not asked for longest."""
        self._groups[owner] = group
        self._bytes += weight_of(group)
        while self._bytes > limit:
            _, dropped = self._groups.popitem(last=False)
            self._bytes -= weight_of(dropped)


def shares_of(touched: str) -> list[float]:
    """How often a micro-batch asks for each group."""
    if touched == "all":
        return [1.0] * _GROUPS
    if touched == "a third":
        return [1 / 3] * _GROUPS
    shares = [min(1.0, 12 / (1 + rank)) for rank in range(_GROUPS)]
    random.Random(5).shuffle(shares)
    return shares


def workers_of(hands: str, batches: int, chance: random.Random) -> Iterator[list[int]]:
    """The workers of the partitions, micro-batch by micro-batch."""
    waiting, chosen = list(range(2 * _PARTITIONS)), list(range(_PARTITIONS))
    for _ in range(batches):
        if hands == "own":
            yield list(range(_PARTITIONS))
        elif hands == "runs":
            if chance.random() < 0.1:
                chosen = chance.sample(range(_PARTITIONS), _PARTITIONS)
            yield chosen
        elif hands == "any":
            yield chance.sample(range(_PARTITIONS), _PARTITIONS)
        else:
            packing, waiting = waiting[:_PARTITIONS], waiting[_PARTITIONS:]
            waiting += chance.sample(packing, _PARTITIONS)
            chosen, unpacking = waiting[:_PARTITIONS], waiting[_PARTITIONS:]
            yield chance.sample(chosen, _PARTITIONS)
            ended = chosen + unpacking
            waiting = chance.sample(ended, len(ended)) if chance.random() < 0.5 else ended


def cold_share(
    make: Callable[[], Cache], touched: str, hands: str, ratio: float, seed: int
) -> float:
    """Return the share of loads that find nothing.

    Args:
        make: Makes the cache of a worker.
        touched: Which groups a micro-batch asks for.
        hands: How workers get partitions.
        ratio: The weight of all groups to the bound of a worker.
        seed: The random seed.
    """
    chance = random.Random(f"{touched} {hands} {seed}")
    groups = [KeyGroupState(each, tables={"t": _Weighed(_BYTES)}) for each in range(_GROUPS)]
    limit = int(sum(map(weight_of, groups)) / ratio) + 1
    caches = [make() for _ in range(2 * _PARTITIONS)]
    shares = shares_of(touched)
    loads = cold = 0
    for batch, workers in enumerate(workers_of(hands, 4 * _SETTLED, chance)):
        for partition, worker in enumerate(workers):
            for index in range(partition, _GROUPS, _PARTITIONS):
                if chance.random() < shares[index]:
                    is_cold = caches[worker].take(index) is None
                    caches[worker].keep(index, groups[index], limit)
                    loads += batch >= _SETTLED
                    cold += is_cold and batch >= _SETTLED
    return cold / loads


def best_share(touched: str, hands: str, ratio: float) -> float:
    """The cold share of the groups that are asked for most often, kept for ever."""
    shares = shares_of(touched)
    parts = [shares[at::_PARTITIONS] for at in range(_PARTITIONS)] if hands == "own" else [shares]
    room = int(_GROUPS / ratio)
    warm = sum(sum(sorted(part, reverse=True)[:room]) for part in parts)
    return 1 - warm / sum(shares)


def rows(seeds: Sequence[int]) -> Iterator[str]:
    """The lines of the table."""
    yield "| workers | groups asked for | weight to bound | least recently used | ours | best fixed |"
    yield "|---|---|---|---|---|---|"
    for hands in ("own", "any", "runs", "queue"):
        for touched in ("all", "a third", "skewed"):
            for ratio in (1.2, 2.0, 4.0):
                case = touched, hands, ratio
                lru, ours = (
                    sum(cold_share(make, *case, seed) for seed in seeds) / len(seeds)
                    for make in (LeastRecentlyUsed, WarmGroups)
                )
                best = best_share(*case)
                yield f"| {hands} | {touched} | {ratio} | {lru:.0%} | {ours:.0%} | {best:.0%} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    for row in rows(range(parser.parse_args().seeds)):
        print(row, flush=True)


if __name__ == "__main__":
    main()
