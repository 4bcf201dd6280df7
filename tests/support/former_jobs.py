# SPDX-License-Identifier: Apache-2.0
"""A job of the DataStream API whose folder an earlier commit wrote.

    python tests/support/former_jobs.py <folder>     # with that commit's pyflinklike on PYTHONPATH

The folder gets a zip for each backend: the job's folder when it was cancelled between micro-batches,
and what the job gave that went on from it.  Spark notes where the files lie that it has read, so the
job's folder is always at the same place: `PLACE`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from spark_support import pickle_by_value

from pyflinklike.pyflink.common import Configuration, Time, Types, WatermarkStrategy
from pyflinklike.pyflink.common.watermark_strategy import TimestampAssigner
from pyflinklike.pyflink.datastream import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    StreamExecutionEnvironment,
)
from pyflinklike.pyflink.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.pyflink.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows

__all__ = ["BACKENDS", "expected_of", "outputs_after", "restored"]

BACKENDS = {"heap": "hashmap", "rocksdb": "rocksdb"}
PLACE = Path(tempfile.gettempdir()) / "pyflinklike-former-job"
KEEPS = 170
"""How many outputs are taken before the job is cancelled."""
PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.INT())
ELEMENTS = [(f"u{n % 3}", n, n * 70 + (n % 7) * 5) for n in range(48)]

pickle_by_value(__name__)


class ByTime(TimestampAssigner):
    """The third field."""

    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> int:
        """Of an element."""
        return int(value[2])


def first(value: Any) -> Any:
    """The key."""
    return value[0]


class Sums(KeyedProcessFunction):
    """A sum, the last numbers, and a timer behind each element."""

    def open(self, ctx: Any) -> None:
        """State."""
        self.sum = ctx.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.last = ctx.get_list_state(ListStateDescriptor("last", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Add it up."""
        self.sum.update((self.sum.value() or 0) + value[1])
        self.last.update([*list(self.last.get())[-2:], value[1]])
        ctx.timer_service().register_event_time_timer(value[2] + 500)
        yield f"sum {value[0]} {self.sum.value()} {list(self.last.get())}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """Tell the sum."""
        yield f"timer {ctx.get_current_key()} {timestamp} {self.sum.value()}"


class Both(KeyedCoProcessFunction):
    """How many came of each input."""

    def open(self, ctx: Any) -> None:
        """State."""
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", Types.STRING(), Types.INT()))

    def process_element1(self, value: Any, ctx: Any) -> Any:
        """Of the first."""
        return self._counted("one", value)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        """Of the second."""
        return self._counted("two", value)

    def _counted(self, name: str, value: Any) -> Any:
        self.counts.put(name, (self.counts.get(name) or 0) + 1)
        yield f"both {value[0]} {name} {self.counts.get(name)}"


class Above(KeyedBroadcastProcessFunction):
    """The numbers of each key above the limits that were broadcast."""

    def open(self, ctx: Any) -> None:
        """State."""
        self.count = ctx.get_state(ValueStateDescriptor("above", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Compare."""
        limits = ctx.get_broadcast_state(LIMITS)
        names = sorted(name for name, most in limits.items() if value[1] > most)
        self.count.update((self.count.value() or 0) + len(names))
        yield f"above {value[0]} {self.count.value()} {names}"

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        """A limit."""
        ctx.get_broadcast_state(LIMITS).put(value[0], value[1])
        return []


def summed(one: Any, two: Any) -> Any:
    """Two pairs as one."""
    return one[0], one[1] + two[1]


def collected(backend: str) -> Any:
    """The outputs of the job, begun or gone on with, as lines."""
    settings = {
        "execution.target": "spark",
        "execution.checkpointing.dir": str(PLACE),
        "pyflinklike.source.records-per-batch": "12",
        "state.backend.type": BACKENDS[backend],
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(ByTime())
    elements = env.from_collection(ELEMENTS).assign_timestamps_and_watermarks(strategy)
    keyed = elements.key_by(first, Types.STRING())
    pairs = elements.map(lambda each: (each[0], each[1]), PAIR).key_by(first, Types.STRING())
    limits = env.from_collection([("few", 5), ("many", 30)]).broadcast(LIMITS)
    lines = [
        keyed.process(Sums(), Types.STRING()).uid("sums"),
        pairs.sum(1).uid("totals").map(lambda each: f"total {each[0]} {each[1]}"),
        pairs.window(EventTimeSessionWindows.with_gap(Time.milliseconds(220)))
        .reduce(summed)
        .uid("sessions")
        .map(lambda each: f"session {each[0]} {each[1]}"),
        pairs.window(TumblingEventTimeWindows.of(Time.milliseconds(400)))
        .reduce(summed)
        .uid("tumbling")
        .map(lambda each: f"window {each[0]} {each[1]}"),
        keyed.connect(pairs).process(Both(), Types.STRING()).uid("both"),
        keyed.connect(limits).process(Above(), Types.STRING()).uid("above"),
    ]
    return lines[0].union(*lines[1:]).execute_and_collect("former")


def restored(archive: Path) -> None:
    """Put the job's folder of an archive in its place; its files are new ones, of now."""
    shutil.rmtree(PLACE, ignore_errors=True)
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(PLACE)


def expected_of(archive: Path) -> list[str]:
    """What came after it, sorted."""
    with zipfile.ZipFile(archive) as packed:
        return packed.read("outputs").decode().splitlines()


def outputs_after(backend: str) -> list[str]:
    """What the job gives that goes on from the folder that is there, sorted."""
    try:
        return sorted(collected(backend))
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)


def main(folder: Path) -> None:
    """Write what the pyflinklike that is imported makes of the job."""
    from pyspark.sql import SparkSession
    from surroundings import SPARK_SETTINGS

    folder.mkdir(parents=True, exist_ok=True)
    SparkSession.builder.master("local[2]").config(map=SPARK_SETTINGS).getOrCreate()
    for backend in BACKENDS:
        shutil.rmtree(PLACE, ignore_errors=True)
        found = collected(backend)
        for _ in range(KEEPS):
            next(found)
        found.close()
        archive = folder / f"job-{backend}.zip"
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(PLACE.rglob("*")):
                packed.write(path, path.relative_to(PLACE))
        with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("outputs", "\n".join(outputs_after(backend)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
