# SPDX-License-Identifier: Apache-2.0
"""Frames of what the sources of a job give.

A row names a part of a source, which the task that gets it reads, or it has elements in it.  A
batch has all parts.  A stream is a folder of files of such rows, in the order of their times: of a
bounded source a file for each micro-batch, of one that looks for parts a file for each discovery.

Spark notes which of these files it has read.  They are written once and stay, so what a micro-batch
reads is the same when it is run again, and a part that is gone is an error and no silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.engine.graph.job import JobSettings
from pyflinklike.engine.graph.nodes import FromSource
from pyflinklike.engine.graph.sources import Source
from pyflinklike.spark.jobs.data_frame_source import FrameSource, frame_source
from pyflinklike.spark.jobs.durable_files import read_json, rename_durably, write_json
from pyflinklike.spark.jobs.stage_task import SOURCE_SCHEMA
from pyflinklike.spark.wire.parcels import dumped

__all__ = ["StreamSource", "batch_frame", "micro_batches"]

_ELEMENTS_OF_A_ROW = 10_000
_FIRST_TIME = 1_000_000_000
"""When the first file was written, in seconds: files are read in the order of their times."""
_BEGINNING = "_beginning.json"
"""There is what a stream needs to know from its beginning."""
_COMPLETE = "_begun"
"""There once what a source gives from the beginning is written; Spark does not read it."""


def batch_frame(spark: SparkSession, node: FromSource, settings: JobSettings) -> DataFrame:
    """All parts of a source, a task each; a DataFrame as it is.

    Args:
        spark: The session.
        node: Of the source.
        settings: Of the job.
    """
    frame = frame_source(node.source, is_streaming=False)
    if frame is not None:
        return frame.frame(spark, None, None)
    if node.source.is_in_parts:
        rows = [tuple(row.values()) for row in _named(node, node.source.parts(), is_last=False)]
        parts = spark.createDataFrame(rows, SOURCE_SCHEMA.ddl)
        asked = _asked(node, settings)
        return parts if asked is None else parts.coalesce(asked)
    count = _splits(node, settings)
    parts = spark.range(0, count, 1, count)
    return parts.select(
        F.lit(node.id).alias("source"),
        F.col("id").cast("int").alias("split"),
        F.lit(count).alias("splits"),
        F.lit(None).cast("string").alias("part"),
        F.lit(None).cast("binary").alias("elements"),
        F.lit(True).alias("is_last"),
    )


class StreamSource:
    """A source as files that a stream reads; a streaming DataFrame as it is.

    Args:
        node: Of the source.
        settings: Of the job: with `records_per_batch` a micro-batch of a bounded source has so many
            elements, else all are in one; `files_per_batch` is that of one that looks for parts.
        folder: For the files.
    """

    def __init__(self, node: FromSource, settings: JobSettings, folder: Path) -> None:
        self._node, self._settings, self._folder = node, settings, folder
        self._known: set[str] = set()
        self._next, self._due = 0, 0
        self._streamed = frame_source(node.source, is_streaming=True)
        folder.mkdir(parents=True, exist_ok=True)
        if self._streamed is not None:
            self._beginning = self._noted(self._streamed)
        elif (folder / _COMPLETE).exists():
            self._go_on()
        else:
            self._begin()

    def look(self, now: int) -> None:
        """See whether there are new parts, if it is time to.

        Args:
            now: In ms.

        Raises:
            HostError: The source is not there any more.
        """
        interval = self._node.source.discovery_milliseconds
        if interval is None or now < self._due:
            return
        self._due = now + interval
        found = iter(self._node.source.discover(self._known))
        while some := list(islice(found, self._settings.files_per_batch)):
            self._add(_named(self._node, some, is_last=False))
            self._known.update(some)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The stream of type `SOURCE_SCHEMA`.

        Args:
            spark: The session.
        """
        source, settings = self._node.source, self._settings
        if self._streamed is not None:
            return self._streamed.frame(spark, self._beginning, settings.records_per_batch)
        stream = spark.readStream.schema(SOURCE_SCHEMA.ddl)
        is_discovered = source.discovery_milliseconds is not None
        if not is_discovered or settings.files_per_batch is not None:
            stream = stream.option("maxFilesPerTrigger", 1)
        # Another run may have given the node another number.
        frame = stream.parquet(str(self._folder)).withColumn("source", F.lit(self._node.id))
        default = spark.sparkContext.defaultParallelism if source.is_in_parts else 1
        count = _asked(self._node, settings) or default
        is_whole = is_discovered or settings.records_per_batch is None
        return frame.repartition(count) if is_whole and count > 1 else frame

    def _noted(self, source: FrameSource) -> str | None:
        """What a stream needs to know from its beginning: found out once, and noted."""
        noted = read_json(self._folder / _BEGINNING)
        if noted is None:
            noted = {"beginning": source.beginning()}
            write_json(self._folder / _BEGINNING, noted)
        found: str | None = noted["beginning"]
        return found

    def _begin(self) -> None:
        """Write what is there from the beginning; a killed driver may have begun with it."""
        if self._node.source.is_bounded:
            for rows in micro_batches(self._node, self._settings):
                self._add(rows)
        (self._folder / _COMPLETE).touch()

    def _go_on(self) -> None:
        """Find out what a former run has written.

        After a restart Spark runs a micro-batch only for new rows.  The one in which timers were to
        fire for the last watermark might never come, so there is a row without elements.
        """
        written = {int(path.stem): path for path in self._folder.glob("[0-9]*.parquet")}
        for number, path in written.items():
            _date(path, number)  # whoever copies a folder may make new files of it
        self._next = max(written, default=-1) + 1
        if written:
            parts = ds.dataset(self._folder, format="parquet").to_table(["part"])
            self._known.update(filter(None, parts.column("part").to_pylist()))
        self._add([_row(self._node, 0, 1, dumped([]), is_last=self._node.source.is_bounded)])

    def _add(self, rows: list[dict[str, Any]]) -> None:
        _write(rows, self._folder, self._next)
        self._next += 1


def micro_batches(node: FromSource, settings: JobSettings) -> Iterator[list[dict[str, Any]]]:
    """The rows of each micro-batch of a source, of type `SOURCE_SCHEMA`.

    Args:
        node: Of the source.
        settings: Of the job.
    """
    limit, count = settings.records_per_batch, _splits(node, settings)
    if limit is not None:
        return _cut(node, count, limit)
    if node.source.is_in_parts:
        return _of_parts(node)
    return _whole(node, count) if node.source.is_read_anywhere else _read_here(node)


def _asked(node: FromSource, settings: JobSettings) -> int | None:
    """How many tasks are to read a source; None where nobody says."""
    return node.source.parallelism or node.parallelism or settings.parallelism


def _splits(node: FromSource, settings: JobSettings) -> int:
    return _asked(node, settings) or 1


def _whole(node: FromSource, count: int) -> Iterator[list[dict[str, Any]]]:
    """One micro-batch with all parts."""
    yield [_row(node, split, count, None, is_last=True) for split in range(count)]


def _of_parts(node: FromSource) -> Iterator[list[dict[str, Any]]]:
    """One micro-batch of all parts, and one for the end: there may be no parts."""
    parts = node.source.parts()
    if parts:
        yield _named(node, parts, is_last=False)
    yield [_row(node, 0, 1, dumped([]), is_last=True)]


def _named(node: FromSource, parts: list[str], *, is_last: bool) -> list[dict[str, Any]]:
    """A row for each part."""
    return [{**_row(node, 0, 1, None, is_last=is_last), "part": each} for each in parts]


def _read_here(node: FromSource) -> Iterator[list[dict[str, Any]]]:
    """One micro-batch of all elements, and one for the end."""
    elements = node.source.read(0, 1)
    some = iter(lambda: list(islice(elements, _ELEMENTS_OF_A_ROW)), [])
    yield [_row(node, 0, 1, dumped(each), is_last=False) for each in some]
    yield [_row(node, 0, 1, dumped([]), is_last=True)]


def _cut(node: FromSource, count: int, limit: int) -> Iterator[list[dict[str, Any]]]:
    """Micro-batches of elements, and one for the end."""
    elements = _elements(node.source, count)
    while some := list(islice(elements, limit)):
        yield [_row(node, 0, 1, dumped(some), is_last=False)]
    yield [_row(node, 0, 1, dumped([]), is_last=True)]


def _elements(source: Source, count: int) -> Iterator[tuple[Any, int | None]]:
    """All elements, of parts that are listed once."""
    if source.is_in_parts:
        return chain.from_iterable(map(source.read_part, source.parts()))
    return chain.from_iterable(source.read(split, count) for split in range(count))


def _row(
    node: FromSource, split: int, splits: int, elements: bytes | None, *, is_last: bool
) -> dict[str, Any]:
    return {
        "source": node.id,
        "split": split,
        "splits": splits,
        "part": None,
        "elements": elements,
        "is_last": is_last,
    }


def _write(rows: list[dict[str, Any]], folder: Path, number: int) -> None:
    """Write the file of a micro-batch; Spark sees it when it has its time."""
    hidden = folder / f".{number:010}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SOURCE_SCHEMA.arrow), hidden)
    _date(hidden, number)
    rename_durably(hidden, folder / f"{number:010}.parquet")


def _date(path: Path, number: int) -> None:
    """Give a file its time; Spark forgets those that are a week older than the newest, and reads them anew."""
    os.utime(path, (_FIRST_TIME + number, _FIRST_TIME + number))
