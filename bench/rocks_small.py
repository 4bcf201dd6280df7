# SPDX-License-Identifier: Apache-2.0
"""RocksDB beside the heap in small micro-batches over a large state, without Spark.

    python bench/rocks_small.py                      # 1 M keys, 10,000 records a micro-batch
    python bench/rocks_small.py --keys 300000 --task # the database closed after each micro-batch
    python bench/rocks_small.py --profile rocksdb    # where the time goes

The backends take turns, a micro-batch each, and the figure is CPU time of the whole process (with
RocksDB's own threads) for each record.  The records have random keys, and their results are checked.
A cold load is measured behind that: each key group is rebuilt from its log and kept.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import statistics
import time
import uuid
from collections.abc import Iterator
from typing import Any

import paths  # noqa: F401 - the path first
from micro import BACKENDS
from workloads import RunningCount

from pyflinklike import KeyedProcessFunction, MapStateDescriptor, RuntimeContext, Types
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import Records, serve

_GROUPS = 16


class Count(RunningCount):
    """W1, of numbers."""

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value, count


class CountInMap(KeyedProcessFunction):
    """The same, in a map with one entry for each key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = MapStateDescriptor("counts", Types.INT(), Types.LONG())
        self.counts = runtime_context.get_map_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        count = (self.counts.get(1) or 0) + 1
        self.counts.put(1, count)
        yield value, count


FUNCTIONS: dict[str, type[KeyedProcessFunction]] = {"value": Count, "map": CountInMap}


class Side:
    """One operator over one backend, and the logs of its key groups."""

    def __init__(self, function: str, backend: str, *, is_task: bool) -> None:
        self._made = function, backend
        self._owner = f"bench-{uuid.uuid4()}"
        self.stores = [InMemoryLogStorage() for _ in range(_GROUPS)]
        self.is_task = is_task
        self.cpu: list[float] = []
        self.profile = cProfile.Profile()
        self.operator = self.opened(self._owner)

    def opened(self, owner: str) -> KeyedProcessOperator:
        """An operator with nothing warm, unless the owner has left it."""
        function, backend = self._made
        operator = make_keyed_operator(
            OperatorDeclaration(
                FUNCTIONS[function](),
                BACKENDS[backend](),
                Types.STRING(),
                TaskInfo("bench", max_parallelism=_GROUPS),
                owner,
            )
        )
        operator.open()
        return operator

    def run(self, numbers: list[int], *, profiled: bool = False) -> int:
        """One micro-batch; the sum of its outputs."""
        groups: list[list[int]] = [[] for _ in range(_GROUPS)]
        for number in numbers:
            groups[number % _GROUPS].append(number)
        parts = [([f"user-{each}" for each in group], group) for group in groups]
        total = 0
        gc.collect()
        gc.disable()
        begun = time.process_time()
        if profiled:
            self.profile.enable()
        operator = self.operator
        for index, (keys, values) in enumerate(parts):
            if keys:
                records = Records(keys, values, [None] * len(keys))
                serve(operator, self.stores[index], index, records)
                total += sum(count for _, count in operator.outputs.take().main)
                operator.group.cache()
        if self.is_task:
            operator.group.leave()
            operator.backend.release()
        self.profile.disable()
        self.cpu.append(time.process_time() - begun)
        gc.enable()
        return total

    def cold(self) -> float:
        """CPU seconds in which another worker rebuilds all key groups and keeps them."""
        operator = self.opened(f"bench-{uuid.uuid4()}")
        gc.collect()
        gc.disable()
        begun = time.process_time()
        for index, store in enumerate(self.stores):
            operator.load(store, store.read_head(operator.group.where(index)), index)
            operator.group.cache()
        operator.group.leave()
        operator.backend.release()
        taken = time.process_time() - begun
        gc.enable()
        discard = getattr(operator.backend, "discard", None)
        operator.close()
        if discard is not None:
            discard()
        return taken


def measure(function: str, options: argparse.Namespace) -> None:
    """Print the figures of one function."""
    sides = {name: Side(function, name, is_task=options.task) for name in BACKENDS}
    for side in sides.values():
        for first in range(0, options.keys, 100_000):
            side.run(list(range(first, min(first + 100_000, options.keys))))
        side.cpu.clear()
    drawn = random.Random(7)
    for batch in range(options.batches):
        numbers = [drawn.randrange(options.keys) for _ in range(options.records)]
        order = list(sides)[:: -1 if batch % 2 else 1]
        totals = {
            name: sides[name].run(numbers, profiled=name == options.profile) for name in order
        }
        if len(set(totals.values())) != 1:
            raise SystemExit(f"{function}, micro-batch {batch}: {totals}")
    each = {
        name: statistics.median(side.cpu[2:]) / options.records * 1e6
        for name, side in sides.items()
    }
    whole = {
        name: statistics.mean(side.cpu[2:]) / options.records * 1e6 for name, side in sides.items()
    }
    print(
        f"{function}: heap {each['heap']:.1f} us a record, rocksdb {each['rocksdb']:.1f} us, "
        f"{each['rocksdb'] / each['heap']:.2f} times (means {whole['heap']:.1f}, "
        f"{whole['rocksdb']:.1f}: {whole['rocksdb'] / whole['heap']:.2f} times)",
        flush=True,
    )
    if options.profile:
        pstats.Stats(sides[options.profile].profile).sort_stats("tottime").print_stats(28)
    if options.cold:
        taken: dict[str, list[float]] = {name: [] for name in sides}
        for _ in range(options.cold):
            for name, side in sides.items():
                taken[name].append(side.cold())
        rates = {name: options.keys / min(each) for name, each in taken.items()}
        print(
            f"{function}: cold load, entries a second of CPU: heap {rates['heap']:,.0f}, "
            f"rocksdb {rates['rocksdb']:,.0f}, {rates['heap'] / rates['rocksdb']:.2f} times",
            flush=True,
        )
    for side in sides.values():
        discard = getattr(side.operator.backend, "discard", None)
        side.operator.close()
        if discard is not None:
            discard()


def main() -> None:
    """Measure each function."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--records", type=int, default=10_000, help="of a micro-batch")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--functions", default="value,map")
    parser.add_argument("--task", action="store_true", help="a micro-batch is a task of its own")
    parser.add_argument("--cold", type=int, default=0, help="cold loads to measure, too")
    parser.add_argument("--profile", choices=tuple(BACKENDS))
    options = parser.parse_args()
    for function in options.functions.split(","):
        measure(function, options)


if __name__ == "__main__":
    main()
