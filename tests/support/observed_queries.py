# SPDX-License-Identifier: Apache-2.0
"""Queries to be watched: a healthy one, and one with each sickness that the alerts know.

    python tests/support/observed_queries.py tests/monitoring/recorded [query ...]

runs them on Spark and writes what a listener was told, a file for each query.  What depends on the
machine (times, durations) is as it was.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from spark_support import Feed, pickle_by_value
from surroundings import SPARK_SETTINGS

from pyflinklike import (
    DeadLetters,
    HashMapStateBackend,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import connect, key_by, main_output

__all__ = ["SCHEMA", "Watched", "watched"]

SCHEMA = "key string, ts timestamp, n int"
BATCHES, GROUPS = 8, 32
_FAST = 0.2
_WAIT = 120

pickle_by_value(__name__)


class Watched(KeyedCoProcessFunction):
    """Uses all that is exported: two inputs, a TTL, a timer, and metrics of every kind."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("total", Types.LONG())
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(150_000).use_event_time().build())
        self.total = runtime_context.get_state(descriptor)
        metrics = runtime_context.get_metrics_group()
        self.seen = metrics.counter("seen")
        self.open_ones = metrics.counter("open")
        self.sizes = metrics.add_group("of").distribution("sizes")
        metrics.gauge("seven", lambda: 7)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.seen.inc()
        self.sizes.update(value.n)
        self.total.update((self.total.value() or 0) + value.n)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
        yield value.key, self.total.value()

    def process_element2(self, value: Any, ctx: Any) -> Any:
        self.open_ones.dec()
        yield value.key, self.total.value() or 0

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), -1


def watched(first: DataFrame, second: DataFrame, max_parallelism: int = GROUPS) -> DataFrame:
    """The two inputs, watched."""
    connected = connect(first, second).key_by("key")
    times: Any = {"event_time": ("ts", "ts"), "max_parallelism": max_parallelism}
    return connected.process(Watched(), "key string, total long", uid="watched", **times)


class Counting(KeyedProcessFunction):
    """How often a key came; n below 0 raises.

    Args:
        ttl: Of the count; None keeps it for ever.
        seconds: How long the work for a record takes.
    """

    def __init__(self, ttl: StateTtlConfig | None = None, seconds: float = 0.0) -> None:
        self.ttl, self.seconds = ttl, seconds

    def open(self, runtime_context: Any) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        time.sleep(self.seconds)
        if value.n < 0:
            raise ValueError(value.n)
        self.count.update((self.count.value() or 0) + 1)
        yield value.key, self.count.value()


Rows = list[tuple[Any, ...]]


class _Recorder(StreamingQueryListener):
    """Keeps what it is told, as JSON."""

    def __init__(self) -> None:
        self.told: dict[str, list[dict[str, Any]]] = {}
        self.names: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:
        self.names[str(event.id)] = event.name
        own = {"id": str(event.id), "runId": str(event.runId), "name": event.name}
        self.told[event.name] = [{"started": {**own, "timestamp": event.timestamp}}]

    def onQueryProgress(self, event: Any) -> None:
        progress = json.loads(event.progress.json)
        progress["sources"] = []
        for each in progress["stateOperators"]:
            each["customMetrics"] = {}
        self.told[event.progress.name].append({"progress": progress})

    def onQueryTerminated(self, event: Any) -> None:
        own = {"id": str(event.id), "runId": str(event.runId)}
        first_line = None if event.exception is None else event.exception.splitlines()[0]
        ended = {**own, "exception": first_line, "errorClassOnException": None}
        self.told[self.names[str(event.id)]].append({"terminated": ended})


def _record(folder: Path, names: Sequence[str]) -> None:
    builder = SparkSession.builder.master("local[2]").config(map=SPARK_SETTINGS)
    with tempfile.TemporaryDirectory() as scratch:
        spark = builder.config("spark.sql.warehouse.dir", f"{scratch}/warehouse").getOrCreate()
        recorder = _Recorder()
        spark.streams.addListener(recorder)
        for name in names:
            began = time.monotonic()
            QUERIES[name](spark, name, Path(scratch) / name)
            told = recorder.told[name]
            while "terminated" not in told[-1]:
                assert time.monotonic() - began < _WAIT, name
                time.sleep(_FAST)
            (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in told))
            print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)  # noqa: T201
        spark.stop()


def _instant(batch: int) -> dt.datetime:
    """A time of a micro-batch: a minute to each."""
    now = dt.datetime.now(dt.timezone.utc).replace(tzinfo=None, microsecond=0)
    return now + dt.timedelta(minutes=batch - BATCHES)


def _same_keys(batch: int) -> Rows:
    return [(f"k{n}", _instant(batch), n) for n in range(200)]


def _new_keys(batch: int) -> Rows:
    return [(f"k{batch}-{n}", _instant(batch), n) for n in range(200)]


def _more_keys(batch: int) -> Rows:
    return [(f"k{batch}-{n}", _instant(batch), n) for n in range(200 * (batch + 1))]


def _one_key(batch: int) -> Rows:
    return [(f"k{n if n % 20 == 0 else 1}", _instant(batch), n) for n in range(4_000)]


def _some_bad(batch: int) -> Rows:
    return [(f"k{n}", _instant(batch), -1 if n == batch > 3 else n) for n in range(50)]


def _feed(spark: SparkSession, folder: Path, rows: Callable[[int], Rows]) -> DataFrame:
    feed = Feed(spark, folder, SCHEMA)
    feed.add(*map(rows, range(BATCHES)))
    return feed.stream()


def _run(df: DataFrame, name: str, folder: Path, **trigger: Any) -> None:
    """Run a query until it has read all there is, or has failed."""
    writer = df.writeStream.format("noop").queryName(name)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(**(trigger or {"availableNow": True})).start()
    if trigger:
        for _ in range(_WAIT):
            query.awaitTermination(1)
            if sum(each.numInputRows > 0 for each in query.recentProgress) >= BATCHES:
                break
        query.stop()
        return
    try:
        query.awaitTermination(_WAIT)
    except Exception as failure:
        print(name, type(failure).__name__, file=sys.stderr)  # noqa: T201


def _count(
    rows: Callable[[int], Rows], *, function: Callable[[], Any] = Counting, **options: Any
) -> Callable[[SparkSession, str, Path], None]:
    trigger = options.pop("trigger", {})

    def run(spark: SparkSession, name: str, folder: Path) -> None:
        df = _feed(spark, folder / "input", rows)
        counted = key_by(df, "key").process(
            *(function(), "key string, count long"),
            **{"event_time": "ts", "max_parallelism": GROUPS, "uid": "count", **options},
        )
        _run(main_output(counted) if "on_error" in options else counted, name, folder, **trigger)

    return run


def _two(second: Callable[[int], Rows] | None) -> Callable[[SparkSession, str, Path], None]:
    def run(spark: SparkSession, name: str, folder: Path) -> None:
        one = _feed(spark, folder / "first", _same_keys)
        two = Feed(spark, folder / "second", SCHEMA)
        if second is not None:
            two.add(*map(second, range(BATCHES)))
        _run(watched(one, two.stream()), name, folder)

    return run


_HOUR = StateTtlConfig.new_builder(150_000).use_event_time()
_DEAD = OutputTag("dead")
QUERIES: Mapping[str, Callable[[SparkSession, str, Path], None]] = {
    "healthy": _two(_same_keys),
    # Each micro-batch brings more keys than what expires meanwhile.
    "grows": _count(_more_keys, function=lambda: Counting(_HOUR.build())),
    "cleans-nothing": _count(
        _new_keys, function=lambda: Counting(_HOUR.disable_cleanup_in_background().build())
    ),
    # The watermark is that of the slower input, and the second one brings nothing.
    "stands-still": _two(None),
    "skewed": _count(_one_key),
    "cold": _count(_same_keys, state_backend=HashMapStateBackend(max_warm_bytes=1)),
    "dead-letters": _count(_some_bad, on_error=DeadLetters(_DEAD, at_most=5, per="batch")),
    "slow": _count(
        lambda batch: _same_keys(batch)[:20],
        function=lambda: Counting(seconds=0.01),
        trigger={"processingTime": f"{_FAST} seconds"},
    ),
    "fails": _count(_some_bad),
}


def main(arguments: Sequence[str]) -> None:
    """Record queries."""
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    _record(folder, arguments[1:] or list(QUERIES))


if __name__ == "__main__":
    main(sys.argv[1:])
