# SPDX-License-Identifier: Apache-2.0
"""A driver of a stream with dead letters, which a test may kill: one record in a hundred raises."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pyflinklike import (
    DeadLetters,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    Types,
    ValueStateDescriptor,
)

DEAD = OutputTag("dead")
KEYS = 2_003


def is_poison(number: int) -> bool:
    """Whether a record raises."""
    return number * 2_654_435_761 % 100 == 37


class Counts(KeyedProcessFunction):
    """Counts the records of a key; writes, registers and yields before it raises for some."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        if count % 50 == 0:
            self.last.clear()
        self.last.add(value.number)
        yield value.key, value.number, count
        if is_poison(value.number):
            raise ValueError(f"record {value.number} behind {count - 1}, last {list(self.last)}")


def write_input(directory: Path, records: int, files: int) -> None:
    """Write numbered records of `KEYS` keys, in files."""
    directory.mkdir(parents=True)
    each = records // files
    for number in range(files):
        numbers = list(range(number * each, (number + 1) * each))
        keys = [one * 7_919 % KEYS for one in numbers]
        table = pa.table(
            {"key": pa.array(keys, pa.int64()), "number": pa.array(numbers, pa.int64())}
        )
        pq.write_table(table, directory / f"{number:03}.parquet")


def main(root: Path) -> None:
    """Run the stream to the end of its input; each batch has a directory of its own in each sink."""
    from letters_driver import Counts as Imported  # as the workers import it
    from pyspark.sql import SparkSession

    from pyflinklike.spark import foreach_batch_output, key_by

    settings = json.loads(sys.argv[1])["settings"]
    builder = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    records = (
        spark.readStream.schema("key long, number long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(root / "input"))
    )
    counted = key_by(records, "key").process(
        Imported(),
        "key long, number long, count long",
        max_parallelism=8,
        on_error=DeadLetters(DEAD, at_most=0.05),
    )

    def write(name: str) -> Any:
        return lambda frame, batch: (
            frame.coalesce(1).write.mode("overwrite").parquet(str(root / name / str(batch)))
        )

    query = (
        counted.writeStream.foreachBatch(foreach_batch_output(write("main"), {DEAD: write("dead")}))
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(Path(json.loads(sys.argv[1])["root"]))
    os._exit(0)
