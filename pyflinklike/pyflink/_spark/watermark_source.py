# SPDX-License-Identifier: Apache-2.0
"""The source that brings Spark the watermark of the driver: its offset is that watermark.

A new watermark is a new offset, so Spark begins a micro-batch for it, and the one row of that micro-batch carries
the watermark.  If key groups must be called for processing-time timers, the offset also has the time.  Then
Spark has a micro-batch at every trigger, and its row calls all key groups.

This module cannot be imported on PySpark 3.5, which has no data sources in Python.  Jobs in streaming mode need
PySpark 4 anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from pyflinklike._clock import MIN_WATERMARK, wall_clock
from pyflinklike.pyflink._spark.watermark_feed import MARKED_SCHEMA, mark_row, mark_rows
from pyflinklike.spark._host.worker_errors import report_errors_of_each
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.stage_records import CALL
from pyflinklike.state_processor._folders.folder_paths import read_json

Calls = Sequence[tuple[int, int]]
"""Operator indexes, each with the number of key groups of the operator."""

_FORMAT = "pyflinklike_watermark"


class WatermarkSource(DataSource):
    """A source of Spark that reads the watermark in a file again and again.

    Options: `path` of the file, and `ticks` for an offset that also has the time.
    """

    @classmethod
    def name(cls) -> str:
        """Return the argument of `format(...)`."""
        return _FORMAT

    def schema(self) -> str:
        """Return the only column."""
        return "milliseconds long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Make the reader of the file."""
        return _WatermarkReader(Path(self.options["path"]), ticks="ticks" in self.options)


class _Watermark(InputPartition):
    """One row with a watermark, in ms."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__(None)
        self.milliseconds = milliseconds


class _WatermarkReader(DataSourceStreamReader):
    def __init__(self, path: Path, *, ticks: bool = False) -> None:
        self._path, self._ticks = path, ticks

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"watermark": MIN_WATERMARK}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        noted = read_json(self._path)
        offset = {"watermark": MIN_WATERMARK if noted is None else noted["watermark"]}
        return {**offset, "tick": wall_clock()} if self._ticks else offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        # A restarted query asks for the offsets in its log again, and gets the same row.
        return [] if start == end else [_Watermark(end["watermark"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, _Watermark)
        yield (partition.milliseconds,)


def watermark_frame(spark: SparkSession, path: Path, calls: Calls = ()) -> DataFrame:
    """Return the watermark of a file as rows of the first stage, of `MARKED_SCHEMA`.

    Args:
        spark: The session that runs the job.
        path: The path of the file, on the driver's machine.
        calls: The indexes of the operators whose key groups are called at every trigger, with the numbers
            of their key groups.
    """
    spark.dataSource.register(WatermarkSource)
    reading = spark.readStream.format(_FORMAT).option("path", str(path))
    if calls:
        reading = reading.option("ticks", "true")
    marking = report_errors_of_each(partial(_mark, tuple(calls)))
    return reading.load().mapInArrow(marking, MARKED_SCHEMA.ddl)


def _mark(calls: Calls, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make rows with the watermark, and rows that call key groups, for `mapInArrow`."""
    for batch in batches:
        for milliseconds in batch.column("milliseconds").to_pylist():
            yield mark_row(milliseconds)
            for place, count in calls:
                yield mark_rows([(each, -1, CALL) for each in group_ids(count, place)], None)
