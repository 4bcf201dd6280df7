# SPDX-License-Identifier: Apache-2.0
"""The operator alone, in columns and record by record, and columns rebuilt from the log; no Spark.

    python bench/columns.py                        # 1 M records a batch, 100 k keys, 16 key groups
    python bench/columns.py --records 200000
    python bench/columns.py --profile W1           # where the time goes

Every figure is in millions per second of CPU time (`time.process_time`), the median over the rounds
with the least and the greatest; outputs are checked against the floor.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
from typing import Any

import paths  # noqa: F401 - the path first
import pyarrow as pa
from inputs import Shape, batch_of
from micro import Groups, timed
from pyarrow import compute as pc
from results import Check
from sides.floor import expected
from workloads import WORKLOADS, Workload

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike._runtime.micro_batch import serve
from pyflinklike.columns.columnar_layout import ColumnRecordReader
from pyflinklike.types import Types

_GROUPS = 16  # as two shuffle partitions make them
_COLD_ENTRIES = 1_000_000


class ColumnGroups(Groups):
    """`Groups` of a columnar function."""

    def __init__(self, workload: Workload, groups: int = _GROUPS) -> None:
        super().__init__(workload, "heap", groups)
        self.reader = ColumnRecordReader(("user",), None, Types.STRING(), "UTC")

    def new_function(self) -> Any:
        """The columnar one."""
        assert self.workload.columnar is not None
        return self.workload.columnar()

    def process(
        self, parts: list[tuple[int, pa.RecordBatch]], watermark: int
    ) -> list[pa.RecordBatch]:
        """Load, run and commit each key group, with Arrow in and out."""
        operator, results = self.operator, []
        for index, batch in parts:
            operator.clock.watermark = watermark
            serve(operator, self.stores[index], index, self.reader.read(batch))
            results += operator.outputs.take().main
            operator.group.cache()
        return results


def operator_only(driven: Groups, shape: Shape) -> list[float]:
    """CPU seconds of each micro-batch but the first."""
    rounds, rows, total = [], 0, 0
    for number in range(shape.batches):
        table = batch_of(shape, number)
        parts = driven.split(table.select(list(driven.workload.columns)))
        taken: list[pa.RecordBatch] = []
        rounds.append(timed(lambda: taken.extend(driven.process(parts, MIN_WATERMARK)))[1])  # noqa: B023
        rows += sum(batch.num_rows for batch in taken)
        total += sum(pc.sum(batch.column("total")).as_py() for batch in taken)
    driven.operator.close()
    got = Check(rows, total)
    got.must_be(expected(driven.workload.name, shape), driven.workload.name)
    return rounds[1:]


def cold(entries: int, rounds: int = 5) -> list[float]:
    """CPU seconds to rebuild columns of so many keys from a log."""
    shape = Shape(entries, 1, entries, sparse=True)
    driven = ColumnGroups(WORKLOADS["W1"])
    driven.process(driven.split(batch_of(shape, 0).select(["user", "amount"])), MIN_WATERMARK)
    driven.operator.close()
    taken = []
    for _ in range(rounds):
        operator = driven.new_operator()

        def load() -> None:
            for index, store in enumerate(driven.stores):
                operator.load(store, store.read_head(operator.group.where(index)), index)  # noqa: B023

        taken.append(timed(load)[1])
        operator.close()
    return taken


def _told(name: str, count: int, seconds: list[float]) -> str:
    rates = sorted(count / max(each, 1e-9) / 1e6 for each in seconds)
    return f"| {name} | {statistics.median(rates):.2f} | {rates[0]:.2f} | {rates[-1]:.2f} |"


def main() -> None:
    """Print the figures as a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000, help="of a batch")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--entries", type=int, default=_COLD_ENTRIES, help="to rebuild")
    parser.add_argument("--profile", metavar="WORKLOAD", help="profile one in columns instead")
    options = parser.parse_args()
    shape = Shape(options.records, options.batches, options.keys)
    if options.profile:
        with cProfile.Profile() as profile:
            operator_only(ColumnGroups(WORKLOADS[options.profile]), shape)
        pstats.Stats(profile).sort_stats("tottime").print_stats(30)
        return
    print("| millions per second of CPU | median | least | greatest |\n|---|---:|---:|---:|")
    for workload in WORKLOADS.values():
        if workload.columnar is None or workload.name == "W8":
            continue
        for name, driven in (
            ("record by record", Groups(workload, "heap", _GROUPS)),
            ("in columns", ColumnGroups(workload)),
        ):
            rounds = operator_only(driven, shape)
            print(_told(f"{workload.name} {name}", shape.records, rounds), flush=True)
    print(_told("entries rebuilt in columns", options.entries, cold(options.entries)))


if __name__ == "__main__":
    main()
