# SPDX-License-Identifier: Apache-2.0
"""The sources of a job as DataFrames.

A row names a split of a source, which the task that gets the row reads, or it holds elements.  A batch has
all splits.  A stream is a folder of files of such rows, in the order of their times: a file for each
micro-batch of a bounded source, and one for each discovery of a source that looks for new splits.

If the last source of a `HybridSource` is a stream of Spark, its rows have pickles of elements, and it waits until
all files are read.  Then a marker file appears, and stays over restarts.

Spark's checkpoint says which of these files it has read.  They are written once and stay, so a micro-batch
that is run again reads the same rows.  If a split has been deleted since, the job fails with an error.

Spark reads the files in the order of their times:
https://github.com/apache/spark/blob/branch-4.0/sql/core/src/main/scala/org/apache/spark/sql/execution/streaming/FileStreamSource.scala
On this machine each file gets a time made from its number.  Not all other file systems let a program set
times.  There each file is written only when the one before exists, and files of equal times come in the order
of their names.

If a source goes on from a savepoint, the files have only the rest of it.  Beside the files is the position at
which it began.  That position, moved on by what Spark has read of the files, is the position in the next savepoint.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from io import BytesIO
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink._graph.job import JobSettings
from pyflinklike.pyflink._graph.job_savepoint import find_beginning, find_parts_left
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._graph.sources import HybridSource, Source
from pyflinklike.pyflink._spark.data_frame_source import (
    FrameSource,
    frame_source,
    refusal_of_position,
)
from pyflinklike.pyflink._spark.stage_task import SOURCE_SCHEMA, SourceRow
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._wire.stage_records import dump
from pyflinklike.state_processor._checkpoints.job_at_rest import (
    BEGINNING,
    ELEMENTS,
    POSITION,
    rows_in,
)
from pyflinklike.state_processor._folders.folder_paths import (
    FolderPath,
    RemotePath,
    read_file,
    read_json,
    rename_durably,
    write_json,
)
from pyflinklike.state_processor._folders.hadoop_files import for_spark
from pyflinklike.state_processor._savepoints.manifest import Position
from pyflinklike.state_processor._savepoints.savepoint_location import copy_to_arrow

_ELEMENTS_OF_A_ROW = 10_000
_FIRST_TIME = 1_000_000_000
"""The time of the first file on this machine, in seconds."""
_FOR_EVER = "36500d"
"""The age at which Spark forgets that it has read a file.  No job is as old, so Spark never reads one twice."""
_SWITCHED = "_switched"
"""The file that exists once the sources before the last one are read to their ends."""
_HELD = "_held"
"""The file that exists while a source waits for others, since it is ahead of them."""
_COMPLETE = "_begun"
"""The file that exists once all first rows of a source are written; Spark does not read it."""


def batch_frame(spark: SparkSession, node: FromSource, settings: JobSettings) -> DataFrame:
    """Return all splits of a source, a task for each; a DataFrame is returned as it is."""
    frame = frame_source(node.source, is_streaming=False)
    if frame is not None:
        return frame.frame(spark, None, None)
    if node.source.has_named_splits:
        rows = [row[:-1] for row in _name_splits(node, node.source.splits())]
        parts = spark.createDataFrame(rows, SOURCE_SCHEMA.ddl)
        asked = _ask_parallelism(node, settings)
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
    """A source as files that a stream of Spark reads; a streaming DataFrame needs no files.

    Args:
        node: The node of the source.
        settings: The settings of the job.  `records_per_batch` is the number of elements of a
            micro-batch of a bounded source; None puts all in one.  `files_per_batch` is the number of
            splits of a micro-batch of a source that looks for new ones.
        folder: The folder for the files.
        position: The position in a savepoint from which a new source goes on; None reads all.
        signals: The folder, on this machine, of the files by which Spark knows whether the source waits;
            None if that is `folder`.

    Raises:
        SparkSetupError: The source cannot go on from the position.
    """

    def __init__(
        self,
        node: FromSource,
        settings: JobSettings,
        folder: FolderPath,
        position: Position | None = None,
        signals: Path | None = None,
    ) -> None:
        self._node, self._settings, self._folder = node, settings, folder
        self._signals = _Signals(folder, signals)
        self._known: set[str] = set()
        self._next, self._due, self._last_time = 0, 0, 0
        self._is_held = (folder / _HELD).exists()
        self._streamed = frame_source(node.source, is_streaming=True)
        self._last = last_frame_source(node.source)
        folder.mkdir(parents=True, exist_ok=True)
        if (streamed := self._streamed or self._last) is not None:
            self._beginning = self._find_beginning(streamed, position)
        if self._streamed is not None:
            return
        if (folder / _COMPLETE).exists():
            self._go_on()
        else:
            self._begin(position)

    def look(self, now: int) -> None:
        """Look for new splits, if it is time to.

        Args:
            now: The processing time, in ms.

        Raises:
            SparkSetupError: The source does not exist any more.
        """
        interval = self._node.source.discovery_milliseconds
        if interval is None or now < self._due or self._is_held:
            return
        self._due = now + interval
        found = iter(self._node.source.discover(self._known))
        while some := list(islice(found, self._settings.files_per_batch)):
            self._add(_name_splits(self._node, some))
            # Known only now: if the driver is killed before, the next one finds these splits again.
            self._known.update(some)

    def hold(self, *, is_ahead: bool) -> None:
        """Let the source wait, or go on.

        Args:
            is_ahead: Whether the source is too far ahead of others, and so must wait.
        """
        if is_ahead == self._is_held:
            return
        self._is_held = is_ahead
        self._signals.set(_HELD, is_there=is_ahead)

    @property
    def is_switched(self) -> bool:
        """Whether the last of several sources is being read."""
        return self._last is not None and (self._folder / _SWITCHED).exists()

    @property
    def is_waiting(self) -> bool:
        """Whether the last of several sources still waits for the sources before it."""
        return self._last is not None and not self.is_switched

    def switch(self, progress: Any) -> bool:
        """Let the last of several sources begin, if Spark has committed all files of the sources before it.

        Args:
            progress: The last progress of the query; None before its first micro-batch.

        Returns:
            Whether it begins now.
        """
        if progress is None or not self.is_waiting:
            return False
        # "endOffset" is of a micro-batch that is committed: progress is reported after the commit.
        ends = (each["endOffset"] for each in progress["sources"] if self._is_of(each))
        if not any(_files_of(end) >= self._next for end in ends):
            return False
        write_json(self._folder / _SWITCHED, {})
        self._signals.set(_SWITCHED, is_there=True)
        return True

    def _is_of(self, source: Any) -> bool:
        """Return whether an entry of a query's progress is about the files of this source."""
        return str(source["description"]).rstrip("]").endswith(str(self._folder.absolute()))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the stream, of `SOURCE_SCHEMA` if it reads files."""
        files = self._frame(spark)
        if self._last is None:
            return files
        last = self._last.wait_for_file(self._signals.path(_SWITCHED))
        assert last is not None  # else the job was refused
        # They get the form of the rows of files, so that both can be united.
        rows = last.frame(spark, self._beginning, self._settings.records_per_batch)
        packing = partial(_pack, self._node.id, last)
        pack = in_worker(packing)
        return files.union(rows.mapInArrow(pack, SOURCE_SCHEMA.ddl))

    def _frame(self, spark: SparkSession) -> DataFrame:
        source, settings = self._node.source, self._settings
        if self._streamed is not None:
            streamed = self._streamed
            if self._node.strategy.alignment is not None:
                streamed = streamed.hold_by_file(self._signals.path(_HELD))
            return streamed.frame(spark, self._beginning, settings.records_per_batch)
        stream = spark.readStream.schema(SOURCE_SCHEMA.ddl)
        is_discovered = source.discovery_milliseconds is not None
        # One file at a time, so that each group of splits comes before the next, and new splits come last.
        is_ordered = not is_discovered or isinstance(source, HybridSource)
        if is_ordered or settings.files_per_batch is not None:
            stream = stream.option("maxFilesPerTrigger", 1)
        # Another run may have given the node another number.
        stream = stream.option("maxFileAge", _FOR_EVER)
        frame = stream.parquet(for_spark(self._folder)).withColumn("source", F.lit(self._node.id))
        has_many = source.has_named_splits or isinstance(source, HybridSource)
        default = spark.sparkContext.defaultParallelism if has_many else 1
        count = _ask_parallelism(self._node, settings) or default
        is_whole = is_discovered or settings.records_per_batch is None
        return frame.repartition(count) if is_whole and count > 1 else frame

    def _find_beginning(self, source: FrameSource, position: Position | None) -> str | None:
        """Return the stored result of `beginning`, or call it and store the result."""
        noted = read_json(self._folder / BEGINNING)
        if noted is None:
            if position is None:
                noted = {"beginning": source.beginning()}
            elif "offset" in position:
                noted = {"beginning": source.find_beginning_at(str(position["offset"]))}
            else:
                raise refusal_of_position(self._node.source)
            write_json(self._folder / BEGINNING, noted)
        found: str | None = noted["beginning"]
        return found

    def _begin(self, position: Position | None) -> None:
        """Write the first rows; a killed driver may have written some of them, but Spark has not read any."""
        if isinstance(self._folder, RemotePath):
            for path in rows_in(self._folder).values():
                path.unlink()
        source, settings = self._node.source, self._settings
        if source.is_bounded:
            begun = position or find_beginning(source, _splits(self._node, settings))
            self._note_position(begun)
            for rows in micro_batches(self._node, settings, begun):
                self._add(rows)
            (self._folder / _COMPLETE).touch()
            return
        if position is not None:
            if "found" not in position:
                raise refusal_of_position(source)
            self._note_position(position)
            self._known.update(position["found"])
        if isinstance(source, HybridSource):
            left = [each for each in source.splits() if each not in self._known]
            for some in source.group_splits(left):
                self._add(_name_splits(self._node, some))
        if position is not None:
            # Spark adds the state in the first micro-batch, which must not wait for a split.
            self._add([_elements(self._node, [])])
        (self._folder / _COMPLETE).touch()

    def _note_position(self, position: Position) -> None:
        """Note the position from which the job begins to read, for the positions in later savepoints."""
        if self._node.source.is_read_alike:
            noted: dict[str, Any] = {"position": position}
        else:
            reason = "its elements may come in another order when they are read again"
            noted = {"position": None, "reason": reason}
        write_json(self._folder / POSITION, noted)

    def _go_on(self) -> None:
        """Find out what an earlier run has written."""
        written = rows_in(self._folder)
        self._next = max(written, default=-1) + 1
        begun = read_json(self._folder / POSITION)
        if begun is not None and begun["position"] is not None:
            self._known.update(begun["position"].get("found", ()))
        self._known.update(self._parts_of(written))
        # After a restart Spark runs a micro-batch only if there are new rows.  So add one without elements: else
        # the micro-batch in which timers fire for the last watermark might never come.
        self._add([_elements(self._node, [], is_last=self._node.source.is_bounded)])

    def _parts_of(self, written: dict[int, FolderPath]) -> set[str]:
        """Read the names of the splits in files of rows; on this machine the files get their times again."""
        if not written:
            return set()
        if isinstance(self._folder, Path):
            for number, path in written.items():
                _date(path, number)  # the files of a copied folder may have new times
            parts = ds.dataset(self._folder, format="parquet").to_table(["part"])
            return set(filter(None, parts.column("part").to_pylist()))
        self._last_time = max(self._folder.times().values())
        tables = [
            pq.read_table(pa.BufferReader(copy_to_arrow([read_file(path)])), columns=["part"])
            for path in written.values()
        ]
        return {each for table in tables for each in table.column("part").to_pylist() if each}

    def _add(self, rows: list[SourceRow]) -> None:
        if isinstance(self._folder, RemotePath):
            self._add_elsewhere(self._folder, rows)
        else:
            _write(rows, self._folder, self._next)
        self._next += 1

    def _add_elsewhere(self, folder: RemotePath, rows: list[SourceRow]) -> None:
        buffer, path = BytesIO(), folder / _name_of(self._next)
        pq.write_table(_table_of(rows), buffer)
        time = path.create(buffer.getvalue(), self._last_time)
        if time is None:
            msg = (
                f"a job's folder is written by one run at a time, got another run that has written "
                f"{str(path)!r} meanwhile; cancel one of them, and start the other again"
            )
            raise SparkSetupError(msg)
        if time < self._last_time:
            msg = (
                "the files of a job's folder have times that rise, by which Spark orders them, got "
                f"{str(path)!r} of {time} ms after one of {self._last_time} ms; correct the clock of the file "
                "system, and start the job again"
            )
            raise SparkSetupError(msg)
        self._last_time = time


class _Signals:
    """Marker files, in the folder of a source and in the folder in which Spark's sources look for them.

    Args:
        folder: The folder of the source.
        signals: The other folder; None if it is the same, or if Spark reads no marker.
    """

    def __init__(self, folder: FolderPath, signals: Path | None) -> None:
        self._folders = [folder]
        self._looked_at = folder if isinstance(folder, Path) else signals
        if signals is not None and signals != folder:
            signals.mkdir(parents=True, exist_ok=True)
            self._folders.append(signals)
            for name in (_SWITCHED, _HELD):
                _set(signals / name, is_there=(folder / name).exists())

    def set(self, name: str, *, is_there: bool) -> None:
        """Make or remove a marker, first in the folder that lasts."""
        for folder in self._folders:
            _set(folder / name, is_there=is_there)

    def path(self, name: str) -> Path:
        """Return the path at which Spark's sources look for a marker."""
        assert self._looked_at is not None
        return self._looked_at / name


def _set(path: FolderPath, *, is_there: bool) -> None:
    if is_there:
        path.touch()
    else:
        path.unlink(missing_ok=True)


def _pack(
    node: int, source: FrameSource, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Make rows for a stage from rows that Spark has read: for each record batch its split and elements.

    Args:
        node: The number of the source's node.
        source: The source that makes the elements.
        batches: The rows that Spark has read.
    """
    for batch in batches:
        if batch.num_rows:
            split, elements = source.split_of(batch), dump(list(source.elements(batch)))
            yield SOURCE_SCHEMA.batch([SourceRow(node, part=split, elements=elements)])


def last_frame_source(source: Source) -> FrameSource | None:
    """Return the last of several sources, if Spark reads it as a stream; None for other sources."""
    if isinstance(source, HybridSource) and not source.is_bounded:
        return frame_source(source.parts[-1], is_streaming=True)
    return None


def _files_of(end: Any) -> int:
    """Return how many files a source has read, if each micro-batch reads one file."""
    found = json.loads(end) if isinstance(end, str) else end
    return int(found["logOffset"]) + 1 if isinstance(found, dict) else 0


def micro_batches(
    node: FromSource, settings: JobSettings, position: Position | None = None
) -> Iterator[list[SourceRow]]:
    """Yield the rows of each micro-batch of a bounded source, of `SOURCE_SCHEMA`.

    Args:
        node: The node of the source.
        settings: As `StreamSource` takes them.
        position: The position from which to read; None reads all.
    """
    if position is None:
        position = find_beginning(node.source, _splits(node, settings))
    limit = settings.records_per_batch
    # Tasks read whole splits.  If reading begins in the middle of a split, the driver reads.
    if limit is None and not position.get("first") and not any(_skips(position)):
        if "left" in position:
            return _of_named_splits(node, [name for name, _ in position["left"]])
        if node.source.is_read_anywhere and None not in position["read"]:
            count = position["splits"]
            return iter([[SourceRow(node.id, at, count, is_last=True) for at in range(count)]])
    return _read_here(node, position, limit)


def _skips(position: Position) -> list[int | None]:
    return [skip for _, skip in position["left"]] if "left" in position else position["read"]


def _ask_parallelism(node: FromSource, settings: JobSettings) -> int | None:
    """Return the number of tasks that read a source; None if the program does not set it."""
    # A HybridSource asks for one instance to keep its sources in order; here micro-batches do that.
    own = None if isinstance(node.source, HybridSource) else node.source.parallelism
    return own or node.parallelism or settings.parallelism


def _splits(node: FromSource, settings: JobSettings) -> int:
    return _ask_parallelism(node, settings) or 1


def _of_named_splits(node: FromSource, names: list[str]) -> Iterator[list[SourceRow]]:
    """Yield a micro-batch of the splits of each group, if there are any, and one for the end."""
    for splits in node.source.group_splits(names):
        yield _name_splits(node, splits)
    yield [_elements(node, [], is_last=True)]


def _name_splits(node: FromSource, splits: list[str]) -> list[SourceRow]:
    """Return a row for each split that has a name."""
    return [SourceRow(node.id, part=each) for each in splits]


def _read_here(
    node: FromSource, position: Position, limit: int | None
) -> Iterator[list[SourceRow]]:
    """Yield micro-batches of `limit` elements, or one of all, which the driver reads; and one for the end."""
    elements = chain.from_iterable(find_parts_left(node.source, position))
    some = iter(lambda: list(islice(elements, limit or _ELEMENTS_OF_A_ROW)), [])
    rows = (_elements(node, each) for each in some)
    if limit is None:
        yield list(rows)
    else:
        yield from ([row] for row in rows)
    yield [_elements(node, [], is_last=True)]


def _elements(
    node: FromSource, elements: list[tuple[Any, int | None]], *, is_last: bool = False
) -> SourceRow:
    return SourceRow(node.id, elements=dump(elements), is_last=is_last, size=len(elements))


def _name_of(number: int) -> str:
    return f"{number:010}.parquet"


def _table_of(rows: list[SourceRow]) -> pa.Table:
    # The number of elements is in the metadata, so a savepoint counts them without reading pickles.
    count = sum(row.size for row in rows)
    table = pa.Table.from_batches([SOURCE_SCHEMA.batch(rows)] if rows else [], SOURCE_SCHEMA.arrow)
    return table.replace_schema_metadata({ELEMENTS: str(count)})


def _write(rows: list[SourceRow], folder: Path, number: int) -> None:
    """Write the file of a micro-batch under a hidden name; Spark sees it when it has its time."""
    hidden = folder / f".{_name_of(number)}"
    pq.write_table(_table_of(rows), hidden)
    _date(hidden, number)
    rename_durably(hidden, folder / _name_of(number))


def _date(path: Any, number: int) -> None:
    """Set the time of a file on this machine."""
    os.utime(path, (_FIRST_TIME + number, _FIRST_TIME + number))
