# SPDX-License-Identifier: Apache-2.0
"""Frames of what the sources of a job give.

A row names a part of a source, which the task that gets it reads, or it has elements in it.  A
batch has all parts.  A stream is a folder of files of such rows, a file for each micro-batch: its
order is that of their times.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.graph.job import JobSettings
from pyflinklike.graph.nodes import FromSource
from pyflinklike.spark.jobs.frames import DataFrameSource
from pyflinklike.spark.jobs.tasks import SOURCE_TYPE
from pyflinklike.spark.wire.parcels import dumped

__all__ = ["SOURCE_SCHEMA", "batch_frame", "micro_batches", "stream_frame"]

SOURCE_SCHEMA = pa.schema(
    [
        ("source", pa.int32()),
        ("split", pa.int32()),
        ("splits", pa.int32()),
        ("elements", pa.binary()),
        ("is_last", pa.bool_()),
    ]
)
"""`SOURCE_TYPE` as Arrow's."""
_ELEMENTS_OF_A_ROW = 10_000
_FIRST_TIME = 1_000_000_000
"""When the first file was written, in seconds: files are read in the order of their times."""


def batch_frame(spark: SparkSession, node: FromSource, settings: JobSettings) -> DataFrame:
    """All parts of a source, a task each; a DataFrame as it is.

    Args:
        spark: The session.
        node: Of the source.
        settings: Of the job.
    """
    if isinstance(node.source, DataFrameSource):
        assert node.source.df is not None
        return node.source.df
    count = _splits(node, settings)
    parts = spark.range(0, count, 1, count)
    return parts.select(
        F.lit(node.id).alias("source"),
        F.col("id").cast("int").alias("split"),
        F.lit(count).alias("splits"),
        F.lit(None).cast("binary").alias("elements"),
        F.lit(True).alias("is_last"),
    )


def stream_frame(
    spark: SparkSession, node: FromSource, settings: JobSettings, folder: Path
) -> DataFrame:
    """A source as a stream; a streaming DataFrame as it is.

    Args:
        spark: The session.
        node: Of the source.
        settings: Of the job: with `records_per_batch` a micro-batch has so many elements, else
            all are in one.
        folder: For the files, empty.
    """
    if isinstance(node.source, DataFrameSource) and not node.source.is_bounded:
        assert node.source.df is not None
        return node.source.df
    folder.mkdir(parents=True)
    for number, rows in enumerate(micro_batches(node, settings)):
        _write(rows, folder, number)
    stream = spark.readStream.schema(SOURCE_TYPE).option("maxFilesPerTrigger", 1)
    frame = stream.parquet(str(folder))
    count = _splits(node, settings)
    return frame.repartition(count) if settings.records_per_batch is None and count > 1 else frame


def micro_batches(node: FromSource, settings: JobSettings) -> Iterator[list[dict[str, Any]]]:
    """The rows of each micro-batch of a source, of type `SOURCE_TYPE`.

    Args:
        node: Of the source.
        settings: Of the job.
    """
    limit, count = settings.records_per_batch, _splits(node, settings)
    if limit is not None:
        return _cut(node, count, limit)
    return _whole(node, count) if node.source.is_read_anywhere else _read_here(node)


def _splits(node: FromSource, settings: JobSettings) -> int:
    return node.source.parallelism or node.parallelism or settings.parallelism or 1


def _whole(node: FromSource, count: int) -> Iterator[list[dict[str, Any]]]:
    """One micro-batch with all parts."""
    yield [_row(node, split, count, None, is_last=True) for split in range(count)]


def _read_here(node: FromSource) -> Iterator[list[dict[str, Any]]]:
    """One micro-batch of all elements, and one for the end."""
    elements = node.source.read(0, 1)
    some = iter(lambda: list(islice(elements, _ELEMENTS_OF_A_ROW)), [])
    yield [_row(node, 0, 1, dumped(each), is_last=False) for each in some]
    yield [_row(node, 0, 1, dumped([]), is_last=True)]


def _cut(node: FromSource, count: int, limit: int) -> Iterator[list[dict[str, Any]]]:
    """Micro-batches of elements, and one for the end."""
    elements = (each for split in range(count) for each in node.source.read(split, count))
    while some := list(islice(elements, limit)):
        yield [_row(node, 0, 1, dumped(some), is_last=False)]
    yield [_row(node, 0, 1, dumped([]), is_last=True)]


def _row(
    node: FromSource, split: int, splits: int, elements: bytes | None, *, is_last: bool
) -> dict[str, Any]:
    return {
        "source": node.id,
        "split": split,
        "splits": splits,
        "elements": elements,
        "is_last": is_last,
    }


def _write(rows: list[dict[str, Any]], folder: Path, number: int) -> None:
    """Write the file of a micro-batch; Spark sees it when it has its time."""
    hidden = folder / f".{number:010}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SOURCE_SCHEMA), hidden)
    os.utime(hidden, (_FIRST_TIME + number, _FIRST_TIME + number))
    hidden.rename(folder / f"{number:010}.parquet")
