# SPDX-License-Identifier: Apache-2.0
"""What the tests of faults share: `Ledger` over files, and an exactly-once sink.

place = Place(tmp_path)
place.feed(*batches)                           # one file is one micro-batch
write(ledger(spark, place, backend), place)    # until all is read
assert golden(batches) == place.sunk()
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fault_ledger import OUTPUT, Batch, Ledger, await_that
from fault_processors import Counting, hosted_by
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from spark_support import at

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.spark import key_by

SCHEMA = "key string, ts timestamp, n long, fault string"
KEY_GROUPS = 6
_ARROW = pa.schema(
    [
        ("key", pa.string()),
        ("ts", pa.timestamp("us", tz="UTC")),
        ("n", pa.int64()),
        ("fault", pa.string()),
    ]
)


def end_keepers(local: Path) -> None:
    """Kill the keepers that have files open in a local directory, as the end of their executor does."""

    def kill(process: Path) -> bool:
        opened = {os.readlink(each) for each in (process / "fd").iterdir()}
        if not any(each.startswith(f"{local}/") for each in opened):
            return False
        os.kill(int(process.name), signal.SIGKILL)
        return True

    def are_there() -> list[Path]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if kill(process):
                    found.append(process)
        return found

    await_that(lambda: not are_there())


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

    def as_run(self, batches: Sequence[Batch]) -> list[Batch]:
        """The micro-batches that Spark made of these, as its checkpoint tells.

        A driver that is killed once its source has noted the next file, and before Spark has
        noted the batch, leaves two files to the next batch.
        """
        numbers: dict[str, int] = {}
        for log in (self.checkpoint / "sources" / "0").glob("[0-9]*"):
            for line in log.read_text().splitlines()[1:]:
                entry = json.loads(line)
                numbers[Path(entry["path"]).stem] = entry["batchId"]
        ends = {}
        for log in (self.checkpoint / "offsets").glob("[0-9]*"):
            ends[int(log.name)] = json.loads(log.read_text().splitlines()[-1])["logOffset"]
        run, last = [], -1
        for _, end in sorted(ends.items()):
            files = [int(name) for name, number in numbers.items() if last < number <= end]
            run.append([record for file in sorted(files) for record in batches[file]])
            last = end
        return run

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
    """The backend "heap", or "rocksdb" with its files in the place, or "rocksdb of the executor"."""
    if name == "heap":
        return HashMapStateBackend()
    backend = EmbeddedRocksDBStateBackend()
    if name == "rocksdb":
        backend.set_db_storage_paths(str(place.local))
    return backend
