# SPDX-License-Identifier: Apache-2.0
"""The cost of a micro-batch in Python with more slots: the same records, more workers.

For each number of slots a session `local[n]` with `n` partitions, and 16 key groups whatever `n` is:

* `1M`: 10,000 records on 1 M keys in state;
* `100k`: 200,000 records on 100 k keys;
* `none`: 100 records on 100 keys, so that the memory of workers without state is known.

It prints, for all Python processes of the session, the CPU seconds of a micro-batch (mean) and the
memory after the last one: resident, proportional, and unshared by process.  It also prints how key
groups were loaded (mean) and the time of a micro-batch (median).  Each side has its own JVM, which
gets one micro-batch at a time.

    python bench/slots.py                                  # an estimated 25 minutes on 2 cores
    python bench/slots.py --slots 2,8 --sides heap --other ../before
    python bench/slots.py --slots 8 --sides heap --lines 100k --tasks  # which worker had which task
    python bench/slots.py --sides heap --lines none,1M --daemon        # with our daemon of workers

Spark keeps idle workers in a queue for each environment of a function, and takes the one that has
waited longest.  PySpark 4.3 sets a variable for `mapInArrow` that it does not set for state operators
(`SPARK_SIMPLIFIED_TRACEBACK`), so these have workers of their own: one for each slot, as `--tasks`
shows.  Which of them gets which partition follows from the order in which they ended their last tasks.

The floor's dicts lie in whichever worker met the key, so only the number of its outputs is checked.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections import defaultdict
from pathlib import Path
from typing import Any

import attrs
import paths
from inputs import Shape, write_batches
from worker_processes import Reading, WorkerProcesses

SIDES = ("heap", "rocksdb", "floor")
_KEY_GROUPS = 16
_DROPPED = 6
"""Micro-batches that are not counted: one fills the state, and workers come to know the groups."""
_PATIENCE_SECONDS = 300
_QUIET_S = 0.3
"""Behind a micro-batch: workers collect cycles after they have answered."""
_MIB = 1024 * 1024


@attrs.frozen
class Line:
    """One workload."""

    workload: str
    shape: Shape


LINES = {
    "none": Line("W1", Shape(100, 1, 100)),
    "1M": Line("W8", Shape(10_000, 1, 1_000_000, sparse=True)),
    "100k": Line("W1", Shape(200_000, 1, 100_000)),
}


@attrs.frozen
class Run:
    """A side, and the checkout in which it runs."""

    side: str
    tree: Path


def main() -> int:
    """Measure each side for each number of slots, and print the table."""
    options = _options()
    if options.input:
        print(json.dumps(_measure(options)))
        return 0
    runs = {side: Run(side, paths.ROOT) for side in options.sides}
    if options.other:
        other = Path(options.other).resolve()
        runs.update({f"{side}, other checkout": Run(side, other) for side in options.sides})
    measured: dict[tuple[str, str, int], dict[str, Any]] = {}
    for name in options.lines:
        with tempfile.TemporaryDirectory(prefix="bench-slots-") as scratch:
            folder = Path(scratch) / "in"
            write_batches(folder, _shape(name, options.batches), list(_workload(name).columns))
            for slots in options.slots:
                for label, run in runs.items():
                    found = _run(run, folder, name, slots, options)
                    _check(found, label, name, options.batches)
                    measured[name, label, slots] = found
                    print(_row(measured, name, label, slots, options.slots[0]), file=sys.stderr)
                    if options.tasks:
                        _print_tasks(found["tasks"], options.batches)
    print(
        "| line | side | slots | CPU, s | over the first | resident, MiB | proportional, MiB | over the first "
        "| less that without state, MiB | over the first | a worker's own, MiB | loads | s a micro-batch |"
    )
    print("|---" * 13 + "|")
    for name, label, slots in measured:
        print(_row(measured, name, label, slots, options.slots[0]))
    return 0


def _row(
    measured: dict[tuple[str, str, int], dict[str, Any]],
    name: str,
    label: str,
    slots: int,
    first: int,
) -> str:
    found, least = measured[name, label, slots], measured[name, label, first]
    extra = [_of_state(measured, name, label, each) for each in (slots, first)]
    loads = ", ".join(f"{number:.1f} {kind}" for kind, number in found["loads"].items() if number)
    return (
        f"| {name} | {label} | {slots} | {found['cpu_s']:.3f} | {_over(found, least, 'cpu_s')} "
        f"| {found['resident'] / _MIB:,.0f} | {found['proportional'] / _MIB:,.0f} "
        f"| {_over(found, least, 'proportional')} "
        + (
            "| | "
            if extra[0] is None or not extra[1]
            else f"| {extra[0] / _MIB:,.0f} | {extra[0] / extra[1]:.2f} "
        )
        + f"| {statistics.median(found['own']) / _MIB:,.0f} | {loads} | {found['seconds']:.2f} |"
    )


def _over(found: dict[str, Any], least: dict[str, Any], what: str) -> str:
    return f"{found[what] / least[what]:.2f}"


def _of_state(
    measured: dict[tuple[str, str, int], dict[str, Any]], name: str, label: str, slots: int
) -> int | None:
    """Return the memory of the state; None if workers without state were not measured."""
    if name == "none" or ("none", label, slots) not in measured:
        return None
    own, empty = measured[name, label, slots], measured["none", label, slots]
    return int(own["proportional"] - empty["proportional"])


def _shape(line: str, batches: int) -> Shape:
    return attrs.evolve(LINES[line].shape, batches=batches)


def _workload(line: str) -> Any:
    from workloads import WORKLOADS

    return WORKLOADS[LINES[line].workload]


@functools.cache
def _expected(line: str, batches: int) -> Any:
    from sides.floor import expected

    return expected(LINES[line].workload, _shape(line, batches))


def _check(found: dict[str, Any], label: str, line: str, batches: int) -> None:
    from results import Check

    right = _expected(line, batches)
    total = right.total if label.startswith("floor") else found["total"]
    Check(found["rows"], total).must_be(right, f"{label}, {line}")


def _run(run: Run, folder: Path, line: str, slots: int, options: argparse.Namespace) -> Any:
    # This script beside the other checkout's modules: an older one need not have it.
    bench = run.tree / "bench"
    script = f"import runpy; runpy.run_path({__file__!r}, run_name='__main__')"
    arguments = [
        *("--input", str(folder), "--batches", str(options.batches)),
        *("--slots", str(slots), "--lines", line, "--sides", run.side),
    ]
    flags = [f"--{each.replace('_', '-')}" for each in _FLAGS if getattr(options, each)]
    with tempfile.TemporaryDirectory(prefix="bench-tasks-") as tasks:
        inherited = [str(bench), str(run.tree), str(paths.BENCH)]
        done = subprocess.run(
            [sys.executable, "-c", script, *arguments, *flags],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
            cwd=bench,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(inherited), "BENCH_TASKS": tasks},
        )
        found = json.loads(done.stdout.splitlines()[-1])
        lines = [each.read_text("utf-8").splitlines() for each in Path(tasks).iterdir()]
        found["tasks"] = [json.loads(each) for worker in lines for each in worker]
    return found


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run one side in this process, and return what it took."""
    from spark_run import stop

    import pyflinklike

    assert Path(pyflinklike.__file__).is_relative_to(paths.ROOT), pyflinklike.__file__
    (slots,), (line,), (side,) = options.slots, options.lines, options.sides
    spark = _session(slots, options)
    folder = Path(tempfile.mkdtemp(prefix="slots-", dir=options.input.parent))
    try:
        with WorkerProcesses(spark.sparkContext._gateway.proc.pid) as processes:
            readings, progress = _stream(spark, processes, folder, line, side, options)
        stop(spark)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _figures(readings, progress, side)


def _figures(readings: list[Reading], progress: list[Any], side: str) -> dict[str, Any]:
    from pyflinklike.spark import metrics_of

    kept = progress[_DROPPED:]
    loads: dict[str, float] = {}
    if side != "floor":
        counts = [metrics_of(each, "RunningCount").asDict() for each in kept]  # type: ignore[union-attr]
        kinds = [name for name in counts[0] if name.endswith("_loads")]
        for kind in kinds:
            told = kind.removesuffix("_loads").replace("_", " ")
            loads[told] = statistics.mean(each[kind] for each in counts)
    observed = [each["observedMetrics"]["check"] for each in progress]
    return {
        "cpu_s": (readings[-1].cpu_s - readings[_DROPPED - 1].cpu_s) / len(kept),
        "resident": readings[-1].resident,
        "proportional": readings[-1].proportional,
        "own": readings[-1].own,
        "loads": loads,
        "seconds": statistics.median(each["durationMs"]["triggerExecution"] for each in kept) / 1e3,
        "rows": sum(each["rows"] for each in observed),
        "total": sum(each["total"] for each in observed),
    }


def _session(slots: int, options: argparse.Namespace) -> Any:
    from pyspark.sql import SparkSession
    from spark_run import SETTINGS

    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(slots)}
    if options.daemon:
        settings["spark.python.daemon.module"] = "pyflinklike.spark.daemon"
    if options.tasks:
        settings["spark.python.daemon.module"] = "task_daemon"
    builder = SparkSession.builder.master(f"local[{slots}]").appName("pyflinklike-slots")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _stream(
    spark: Any,
    processes: WorkerProcesses,
    folder: Path,
    line: str,
    side: str,
    options: argparse.Namespace,
) -> tuple[list[Reading], list[Any]]:
    """Give the query one micro-batch at a time, and read all processes behind each."""
    from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
    from spark_run import ddl

    workload = _workload(line)
    (folder / "in").mkdir()
    stream = (
        spark.readStream.schema(ddl(workload))
        .option("recursiveFileLookup", "true")
        .parquet(str(folder / "in"))
    )
    query = (
        _transform(side, workload, options.slots[0], folder)(stream)
        .observe("check", F.count("*").alias("rows"), F.sum("total").alias("total"))
        .writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    readings, progress = [], []
    for batch in range(options.batches):
        _give(options.input, folder, batch)
        ran = _await_progress(query, batch)
        wanted = _shape(line, options.batches).records_of(batch)
        assert wanted == ran["numInputRows"], (batch, wanted, ran["numInputRows"])
        progress.append(ran)
        time.sleep(_QUIET_S)
        readings.append(processes.read())
    query.stop()
    return readings, progress


def _transform(side: str, workload: Any, slots: int, folder: Path) -> Any:
    from sides.floor import on_spark
    from workloads import RunningCount

    from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
    from pyflinklike.spark import key_by

    if side == "floor":
        loop = on_spark(str(uuid.uuid4()), workload.name)
        return lambda df: df.repartition(slots, "user").mapInArrow(loop, workload.output)
    backend: Any = HashMapStateBackend()
    if side == "rocksdb":
        backend = EmbeddedRocksDBStateBackend()
        backend.set_db_storage_paths(str(folder / "local"))
    return lambda df: key_by(df, "user").process(
        RunningCount(), workload.output, state_backend=backend, max_parallelism=_KEY_GROUPS
    )


def _give(source: Path, folder: Path, batch: int) -> None:
    """Let the query see the files of a micro-batch, all at once."""
    hidden = folder / f"{batch:04d}"
    hidden.mkdir()
    for file in source.glob(f"batch-{batch:04d}-*.parquet"):
        os.link(file, hidden / file.name)
    hidden.rename(folder / "in" / hidden.name)


def _await_progress(query: Any, batch: int) -> Any:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        if query.exception() is not None:
            raise query.exception()
        last = query.lastProgress
        if last is not None and last["batchId"] == batch and last["numInputRows"]:
            return last
        if time.monotonic() > deadline:
            msg = f"no micro-batch {batch} after {_PATIENCE_SECONDS} s"
            raise TimeoutError(msg)
        time.sleep(0.02)


def _print_tasks(tasks: list[dict[str, Any]], batches: int) -> None:
    """Print which worker had which task, numbered as they came, and the CPU of each kind of tasks."""
    workers = {pid: at for at, pid in enumerate(dict.fromkeys(each["pid"] for each in tasks), 1)}
    by_batch: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for each in tasks:
        by_batch[each["batch"], _role(each, tasks)].append(each)
    print(
        "\n| micro-batch | "
        + " | ".join(f"{role}: worker of each partition" for role in _ROLES)
        + " |"
    )
    print("|---" * (len(_ROLES) + 1) + "|")
    for batch in range(batches):
        cells = []
        for role in _ROLES:
            done = sorted(by_batch[batch, role], key=lambda each: each["partition"])
            cells.append(" ".join(str(workers[each["pid"]]) for each in done))
        print(f"| {batch} | " + " | ".join(cells) + " |")
    print(f"\n{len(workers)} workers")
    kept = range(_DROPPED, batches)
    for role in _ROLES:
        spent = sum(each["cpu_s"] for batch in kept for each in by_batch[batch, role])
        print(f"CPU of a micro-batch in {role}: {spent / len(kept):.3f} s")
    print()


_ROLES = ("pack", "state", "unpack")


def _role(task: dict[str, Any], tasks: list[dict[str, Any]]) -> str:
    """Which stage of ours a task is: a `mapInArrow` beside a state operator unpacks."""
    if task["kind"] == "state":
        return "state"
    states = _stages_with_state(tuple((each["stage"], each["kind"]) for each in tasks))
    return "unpack" if task["stage"] in states else "pack"


@functools.cache
def _stages_with_state(stages: tuple[tuple[int, str], ...]) -> frozenset[int]:
    return frozenset(stage for stage, kind in stages if kind == "state")


_FLAGS = ("daemon", "tasks")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    def names(known: Any) -> Any:
        return lambda text: [known[each] for each in text.split(",")]

    parser.add_argument(
        "--slots", type=lambda text: [int(each) for each in text.split(",")], default=[2, 4, 8, 16]
    )
    lines, sides = ({each: each for each in known} for known in (LINES, SIDES))
    parser.add_argument("--lines", type=names(lines), default=list(LINES), help=f"of {lines}")
    parser.add_argument("--sides", type=names(sides), default=list(SIDES), help=f"of {SIDES}")
    parser.add_argument("--other", help="another checkout, in turns with this one")
    parser.add_argument(
        "--batches", type=int, default=14, help=f"the first {_DROPPED} do not count"
    )
    parser.add_argument("--daemon", action="store_true", help="workers of pyflinklike.spark.daemon")
    parser.add_argument("--tasks", action="store_true", help="which worker had which task")
    parser.add_argument("--input", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
