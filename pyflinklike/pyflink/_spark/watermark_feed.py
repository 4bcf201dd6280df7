# SPDX-License-Identifier: Apache-2.0
"""The watermark that the driver makes, for jobs with idle inputs or with inputs of several splits.

Spark's watermark of a source is the greatest that any task has reported.  Flink's is the least of all
splits, such as the partitions of a topic, and of all sources, without splits that have been silent for long:
https://github.com/apache/flink/blob/master/flink-core/src/main/java/org/apache/flink/api/common/eventtime/WatermarkOutputMultiplexer.java

So tasks report the watermarks of their splits in stage records that pass through all operators to the driver.
The driver writes the least one into a file, and a small source (`watermark_source`) brings it to Spark with the
next micro-batch.  Hence this watermark is one micro-batch behind the elements, as Spark's own is.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import attrs
import pyarrow as pa

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.pyflink._graph.job import JobGraph
from pyflinklike.pyflink._graph.nodes import AssignTimestamps, FromSource
from pyflinklike.pyflink._graph.sources import HybridSource, Source
from pyflinklike.pyflink._graph.watermarks import (
    WatermarkKind,
    WatermarkStrategy,
    find_aligned_limits,
)
from pyflinklike.pyflink._spark.data_frame_source import FrameSource
from pyflinklike.pyflink._spark.stages import PythonStage, is_keyed, needs_ticks, time_mode_of
from pyflinklike.spark._wire.key_groups import registry_key_of, registry_payload
from pyflinklike.spark._wire.payloads import PACKED_SCHEMA
from pyflinklike.spark._wire.system_columns import END_OF_INPUT
from pyflinklike.state_processor._folders.folder_paths import FolderPath, read_json, write_json

SPLIT_WATERMARKS = 0
"""The address of stage records with watermarks of splits; numbers of nodes begin with 1."""


class SplitWatermark(NamedTuple):
    """The watermark of a split, as a task reports it.

    Args:
        source: The number of the source's node.
        split: The name of the split, the same in each run.
        watermark: The watermark of its elements, in ms.
    """

    source: int
    split: str
    watermark: int


def _strategies(stage: PythonStage) -> Iterable[WatermarkStrategy]:
    """Yield the strategies by which the first stage makes watermarks."""
    for node in stage.graph.nodes.values():
        if isinstance(node, (FromSource, AssignTimestamps)):
            yield node.strategy


def has_idleness(stage: PythonStage) -> bool:
    """Return whether a strategy leaves out inputs that are silent.

    Args:
        stage: The first stage of a job.
    """
    return any(each.idleness is not None for each in _strategies(stage))


def needs_feed(graph: JobGraph, stage: PythonStage) -> bool:
    """Return whether the driver must make the watermark, since Spark's would differ from Flink's.

    Args:
        graph: The graph of a job in streaming mode.
        stage: The first stage of the job.
    """
    if graph.is_bounded or not stage.following or not time_mode_of(graph).passes_watermark:
        return False
    if needs_ticks(graph):
        return True
    sources = [node.source for node in stage.graph.of_kind(FromSource)]
    has_splits = any(_has_splits(each) for each in sources)
    # Otherwise Spark's watermark is right: the least of all sources, each with the greatest of its tasks.
    has_watermarks = any(each.kind is not WatermarkKind.NONE for each in _strategies(stage))
    return has_watermarks and (has_splits or has_idleness(stage) or _is_aligned(stage))


def _is_aligned(stage: PythonStage) -> bool:
    """Return whether a source may have to wait for others."""
    nodes = stage.graph.of_kind(FromSource)
    return any(node.strategy.alignment is not None for node in nodes)


def _has_splits(source: Source) -> bool:
    last = source.parts[-1] if isinstance(source, HybridSource) else source
    return isinstance(last, FrameSource) and last.has_splits


@attrs.define
class _Split:
    """The state of a split.

    Args:
        watermark: The greatest watermark that a task has reported, in ms.
        heard: The processing time of its last report, in ms.
    """

    watermark: int
    heard: int


class WatermarkFeed:
    """The least watermark of all inputs that are not idle, in a file.

    Args:
        path: The path of the file.
        stage: The first stage of the job.
        now: The processing time in ms from which on the silence of an input is measured.
        signal: The path of the file that Spark's source reads; None if it reads `path`.

    Raises:
        CorruptStateError: The file is damaged.
    """

    def __init__(
        self, path: FolderPath, stage: PythonStage, now: int, signal: Path | None = None
    ) -> None:
        self._path, self._signal, self._began = path, signal, now
        numbers = [node.id for node in stage.graph.of_kind(FromSource)]
        # Positions are stored, since nodes may have other numbers in another run of the program.
        self._position = {number: position for position, number in enumerate(numbers)}
        parts = [stage.part_reached_from(number) for number in numbers]
        self._idleness = [_idleness_of(part) for part in parts]
        self._alignments = [node.strategy.alignment for node in stage.graph.of_kind(FromSource)]
        # A source without a keyed operator after it must not hold back the timers of the others.
        self._is_heeded = [any(map(is_keyed, part.graph.nodes.values())) for part in parts]
        found = read_json(path) or {"watermark": MIN_WATERMARK, "splits": []}
        self._watermark: int = found["watermark"]
        self._splits: list[dict[str, _Split]] = [{} for _ in numbers]
        for position, split, watermark in found["splits"]:
            self._splits[position][split] = _Split(watermark, now)
        self._write()

    @property
    def path(self) -> Path:
        """The file that Spark's source reads."""
        if self._signal is not None:
            return self._signal
        assert isinstance(self._path, Path)
        return self._path

    def _write(self) -> None:
        write_json(self._path, self._contents())
        if self._signal is not None:
            # Written last: if Spark knew a watermark that the folder does not, a restart would go back behind it.
            write_json(self._signal, self._contents())

    def note(self, reported: Iterable[SplitWatermark], now: int) -> None:
        """Take in the watermarks that tasks have reported.

        Args:
            reported: The watermarks of a micro-batch, perhaps of one that Spark runs again.
            now: The processing time, in ms.
        """
        for each in reported:
            splits = self._splits[self._position[each.source]]
            known = splits.setdefault(each.split, _Split(each.watermark, now))
            # A micro-batch that runs again may report less than an earlier run has.
            known.watermark, known.heard = max(known.watermark, each.watermark), now

    def end_files(self, source: int) -> None:
        """Regard the files of a source as ended, so that they hold back no other split.

        Args:
            source: The number of the source's node.
        """
        # "": all rows of files count as one split.
        split = self._splits[self._position[source]].setdefault("", _Split(MAX_WATERMARK, 0))
        split.watermark = MAX_WATERMARK

    def tell(self, now: int) -> None:
        """Write the watermark if it has risen; Spark takes it with the next micro-batch.

        Args:
            now: The processing time, in ms.
        """
        watermark = self._least(now)
        if watermark is not None and watermark > self._watermark:
            self._watermark = watermark
            self._write()

    def find_ahead(self, now: int) -> set[int]:
        """Return the numbers of sources that are so far ahead that they wait for others.

        Args:
            now: The processing time, in ms.
        """
        leasts = [
            min(self._active_and_silent(position, now)[0], default=None)
            for position in self._position.values()
        ]
        limits = find_aligned_limits(zip(self._alignments, leasts))
        return {
            number
            for number, least, limit in zip(self._position, leasts, limits)
            if least is not None and limit is not None and least > limit
        }

    def _active_and_silent(self, position: int, now: int) -> tuple[list[int], list[int]]:
        """Return the watermarks of a source's splits that have not ended: of active ones, and of idle ones."""
        active: list[int] = []
        silent: list[int] = []
        for each in self._splits[position].values():
            if each.watermark != MAX_WATERMARK:
                is_idle = _is_idle(each.heard, self._idleness[position], now)
                (silent if is_idle else active).append(each.watermark)
        return active, silent

    def _least(self, now: int) -> int | None:
        """Return the least watermark of splits that are neither idle nor ended; None if it is not known yet."""
        active: list[int] = []
        silent: list[int] = []
        for position in self._position.values():
            if not self._is_heeded[position]:
                continue
            if not self._splits[position] and not _is_idle(
                self._began, self._idleness[position], now
            ):
                return None  # an input that has not reported yet holds the watermark back
            more_active, more_silent = self._active_and_silent(position, now)
            active += more_active
            silent += more_silent
        # As in Flink: once all are idle, none holds back another one, so the greatest watermark counts.
        return min(active) if active else max(silent, default=None)

    def _contents(self) -> dict[str, object]:
        splits = [
            [position, name, split.watermark]
            for position, each in enumerate(self._splits)
            for name, split in each.items()
        ]
        return {"watermark": self._watermark, "splits": splits}


def _idleness_of(stage: PythonStage) -> int | None:
    """Return the silence in ms after which an input is idle; None for never."""
    found = [each.idleness for each in _strategies(stage) if each.idleness is not None]
    return min(found, default=None)


def _is_idle(heard: int, idleness: int | None, now: int) -> bool:
    return idleness is not None and now - heard >= idleness


WATERMARK = "__watermark"
MARKED_SCHEMA = PACKED_SCHEMA.and_also((WATERMARK, pa.timestamp("us", tz="UTC")))
"""Packed rows of the first stage, with their watermark in a last column."""


def mark_rows(rows: list[tuple[int, int, bytes]], watermark: int | None) -> pa.RecordBatch:
    """Return rows of the first stage.

    Args:
        rows: The grouping key, origin and payload of each row.
        watermark: The watermark of the rows, in ms; None for no watermark.
    """
    time = _as_time(watermark)
    return MARKED_SCHEMA.batch((*row, time) for row in rows)


def mark_row(watermark: int) -> pa.RecordBatch:
    """Return a row that carries a watermark in ms, and calls no key group."""
    return mark_rows([(registry_key_of(0), -1, registry_payload(()))], watermark)


def _as_time(watermark: int | None) -> int | None:
    """Return a watermark in microseconds, as Spark takes it; None for no watermark yet."""
    # Spark begins with the watermark 0, so anything below means the same to it.
    if watermark is None or watermark <= 0:
        return None
    return 1000 * (END_OF_INPUT if watermark == MAX_WATERMARK else watermark)
