# SPDX-License-Identifier: Apache-2.0
"""Sources that Spark reads as DataFrames; tasks make elements from the rows."""

from __future__ import annotations

import pickle
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from pyflinklike._messages import short_repr
from pyflinklike.aggregations._element_types import element_type
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.pyflink._graph.sources import DataGeneratorSource, Source
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._plan.event_time import check_event_time, has_watermark
from pyflinklike.spark._plan.process_options import check_columns
from pyflinklike.spark._plan.session import time_zone_of
from pyflinklike.spark._wire.stage_records import dump
from pyflinklike.types import RowTypeInfo, TypeInformation
from pyflinklike.types.arrow_rows import to_python

RowMaker = Callable[[tuple[str, ...], Iterable[Iterable[Any]]], Iterator[Any]]
"""Makes elements, given the names of columns and the values of each row."""

Elements = Iterator[tuple[Any, "int | None"]]
"""Elements with their times in ms, or None."""


class FrameSource(Source):
    """A source that Spark reads as a DataFrame."""

    @abstractmethod
    def is_frame(self, *, is_streaming: bool) -> bool:
        """Return whether Spark reads the source in this mode.

        Args:
            is_streaming: True for a job in streaming mode.
        """

    @property
    def has_splits(self) -> bool:
        """Whether its rows come from several splits, each with its own watermark."""
        return False

    def split_of(self, batch: pa.RecordBatch) -> str:  # noqa: ARG002
        """Return the name of the split from which rows come.

        Args:
            batch: Rows of one split.
        """
        return ""

    def beginning(self) -> str | None:
        """Return what a stream of the source must know for its whole life; called once, when a job begins.

        Returns:
            A text for `frame`, such as the offsets of a topic, which the job stores in its folder.  None
            if there is nothing to know.
        """
        return None

    def wait_for_file(self, path: Path) -> FrameSource | None:  # noqa: ARG002
        """Return the source as one that yields no rows until a file exists.

        Args:
            path: The path of the file, on the driver.

        Returns:
            The source; None if Spark cannot let it wait.
        """
        return None

    def hold_by_file(self, path: Path) -> FrameSource:  # noqa: ARG002
        """Return the source as one that yields no rows while a file exists, if Spark can let it wait.

        Args:
            path: The path of the file, on the driver.
        """
        return self

    def find_beginning_at(self, offset: str) -> str:  # noqa: ARG002
        """Return what `beginning` would, for a stream that goes on from the position in a savepoint.

        Args:
            offset: The source's offset in Spark's checkpoint, as JSON.

        Raises:
            SparkSetupError: The source cannot begin there.
        """
        raise refusal_of_position(self)

    @abstractmethod
    def frame(self, spark: SparkSession, beginning: str | None, limit: int | None) -> DataFrame:
        """Return the rows as a DataFrame.

        Args:
            spark: The session that runs the job.
            beginning: The result of `beginning` when the job began.
            limit: The most elements of a micro-batch, for sources that can limit it; None for all.
        """

    @abstractmethod
    def elements(self, batch: pa.RecordBatch) -> Elements:
        """Return the elements of some rows.

        Args:
            batch: A record batch as `mapInArrow` gives it.
        """


def refusal_of_position(source: Source) -> SparkSetupError:
    """Build the error for a source that cannot go on from its position in a savepoint."""
    return SparkSetupError(
        f"a source of this kind cannot go on from a savepoint, got {source.identity}; give it "
        "another uid and the start that you need, and set "
        "execution.state-recovery.ignore-unclaimed-state to true"
    )


def frame_source(source: Source, *, is_streaming: bool) -> FrameSource | None:
    """Return a source as a `FrameSource` if Spark reads it in this mode; None if tasks or the driver do."""
    if isinstance(source, DataGeneratorSource) and not source.is_bounded:
        return _RateSource(source)
    if isinstance(source, FrameSource) and source.is_frame(is_streaming=is_streaming):
        return source
    return None


@attrs.frozen(eq=False)
class _RateSource(FrameSource):
    """Generated elements without an end, made from the numbers of Spark's own source `rate`."""

    source: DataGeneratorSource

    is_bounded = False

    def is_frame(self, *, is_streaming: bool) -> bool:
        """Return whether the job is in streaming mode."""
        return is_streaming

    def frame(self, spark: SparkSession, beginning: str | None, limit: int | None) -> DataFrame:  # noqa: ARG002
        """Return the stream of numbers, at the rate of the source."""
        reading = spark.readStream.format("rate").option("rowsPerSecond", str(self.source.rate))
        return reading.load()

    def elements(self, batch: pa.RecordBatch) -> Elements:
        """Return the elements of some numbers, without times."""
        numbers = batch.column("value").to_pylist()
        return zip(map(self.source.element, numbers), repeat(None))


def data_frame_source(
    df: DataFrame, event_time: str | None, make_rows: RowMaker
) -> DataFrameSource:
    """Make the source of a DataFrame's rows.

    Args:
        df: A streaming or batch DataFrame.
        event_time: The timestamp column with the times of elements; None for elements without times.
        make_rows: Makes the elements; passed in, since this package cannot import the class `Row`.

    Raises:
        DeclarationTypeError, DeclarationValueError: `df` is no DataFrame, has a column of a type that
            functions cannot get, has no such event time, or has a watermark of its own.
    """
    if not isinstance(df, DataFrame):
        msg = f"from_data_frame takes a Spark DataFrame, got {short_repr(df)}; read it into one"
        raise DeclarationTypeError(msg)
    if not df.columns:
        msg = "from_data_frame takes a DataFrame with columns, got one without; select some"
        raise DeclarationValueError(msg)
    check_columns(df)
    if event_time is not None:
        check_event_time(df, event_time)
    if df.isStreaming and has_watermark(df):
        msg = (
            "a job makes its own watermark, got a DataFrame with one; leave out withWatermark, and "
            "give from_data_frame event_time and a WatermarkStrategy"
        )
        raise DeclarationValueError(msg)
    zone = time_zone_of(df.sparkSession)
    return DataFrameSource(
        element_type(df.schema, zone), zone, event_time, make_rows, not df.isStreaming, df
    )


@attrs.frozen(eq=False)
class DataFrameSource(FrameSource):
    """The rows of a DataFrame.

    Args:
        row_type: The type of the rows.
        time_zone: The time zone of the session, in which functions see instants.
        event_time: The column with the times of elements; None for elements without times.
        make_rows: Makes elements from the names and values of columns.
        is_batch: Whether the DataFrame ends.
        df: The DataFrame; None in workers, since it does not pickle.
    """

    row_type: RowTypeInfo
    time_zone: str
    event_time: str | None
    make_rows: RowMaker
    is_batch: bool
    df: DataFrame | None = None

    @property
    def identity(self) -> str:
        """The columns: all else that Spark knows about a DataFrame may differ between runs."""
        return f"a DataFrame of {self.row_type!r}"

    @property
    def is_bounded(self) -> bool:
        """Whether the DataFrame is a batch."""
        return self.is_batch

    @property
    def type_info(self) -> TypeInformation:
        """The type of the rows."""
        return self.row_type

    parallelism = 1  # if Spark does not read it, the driver does
    is_read_alike = False  # Spark may give rows in another order each time
    is_read_anywhere = False  # workers have no DataFrames

    def is_frame(self, *, is_streaming: bool) -> bool:
        """Return whether job and DataFrame have the same mode; if not, the driver reads the DataFrame."""
        return self.is_batch is not is_streaming

    def frame(self, spark: SparkSession, beginning: str | None, limit: int | None) -> DataFrame:  # noqa: ARG002
        """Return the DataFrame; its own options limit the rows of a micro-batch."""
        assert self.df is not None
        return self.df

    def elements(self, batch: pa.RecordBatch) -> Elements:
        """Return the elements of some rows."""
        columns = [to_python(column, self.time_zone) for column in batch.columns]
        rows = self.make_rows(tuple(batch.schema.names), zip(*columns))
        return zip(rows, self._times(batch))

    def _times(self, batch: pa.RecordBatch) -> Iterable[int | None]:
        if self.event_time is None:
            return repeat(None)
        instants = batch.column(self.event_time).cast(pa.timestamp("us", tz="UTC"))
        # Rounded down to whole milliseconds: before 1970 a division would round up.
        floored = pc.floor_temporal(instants, unit="millisecond")
        times: list[int | None] = pc.divide(floored.cast(pa.int64()), 1000).to_pylist()
        return times

    def read(self, index: int, parallelism: int) -> Elements:
        """Read the elements of a batch into this process, partition by partition.

        Raises:
            SparkSetupError: The DataFrame is a stream.
        """
        assert (index, parallelism) == (0, 1)
        if self.df is None or not self.is_batch:
            msg = (
                "only Spark reads a streaming DataFrame, got a job that this process runs; set "
                "execution.target to spark"
            )
            raise SparkSetupError(msg)
        parts = self.df.mapInArrow(in_worker(self._pickle), "elements binary")
        for row in parts.toLocalIterator(prefetchPartitions=True):
            yield from pickle.loads(bytes(row[0]))  # noqa: S301  # of `_pickle`

    def _pickle(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            cell = pa.array([dump(list(self.elements(batch)))], pa.binary())
            yield pa.RecordBatch.from_arrays([cell], names=["elements"])

    def __reduce__(self) -> tuple[Any, ...]:
        *parts, _ = attrs.astuple(self, recurse=False)
        return DataFrameSource, tuple(parts)
