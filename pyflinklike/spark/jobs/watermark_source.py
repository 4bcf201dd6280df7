# SPDX-License-Identifier: Apache-2.0
"""The source that brings Spark the watermark which the driver has made: its offset is that watermark.

This module cannot be imported on PySpark 3.5, which has no sources in Python and runs no job in
streaming mode, but those in batch mode.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from pyflinklike.engine.clock import MIN_WATERMARK
from pyflinklike.engine.graph.durable_files import read_json
from pyflinklike.spark.host.python_stage import tell_errors_of_each
from pyflinklike.spark.jobs.watermark_feed import MARKED_SCHEMA, mark_row

__all__ = ["WatermarkSource", "watermark_frame"]

_FORMAT = "pyflinklike_watermark"


class WatermarkSource(DataSource):
    """A source of Spark that reads the watermark of a file again and again; option `path`."""

    @classmethod
    def name(cls) -> str:
        """Return the argument of `format(...)`."""
        return _FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return "milliseconds long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """Make the reader of the file."""
        return _Reader(Path(self.options["path"]))


class _Watermark(InputPartition):
    """One row with a watermark, in ms."""

    def __init__(self, milliseconds: int) -> None:
        super().__init__(None)
        self.milliseconds = milliseconds


class _Reader(DataSourceStreamReader):
    def __init__(self, path: Path) -> None:
        self._path = path

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        return {"watermark": MIN_WATERMARK}

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        noted = read_json(self._path)
        return {"watermark": MIN_WATERMARK if noted is None else noted["watermark"]}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [] if start == end else [_Watermark(end["watermark"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        assert isinstance(partition, _Watermark)
        yield (partition.milliseconds,)


def watermark_frame(spark: SparkSession, path: Path) -> DataFrame:
    """Return the watermark of a file as rows of the first stage, of `MARKED_SCHEMA`."""
    spark.dataSource.register(WatermarkSource)
    reading = spark.readStream.format(_FORMAT).option("path", str(path))
    return reading.load().mapInArrow(tell_errors_of_each(_mark), MARKED_SCHEMA.ddl)


def _mark(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for milliseconds in batch.column("milliseconds").to_pylist():
            yield mark_row(milliseconds)
