# SPDX-License-Identifier: Apache-2.0
"""Without Spark: the harness, a cold key group, and the operator beside the floor.

    python bench/micro.py

Every figure is per second, from the median of several rounds: of CPU time
(`time.process_time`, all threads of the process) and of wall time.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import paths  # noqa: F401 - the path first
import pyarrow as pa
from inputs import Shape, batch_of
from micro_table import micro_rows
from pyarrow import compute as pc
from results import Check
from sides.floor import expected, in_process
from workloads import WORKLOADS, RunningCount, Workload

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend, Row, StateBackend, Types
from pyflinklike._changelog.log_storage import InMemoryLogStorage
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import serve
from pyflinklike.spark._wire.record_readers import RecordReader
from pyflinklike.testing import KeyedProcessHarness

BACKENDS: dict[str, Callable[[], StateBackend]] = {
    "heap": HashMapStateBackend,
    "rocksdb": EmbeddedRocksDBStateBackend,
}
_GROUPS = 128
_ROUNDS = 6
_BATCHES = 4
_COLD_ENTRIES = 100_000
_HARNESS_CALLS = 200_000
Seconds = tuple[float, float]


def timed(call: Callable[[], Any]) -> Seconds:
    """Wall and CPU seconds of a call, the cycle collector off as it is on Spark."""
    gc.collect()
    gc.disable()
    try:
        wall, cpu = time.perf_counter(), time.process_time()
        call()
        return time.perf_counter() - wall, time.process_time() - cpu
    finally:
        gc.enable()


def harness(backend: str, calls: int) -> list[Seconds]:
    """`process_element` of W1, a call for each record; the first round is dropped."""
    table = batch_of(Shape(calls, 1, max(calls // 2, 1)), 0)
    users, amounts = table.column("user").to_pylist(), table.column("amount").to_pylist()
    records = [Row(user=user, amount=amount) for user, amount in zip(users, amounts)]
    rounds = []
    with KeyedProcessHarness(
        RunningCount(), key_selector=lambda row: row.user, state_backend=BACKENDS[backend]()
    ) as driven:

        def drive() -> None:
            process_element = driven.process_element
            for record in records:
                process_element(record)

        for number in range(_ROUNDS):
            rounds.append(timed(drive))
            counted = sum(1 for _, count in driven.output if count > 0)
            Check(counted, 0).must_be(Check(calls, 0), f"harness, round {number}")
            driven.output.clear()
    return rounds[1:]


class Groups:
    """The work of Spark's tasks for a micro-batch, in this process.

    Args:
        workload: Its function.
        backend: "heap" or "rocksdb".
        groups: Key groups, each with a store of its own.
    """

    def __init__(self, workload: Workload, backend: str, groups: int = _GROUPS) -> None:
        self.workload = workload
        self.backend = backend
        self.stores = [InMemoryLogStorage() for _ in range(groups)]
        event_time = "ts" if workload.event_time else None
        self.reader = RecordReader(("user",), event_time, Types.STRING(), "UTC")
        self.operator = self.new_operator()

    def new_function(self) -> Any:
        """The workload's."""
        return self.workload.function()

    def new_operator(self) -> KeyedProcessOperator:
        """Return an open operator of the workload's function, with no warm key groups."""
        operator = make_keyed_operator(
            OperatorDeclaration(
                self.new_function(),
                BACKENDS[self.backend](),
                Types.STRING(),
                TaskInfo("bench", max_parallelism=len(self.stores)),
                f"bench-{uuid.uuid4()}",
            )
        )
        operator.open()
        return operator

    def split(self, table: pa.Table) -> list[tuple[int, pa.RecordBatch]]:
        """The records of each key group, which on Spark `pack` and the shuffle see to."""
        number = pc.utf8_slice_codeunits(table.column("user"), len("user-")).cast(pa.int64())
        group = number.to_numpy() % len(self.stores)
        parts = []
        for index in range(len(self.stores)):
            part = table.filter(pa.array(group == index)).combine_chunks()
            parts += [(index, batch) for batch in part.to_batches()]
        return parts

    def process(
        self, parts: list[tuple[int, pa.RecordBatch]], watermark: int
    ) -> list[pa.RecordBatch]:
        """Load, run and commit each key group, with Arrow in and out."""
        operator = self.operator
        kind = pa.float64() if self.workload.total == "double" else pa.int64()
        results = []
        for index, batch in parts:
            operator.clock.watermark = watermark
            serve(operator, self.stores[index], index, self.reader.read(batch))
            outputs = operator.outputs.take().main
            users, totals = zip(*outputs) if outputs else ((), ())
            results.append(
                pa.RecordBatch.from_arrays(
                    [pa.array(users, pa.string()), pa.array(totals, kind)], ["user", "total"]
                )
            )
            operator.group.cache()
        return results


def operator_only(workload: Workload, backend: str, shape: Shape) -> list[Seconds]:
    """Micro-batches without Spark, their outputs checked; the first one is dropped."""
    driven = Groups(workload, backend)
    rounds, outputs = [], []
    watermark = MIN_WATERMARK
    for number in range(shape.batches):
        table = batch_of(shape, number)
        parts = driven.split(table.select(list(workload.columns)))
        taken: list[pa.RecordBatch] = []
        rounds.append(timed(lambda: taken.extend(driven.process(parts, watermark))))  # noqa: B023
        outputs += taken
        if workload.event_time:
            watermark = shape.last_ms - (shape.batches - 1 - number) * shape.records
    if workload.event_time:
        nothing = parts[0][1].slice(0, 0)
        outputs += driven.process([(index, nothing) for index in range(_GROUPS)], watermark)
    driven.operator.close()
    _check(workload, shape, pa.Table.from_batches(outputs), f"operator, {backend}")
    return rounds[1:]


def _check(workload: Workload, shape: Shape, outputs: pa.Table, who: str) -> None:
    limit = workload.limit(shape)
    if limit is not None:
        outputs = outputs.filter(pc.less_equal(outputs.column("total"), limit))
    total = pc.sum(outputs.column("total")).as_py() or 0
    got = Check(outputs.num_rows, total)
    got.must_be(expected(workload.name, shape), f"{who}, {workload.name}")


def cold(backend: str, entries: int) -> list[Seconds]:
    """Rebuild a key group of so many keys from its log; the first round is dropped."""
    shape = Shape(entries, 1, entries, sparse=True)
    driven = Groups(WORKLOADS["W1"], backend, groups=1)
    driven.process(driven.split(batch_of(shape, 0).select(["user", "amount"])), MIN_WATERMARK)
    driven.operator.close()
    store = driven.stores[0]
    rounds = []
    for number in range(_ROUNDS):
        operator = driven.new_operator()
        where = operator.group.where(0)
        rounds.append(timed(lambda: operator.load(store, store.read_head(where), 0)))  # noqa: B023
        rebuilt = operator.backend.count()
        Check(rebuilt, 0).must_be(Check(entries, 0), f"cold {backend}, round {number}")
        operator.close()
    return rounds[1:]


def figures(scale: float) -> Iterator[tuple[str, float]]:
    """Every figure by its name: what is done per second, of CPU and of wall time."""
    calls = max(int(_HARNESS_CALLS * scale), 1)
    entries = max(int(_COLD_ENTRIES * scale), 1)
    for backend in BACKENDS:
        yield from _rates(f"harness_{backend}", calls, harness(backend, calls))
    for backend in BACKENDS:
        yield from _rates(f"cold_{backend}", entries, cold(backend, entries))
    for name in ("W1", "W2", "W3", "W4", "W5", "W6", "W7"):
        workload = WORKLOADS[name]
        shape = workload.shape.scaled(scale, _BATCHES)
        wall, cpu, _ = in_process(name, shape)
        yield from _rates(f"{name}_floor", shape.records, list(zip(wall, cpu))[1:])
        for backend in BACKENDS:
            rounds = operator_only(workload, backend, shape)
            yield from _rates(f"{name}_operator_{backend}", shape.records, rounds)


def _rates(name: str, count: int, rounds: list[Seconds]) -> Iterator[tuple[str, float]]:
    yield name, count / max(statistics.median(cpu for _, cpu in rounds), 1e-9)
    yield f"{name}_wall", count / statistics.median(wall for wall, _ in rounds)


def main() -> None:
    """Print the figures, as a table or as one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0, help="of the records and the keys")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rates = dict(figures(options.scale))
    print(json.dumps(rates) if options.json else micro_rows(rates))


if __name__ == "__main__":
    main()
