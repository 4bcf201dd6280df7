# SPDX-License-Identifier: Apache-2.0
"""Brings the watermark that the driver has noted to Spark: a source whose offset is that watermark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.spark.hosts.telling import telling_each
from pyflinklike.spark.jobs.durable import read_json
from pyflinklike.spark.jobs.marked_rows import MARKED_TYPE, marked_row

__all__ = ["WatermarkSource", "watermark_frame"]

_FORMAT = "pyflinklike_watermark"


class WatermarkSource(DataSource):
    """The watermark in a file, again and again; option `path`."""

    @classmethod
    def name(cls) -> str:
        """What `format(...)` is told."""
        return _FORMAT

    def schema(self) -> str:
        """Of a row."""
        return "milliseconds long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's name
        """The reader."""
        return _Reader(Path(self.options["path"]))


class _Watermark(InputPartition):
    """One row.

    Args:
        milliseconds: The watermark.
    """

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
    """The watermark as rows of the first stage.

    Args:
        spark: The session.
        path: Of the file.
    """
    spark.dataSource.register(WatermarkSource)
    reading = spark.readStream.format(_FORMAT).option("path", str(path))
    return reading.load().mapInArrow(telling_each(_marked), MARKED_TYPE)


def _marked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for milliseconds in batch.column("milliseconds").to_pylist():
            yield marked_row(milliseconds)
