# SPDX-License-Identifier: Apache-2.0
"""From `start()` to the first committed micro-batch, beside Spark's own operator and another checkout.

    python bench/first_batch.py                     # ours beside an empty transformWithStateInPandas
    python bench/first_batch.py --other ../before   # and ours of another checkout
    python bench/first_batch.py --records 10000 --rounds 7
    python bench/first_batch.py --daemon            # and ours with workers of pyflinklike.spark.daemon
    python bench/first_batch.py --other ../before --steady  # later micro-batches, of 1, 100 and 10,000 records

Each start has a JVM and Python workers of its own, as a query that is started by a
scheduler has; the session is there before the clock begins.  "built" is the time of
`process(...)` and `start()` on the driver, "first" ends with Spark's commit of the
first micro-batch, "second" is the next micro-batch alone, and "python" is the CPU time of all Python
processes that Spark started, until the second one is committed.  The sides take turns.

With `--steady` it is the later micro-batches of each size, behind as many that warm the JVM.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import paths

SIDES = ("ours", "empty")
_PHASES = ("built", "first", "second", "python")
_PATIENCE_SECONDS = 120
_STEADY = (1, 100, 10_000)
"""Records of the micro-batches of `--steady`."""
_BATCHES = 40
_WITH_DAEMON = "ours, daemon"


def main() -> int:
    """Measure each side in turn and print the table."""
    options = _options()
    if options.side:
        measure = _run_on if options.steady else _start_once
        if options.daemon:
            _use_daemon()
        print(json.dumps(measure(options.side, options.records)))
        return 0
    trees = {"ours": paths.ROOT, "empty": paths.ROOT}
    if options.other:
        trees["ours, other checkout"] = Path(options.other).resolve()
    if options.daemon:
        trees[_WITH_DAEMON] = paths.ROOT
    for tree in trees.values():  # as an installed package is, wherever the checkout comes from
        compileall.compile_dir(tree / "pyflinklike", quiet=1)
    if options.steady:
        _compare_steady(trees, options.rounds)
        return 0
    measured: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
    for round_ in range(options.rounds):
        for name in list(trees)[:: -1 if round_ % 2 else 1]:
            daemon = ["--daemon"] if name == _WITH_DAEMON else []
            measured[name].append(_run(trees[name], name.split(",")[0], options.records, *daemon))
            print(f"{name}: {measured[name][-1]}", file=sys.stderr)
    print("| side | " + " | ".join(f"{phase}, s" for phase in _PHASES) + " | first, by the empty |")
    print("|---" * (len(_PHASES) + 2) + "|")
    empty = statistics.median(each["first"] for each in measured["empty"])
    for name, runs in measured.items():
        cells = [_spread([each[phase] for each in runs]) for phase in _PHASES]
        ratio = statistics.median(each["first"] for each in runs) / empty
        print(f"| {name} | " + " | ".join(cells) + f" | {ratio:.2f} |")
    return 0


def _compare_steady(trees: dict[str, Path], rounds: int) -> None:
    print("| records | side | s a micro-batch | by the empty |")
    print("|---" * 4 + "|")
    for records in _STEADY:
        measured: dict[str, list[float]] = {name: [] for name in trees}
        for round_ in range(rounds):
            for name in list(trees)[:: -1 if round_ % 2 else 1]:
                measured[name] += _run(trees[name], name.split(",")[0], records, "--steady")
        empty = statistics.median(measured["empty"])
        for name, seconds in measured.items():
            ratio = statistics.median(seconds) / empty
            print(f"| {records:,} | {name} | {_spread(seconds)} | {ratio:.2f} |", flush=True)


def _run(tree: Path, side: str, records: int, *more: str) -> Any:
    # This script beside the other checkout's modules: an older one need not have it.
    bench = tree / "bench"
    run = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", run, "--side", side, "--records", str(records), *more],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=bench,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(bench), str(tree), str(paths.BENCH))),
        },
    )
    return json.loads(done.stdout.splitlines()[-1])


def _use_daemon() -> None:
    import spark_run

    spark_run.SETTINGS["spark.python.daemon.module"] = "pyflinklike.spark.daemon"


def _start_once(side: str, records: int) -> dict[str, float]:
    from inputs import Shape, write_batches
    from spark_run import ddl, session, stop
    from worker_processes import WorkerProcesses
    from workloads import WORKLOADS

    import pyflinklike

    assert Path(pyflinklike.__file__).is_relative_to(paths.ROOT), pyflinklike.__file__
    workload = WORKLOADS["W1"]
    spark = session()
    spark.range(10).count()  # no measurement includes the session's first job
    gateway: Any = spark.sparkContext._gateway
    with (
        tempfile.TemporaryDirectory(prefix="bench-first-") as scratch,
        WorkerProcesses(gateway.proc.pid) as processes,
    ):
        folder = Path(scratch)
        write_batches(folder / "in", Shape(records, records, 2), list(workload.columns))
        stream = (
            spark.readStream.schema(ddl(workload))
            .option("maxFilesPerTrigger", 2)
            .parquet(str(folder / "in"))
        )
        process: Any = _ours if side == "ours" else _empty
        begun = time.perf_counter()
        query = (
            process(stream)
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        built = time.perf_counter() - begun
        first = _await_commit(query, folder / "checkpoint" / "commits" / "0") - begun
        second = _await_commit(query, folder / "checkpoint" / "commits" / "1") - begun
        python = processes.read().cpu_s
        query.stop()
    stop(spark)
    return {"built": built, "first": first, "second": second - first, "python": python}


def _run_on(side: str, records: int) -> list[float]:
    """The seconds of the micro-batches in the second half of a query."""
    from inputs import Shape
    from spark_run import progress_of, session, stop
    from workloads import WORKLOADS

    spark = session()
    process: Any = _ours if side == "ours" else _empty
    shape = Shape(records, _BATCHES, max(records, 100))
    progress = progress_of(spark, WORKLOADS["W1"], shape, process)
    stop(spark)
    ran = [each["durationMs"] for each in progress if "addBatch" in each["durationMs"]]
    return [each["triggerExecution"] / 1000 for each in ran[len(ran) // 2 :]]


def _ours(stream: Any) -> Any:
    from pyflinklike import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
    from pyflinklike.spark import key_by

    # As in most programs: in the script itself, which no worker imports.
    class RunningCount(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Any:
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield value.user, count

    return key_by(stream, "user").process(RunningCount(), "user string, total long")


def _empty(stream: Any) -> Any:
    from sides.empty import EmptyCount

    return (
        stream.where("amount < 0")
        .groupBy("user")
        .transformWithStateInPandas(EmptyCount(), "user string, total long", "Append", "None")
    )


def _await_commit(query: Any, file: Path) -> float:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not file.exists():
        if query.exception() is not None:
            raise query.exception()
        if time.monotonic() > deadline:
            msg = f"no {file.name} in {file.parent} after {_PATIENCE_SECONDS} s"
            raise TimeoutError(msg)
        time.sleep(0.005)
    return time.perf_counter()


def _spread(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f})"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--other", help="another checkout")
    parser.add_argument("--records", type=int, default=100, help="of a micro-batch")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steady", action="store_true", help="later micro-batches")
    parser.add_argument(
        "--daemon", action="store_true", help="also with workers of pyflinklike.spark.daemon"
    )
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
