# SPDX-License-Identifier: Apache-2.0
"""What the tests of faults share.

A function that shows every lost or doubled record, its plain-Python model, its input as files,
and an exactly-once sink:

    place = Place(tmp_path)
    place.feed(*batches)                           # one file is one micro-batch
    write(ledger(spark, place, backend), place)    # until all is read
    assert golden(batches) == place.sunk()

A record may name a fault, which its function lets happen when it meets the record:

    kill:<id>:<times>   the worker is killed, the first so many times, once the task has committed
                        a key group and is in the middle of another
    fill:<id>:<path>    the disk under a path is filled, once, likewise
    race:<id>:<winner>  two attempts of the task wait for each other; then the "first", the
                        "second" or "both" go on, and one that shall lose waits to be killed
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from fault_processors import Counting, hosted_by
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_support import at, pickle_by_value

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.backends.base import StateBackend
from pyflinklike.spark import key_by

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n long, fault string"
OUTPUT = "key string, what string, count long, state string"
KEY_GROUPS = 6
_ARROW = pa.schema(
    [
        ("key", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("n", pa.int64()),
        ("fault", pa.string()),
    ]
)
_WINDOW = 100
_FIRST_TIMES = 1_000_000
_POLL_SECONDS = 0.02
_PATIENCE = 120


class Record(NamedTuple):
    """A record: key, time in ms, number, and the fault it brings."""

    key: str
    ts: int
    n: int
    fault: str = ""


Batch = list[Record]


def batches_of(seed: int, count: int, size: int = 60) -> list[Batch]:
    """Random micro-batches in which every key comes again and again."""
    random = Random(seed)
    return [
        [
            Record(
                f"key {random.randrange(12)}",
                _FIRST_TIMES + number * _WINDOW + random.randrange(-_WINDOW // 2, _WINDOW),
                random.randrange(100),
            )
            for _ in range(size)
        ]
        for number in range(count)
    ]


def with_fault(batch: Batch, fault: str, key: str | None = None) -> Batch:
    """The batch with a fault in every record, or in every one of a key."""
    return [
        record._replace(fault=fault) if key in (None, record.key) else record for record in batch
    ]


# The function, and the same in plain Python


class Ledger(KeyedProcessFunction):
    """Counts and sums per key, in four kinds of state and a timer; its rows show all of them.

    Args:
        markers: A directory that remembers which faults have struck.
    """

    groups_done = met = 0
    """Of this task: the processor of the test counts them."""

    def __init__(self, markers: Path) -> None:
        self.markers = markers

    def open(self, runtime_context):
        self.attempt = runtime_context.get_attempt_number()
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.total = runtime_context.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, Types.LONG())
        )
        self.parts = runtime_context.get_list_state(ListStateDescriptor("parts", Types.LONG()))
        self.marks = runtime_context.get_map_state(
            MapStateDescriptor("marks", Types.STRING(), Types.LONG())
        )

    def process_element(self, value, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.total.add(value.n)
        if count % 6 == 0:
            self.parts.clear()
        self.parts.add(value.n)
        if value.n % 4:
            self.marks.put(f"m{value.n % 4}", count)
        else:
            self.marks.remove("m1")
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + value.n)
        self.met += 1
        if value.fault and self.groups_done and self.met > 1:
            self._meet(*value.fault.split(":"))
        yield self._row(f"record {value.n}", ctx, count)

    def on_timer(self, timestamp, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        self.marks.put("timer", timestamp)
        yield self._row(f"timer {timestamp}", ctx, count)

    def _row(self, what, ctx, count):
        state = self.total.get(), list(self.parts.get()), sorted(self.marks.items())
        return ctx.get_current_key(), what, count, repr(state)

    def _meet(self, kind, name, detail):
        if kind == "kill":
            if any(_first(self.markers / f"{name}.{time}") for time in range(int(detail))):
                os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "fill":
            if _first(self.markers / name):
                fill_disk(Path(detail))
        else:
            me, other = ("second", "first") if self.attempt else ("first", "second")
            _first(self.markers / f"{name}.{me}")
            await_that((self.markers / f"{name}.{other}").exists)
            if detail != "both" and detail != me:
                await_that(lambda: False)  # until Spark kills the attempt that lost


def golden(batches: Iterable[Batch]) -> list[tuple[Any, ...]]:
    """What `Ledger` must have put out after these batches, by plain Python; sorted."""
    rows: list[tuple[Any, ...]] = []
    counts: dict[str, int] = defaultdict(int)
    totals: dict[str, int] = defaultdict(int)
    parts: dict[str, list[int]] = defaultdict(list)
    marks: dict[str, dict[str, int]] = defaultdict(dict)
    timers: set[tuple[int, str]] = set()
    watermark = 0

    def put_out(key: str, what: str) -> None:
        state = totals[key], parts[key], sorted(marks[key].items())
        rows.append((key, what, counts[key], repr(state)))

    def fire() -> None:
        for due in sorted(timer for timer in timers if timer[0] <= watermark):
            timers.discard(due)
            timestamp, key = due
            counts[key] += 1
            marks[key]["timer"] = timestamp
            put_out(key, f"timer {timestamp}")

    for batch in [*batches, []]:
        fire()
        for key, ts, n, _ in sorted(batch, key=lambda record: record.ts):
            counts[key] += 1
            totals[key] += n
            if counts[key] % 6 == 0:
                parts[key] = []
            parts[key].append(n)
            if n % 4:
                marks[key][f"m{n % 4}"] = counts[key]
            else:
                marks[key].pop("m1", None)
            timers.add((ts + n, key))
            put_out(key, f"record {n}")
        fire()
        watermark = max([watermark, *(record.ts for record in batch)])
    return sorted(rows)


# Faults


def _first(marker: Path) -> bool:
    """Whether nobody was here before, in any process."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def await_that(condition) -> None:
    """Poll until something is so; an error where it never is."""
    end = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("never happened")
        time.sleep(_POLL_SECONDS)


def fill_disk(directory: Path) -> None:
    """Leave not a byte free where a directory lies; `free_disk` undoes it."""
    with (directory / "ballast").open("ab", buffering=0) as ballast:
        for size in (65_536, 4_096, 1):
            with contextlib.suppress(OSError):
                while ballast.write(bytes(size)):
                    pass


def free_disk(directory: Path) -> None:
    """Give back what `fill_disk` took."""
    (directory / "ballast").unlink()


# Streams


class Place:
    """The directories of one query: input, checkpoint, sink, local disk, markers."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.input, self.checkpoint = root / "input", root / "checkpoint"
        self.output, self.local, self.markers = root / "output", root / "local", root / "markers"
        for directory in (self.input, self.output, self.local, self.markers):
            directory.mkdir(parents=True, exist_ok=True)

    def feed(self, *batches: Batch) -> None:
        """Append micro-batches, a file each."""
        for batch in batches:
            number = len(list(self.input.glob("*.parquet")))
            rows = [{**record._asdict(), "ts": at(record.ts)} for record in batch]
            # Spark reads the oldest file first, and must not see one half-written.
            written = self.input / f"_{number:04}"
            pq.write_table(pa.Table.from_pylist(rows, _ARROW), written)
            os.utime(written, (1_700_000_000 + number,) * 2)
            written.rename(self.input / f"{number:04}.parquet")

    def entries(self, log: str) -> int:
        """How many entries a log of the checkpoint ("offsets", "commits") or the sink has."""
        directory = self.output if log == "sink" else self.checkpoint / log
        with contextlib.suppress(FileNotFoundError):
            return sum(name[0].isdigit() for name in os.listdir(directory))
        return 0

    def keep(self, batch: DataFrame, batch_id: int) -> None:
        """The sink, exactly once: a file per batch number, which is there as a whole or not at all."""
        rows = json.dumps(sorted(tuple(row) for row in batch.collect()))
        file = self.output / f"{batch_id:04}"
        if file.exists():
            if file.read_text() != rows:
                raise AssertionError(f"batch {batch_id} was repeated and gave other rows")
            return
        with (self.output / f"_{batch_id:04}").open("w") as written:
            written.write(rows)
            written.flush()
            os.fsync(written.fileno())
        Path(written.name).rename(file)

    def sunk(self) -> list[tuple[Any, ...]]:
        """The rows in the sink; sorted."""
        files = self.output.glob("[0-9]*")
        return sorted(tuple(row) for file in files for row in json.loads(file.read_text()))


def ledger(
    spark: SparkSession, place: Place, backend: StateBackend, addition: type = Counting
) -> DataFrame:
    """`Ledger` over the input of a place; for `addition` see fault_processors."""
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    stream = key_by(reader.parquet(str(place.input)), "key")
    with hosted_by(addition):
        return stream.process(
            Ledger(place.markers),
            OUTPUT,
            event_time="ts",
            state_backend=backend,
            max_parallelism=KEY_GROUPS,
            uid="ledger",
        )


def write(rows: DataFrame, place: Place, **trigger: Any) -> StreamingQuery:
    """Start writing to the sink, by default until all input is read."""
    writer = rows.writeStream.foreachBatch(place.keep)
    # Not Spark's file sink: where it knows a repeated batch it does not run it, and the watermark
    # of the next one lags behind what it would have been.
    writer = writer.option("checkpointLocation", str(place.checkpoint))
    return writer.trigger(**trigger or {"availableNow": True}).start()


def backend_of(name: str, place: Place) -> StateBackend:
    """The backend "heap", or "rocksdb" with its files in the place."""
    if name == "heap":
        return HashMapStateBackend()
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths(str(place.local))
    return backend
