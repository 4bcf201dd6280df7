# SPDX-License-Identifier: Apache-2.0
"""The watermark of a job that leaves idle inputs out, or whose inputs have splits: the driver makes it.

Spark's watermark of a source is the greatest that any task has told.  Flink's is the least one of its
splits, such as the partitions of a topic, and of all sources; splits that have been silent for long are
left out.  So tasks tell the driver how far their splits have come, in parcels that pass through all
operators; the driver takes the least one, notes it, and a small source of its own brings it to Spark
with the next micro-batch.

Brings the watermark that the driver has noted to Spark: a source whose offset is that watermark.

Packed rows as Arrow, those of the first stage with the watermark that they make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from pyflinklike.engine.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.engine.graph.job import JobGraph
from pyflinklike.engine.graph.nodes import AssignTimestamps, FromSource
from pyflinklike.engine.graph.watermarks import WatermarkKind, WatermarkStrategy
from pyflinklike.spark.host.python_stage import telling_each
from pyflinklike.spark.jobs.data_frame_source import FrameSource
from pyflinklike.spark.jobs.durable_files import read_json, write_json
from pyflinklike.spark.jobs.stages import Stage, is_keyed, time_mode_of
from pyflinklike.spark.wire.key_groups import roll_call_of, roll_payload
from pyflinklike.spark.wire.own_columns import END_OF_INPUT
from pyflinklike.spark.wire.payloads import PACKED_SCHEMA

__all__ = [
    "MARKED_SCHEMA",
    "MARKS",
    "WATERMARK",
    "Mark",
    "WatermarkFeed",
    "WatermarkSource",
    "has_idleness",
    "marked",
    "marked_row",
    "needs_feed",
    "packed",
    "watermark_frame",
]


MARKS = 0
"""The number by which marks go to the driver; those of nodes begin with 1."""


class Mark(NamedTuple):
    """How far a split has come in a task.

    Args:
        source: The number of the node.
        split: Its name, the same in each run.
        watermark: That its elements make, in ms.
    """

    source: int
    split: str
    watermark: int


def _strategies(stage: Stage) -> Iterable[WatermarkStrategy]:
    """What the watermarks of the first stage follow."""
    for node in stage.graph.nodes.values():
        if isinstance(node, (FromSource, AssignTimestamps)):
            yield node.strategy


def has_idleness(stage: Stage) -> bool:
    """Whether a silent input is left out somewhere.

    Args:
        stage: The first one of a job.
    """
    return any(each.idleness is not None for each in _strategies(stage))


def needs_feed(graph: JobGraph, stage: Stage) -> bool:
    """Whether Spark alone would not make the watermark of a job.

    Args:
        graph: Of a job in streaming mode.
        stage: Its first one.
    """
    if graph.is_bounded or not stage.following or not time_mode_of(graph).passes_watermark:
        return False
    sources = [node.source for node in stage.graph.of_kind(FromSource)]
    has_splits = any(isinstance(each, FrameSource) and each.has_splits for each in sources)
    has_watermarks = any(each.kind is not WatermarkKind.NONE for each in _strategies(stage))
    return has_watermarks and (has_splits or has_idleness(stage))


@attrs.define
class _Split:
    """How far a split has come.

    Args:
        watermark: In ms.
        heard: When it gave something last, in ms of processing time.
    """

    watermark: int
    heard: int


class WatermarkFeed:
    """The least watermark of all inputs that are not idle, in a file.

    Args:
        path: Of the file.
        stage: The first one of the job.
        now: Processing time in ms: an input that gives nothing from now on is idle in time.

    Raises:
        CorruptStateError: The file is damaged.
    """

    def __init__(self, path: Path, stage: Stage, now: int) -> None:
        self.path, self._began = path, now
        numbers = [node.id for node in stage.graph.of_kind(FromSource)]
        # Another run of the program may number its nodes otherwise.
        self._position = {number: position for position, number in enumerate(numbers)}
        parts = [stage.reached_from(number) for number in numbers]
        self._idleness = [_idleness_of(part) for part in parts]
        self._is_heeded = [any(map(is_keyed, part.graph.nodes.values())) for part in parts]
        found = read_json(path) or {"watermark": MIN_WATERMARK, "splits": []}
        self._watermark: int = found["watermark"]
        self._splits: list[dict[str, _Split]] = [{} for _ in numbers]
        for position, split, watermark in found["splits"]:
            self._splits[position][split] = _Split(watermark, now)
        write_json(path, self._contents())

    def note(self, marks: Iterable[Mark], now: int) -> None:
        """Splits have come so far.

        Args:
            marks: Of a micro-batch, which may be run again.
            now: In ms.
        """
        for mark in marks:
            splits = self._splits[self._position[mark.source]]
            known = splits.setdefault(mark.split, _Split(mark.watermark, now))
            known.watermark, known.heard = max(known.watermark, mark.watermark), now

    def tell(self, now: int) -> None:
        """Note the watermark, if it has risen; Spark takes it with the next micro-batch.

        Args:
            now: In ms.
        """
        watermark = self._least(now)
        if watermark is not None and watermark > self._watermark:
            self._watermark = watermark
            write_json(self.path, self._contents())

    def _least(self, now: int) -> int | None:
        """The least watermark of what is neither idle nor at its end; None where there is none."""
        active: list[int] = []
        silent: list[int] = []
        for splits, idleness, is_heeded in zip(self._splits, self._idleness, self._is_heeded):
            if not is_heeded:
                continue
            if not splits and not _is_idle(self._began, idleness, now):
                return None  # nothing is known of it
            for each in splits.values():
                if each.watermark != MAX_WATERMARK:
                    is_idle = _is_idle(each.heard, idleness, now)
                    (silent if is_idle else active).append(each.watermark)
        # As Flink's operators: once all are idle, none of them holds back another one.
        return min(active) if active else max(silent, default=None)

    def _contents(self) -> dict[str, object]:
        splits = [
            [position, name, split.watermark]
            for position, each in enumerate(self._splits)
            for name, split in each.items()
        ]
        return {"watermark": self._watermark, "splits": splits}


def _idleness_of(stage: Stage) -> int | None:
    """After how many ms of silence an input is left out; None for never."""
    found = [each.idleness for each in _strategies(stage) if each.idleness is not None]
    return min(found, default=None)


def _is_idle(heard: int, idleness: int | None, now: int) -> bool:
    return idleness is not None and now - heard >= idleness


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
    return reading.load().mapInArrow(telling_each(_marked), MARKED_SCHEMA.ddl)


def _marked(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for milliseconds in batch.column("milliseconds").to_pylist():
            yield marked_row(milliseconds)


WATERMARK = "__watermark"
MARKED_SCHEMA = PACKED_SCHEMA.and_also((WATERMARK, pa.timestamp("us", tz="UTC")))
"""Packed rows of the first stage, with the watermark that they make in a last column."""

_Rows = list[tuple[int, int, bytes]]


def packed(rows: _Rows) -> pa.RecordBatch:
    """Rows behind an operator.

    Args:
        rows: Grouping key, origin and payload of each.
    """
    return PACKED_SCHEMA.batch(rows)


def marked(rows: _Rows, watermark: int | None) -> pa.RecordBatch:
    """Rows of the first stage.

    Args:
        rows: As of `packed`.
        watermark: That they make, in ms; None for none.
    """
    time = _as_time(watermark)
    return MARKED_SCHEMA.batch((*row, time) for row in rows)


def marked_row(watermark: int) -> pa.RecordBatch:
    """A row that tells a watermark, and calls no key group.

    Args:
        watermark: In ms.
    """
    return marked([(roll_call_of(0), -1, roll_payload(()))], watermark)


def _as_time(watermark: int | None) -> int | None:
    """A watermark in microseconds, as Spark takes it; None for none, and before any event."""
    if watermark is None or watermark <= 0:
        return None
    return 1000 * (END_OF_INPUT if watermark == MAX_WATERMARK else watermark)
