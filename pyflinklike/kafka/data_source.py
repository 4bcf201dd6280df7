# SPDX-License-Identifier: Apache-2.0
"""The data source from which Spark makes readers and writers.

A task writes its records at once, so the driver has nothing to commit, and each record is written at
least once.  Records are written again if a task fails, or if the driver of a micro-batch is killed before
Spark has committed it.  The option `recordIds` and `drop_repeats` remove such repeats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import SparkSession, datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.cluster import Cluster, resolve_offsets
from pyflinklike.kafka.delivery import deliver
from pyflinklike.kafka.fetch import fetch
from pyflinklike.kafka.messages import (
    Message,
    RecordIds,
    check_columns,
    of_batches,
    of_rows,
    spark_columns,
)
from pyflinklike.kafka.offsets import OffsetRange, split_ranges
from pyflinklike.kafka.options import ReaderOptions, WriterOptions, reader_options, writer_options
from pyflinklike.kafka.stream_reader import stream_reader
from pyflinklike.spark._plan.session import prepare_workers

__all__ = [
    "FORMAT",
    "KafkaBatchReader",
    "KafkaDataSource",
    "Written",
    "batch_writer",
    "register",
    "stream_writer",
]


FORMAT = "pyflinklike_kafka"
"""The argument of `format(...)`."""


class KafkaDataSource(DataSource):
    """Kafka's topics as DataFrames, streaming and batch, read and written; no jar is needed.

    Options and columns are the same as in Spark's own connector; `register` makes it known to a session.
    The reference lists the differences.

    Example:
        ```python
        register(spark)
        clicks = spark.readStream.format("pyflinklike_kafka").option("subscribe", "clicks")
        ```
    """

    @classmethod
    def name(cls) -> str:
        """Return the argument of `format(...)`: "pyflinklike_kafka"."""
        return FORMAT

    def schema(self) -> StructType:
        """Return the columns of a reader, which are the same as in Spark's own Kafka connector.

        With `includeHeaders` there is also a column of headers.
        """
        headers = self.options.get("includeHeaders", "false").lower() == "true"
        return spark_columns(headers=headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make the reader of a batch.

        Raises:
            DeclarationValueError: An option is wrong, or the program has declared columns.
        """
        options = reader_options(self.options, streaming=False)
        self._refuse_other(schema)
        return KafkaBatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make the reader of a stream.

        Raises:
            DeclarationValueError: An option is wrong, or the program has declared columns.
            SparkSetupError: `maxOffsetsPerTrigger` is set and PySpark is older than 4.2.
        """
        options = reader_options(self.options, streaming=True)
        self._refuse_other(schema)
        return stream_reader(options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make the writer of a batch; it only ever adds records to a topic.

        Raises:
            DeclarationValueError: An option or a column is wrong, or the mode is "overwrite".
        """
        return batch_writer(writer_options(self.options), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """Make the writer of a stream; every output mode adds to the topic, as in Spark's connector.

        Raises:
            DeclarationValueError: An option or a column is wrong.
        """
        return stream_writer(writer_options(self.options), schema)

    def _refuse_other(self, schema: StructType) -> None:
        if schema != self.schema():
            msg = (
                f"the columns of a topic are always the same, got schema({schema.simpleString()!r}); "
                "leave .schema() out, and cast or parse key and value afterwards"
            )
            raise DeclarationValueError(msg)


def register(spark: SparkSession) -> None:
    """Make `format("pyflinklike_kafka")` known to a session.

    Args:
        spark: The session, which may also be one of Spark Connect.
    """
    prepare_workers(spark)  # tasks read in workers, and a worker on the driver plans
    spark.dataSource.register(KafkaDataSource)


class KafkaBatchReader(DataSourceReader):
    """Reads the records that the topics have when the query is planned.

    Args:
        options: The options of the reader, checked.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Return one range of offsets for each task.

        Raises:
            DeclarationValueError: A partition would end before it starts.
            BrokerError: A broker does not answer.
        """
        cluster = Cluster(self._options)
        there = cluster.topics().partitions
        start = resolve_offsets(self._options.starting, there, cluster, "startingOffsets")
        end = resolve_offsets(self._options.ending, there, cluster, "endingOffsets")
        for (topic, number), offset in start.items():
            last = end[topic, number]
            if last < offset:
                msg = f"endingOffsets must not lie before startingOffsets, got {offset} to {last} for {topic}/{number}"
                raise DeclarationValueError(msg)
        ranges = [
            OffsetRange(*each, offset, end[each])
            for each, offset in start.items()
            if offset < end[each]
        ]
        return list(split_ranges(ranges, self._options.min_partitions))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of a range; this runs in a task.

        Raises:
            DataLossError: Records are gone, and `failOnDataLoss` is true.
            BrokerError: The records cannot be read.
        """
        if isinstance(partition, OffsetRange):  # without ranges Spark still plans one task
            yield from fetch(partition, self._options)


_LOG: Final = logging.getLogger("pyflinklike.kafka")


@attrs.frozen
class Written(WriterCommitMessage):
    """The result of a writing task, which Spark brings to the driver.

    Args:
        records: The number of records that the brokers have acknowledged.
    """

    records: int


Messages = Sequence["Written | None"]


def batch_writer(
    options: WriterOptions, schema: StructType, *, overwrite: bool
) -> DataSourceWriter:
    """Make the writer of a batch.

    Raises:
        DeclarationValueError: A column or an option does not fit.
    """
    if overwrite:
        msg = 'a topic can only be added to, got mode("overwrite"); use mode("append")'
        raise DeclarationValueError(msg)
    if options.record_ids:
        msg = "recordIds is for streams, got a batch; leave the option out"
        raise DeclarationValueError(msg)
    check_columns(schema, options.topic)
    return _BatchWriter(options)


def stream_writer(options: WriterOptions, schema: StructType) -> DataSourceStreamWriter:
    """Make the writer of a stream; it takes Arrow from PySpark 4.1 on, and rows before.

    Raises:
        DeclarationValueError: A column or an option does not fit.
    """
    check_columns(schema, options.topic)
    if hasattr(datasource, "DataSourceStreamArrowWriter"):
        return _stream_arrow_writer(options)
    return _StreamRowWriter(options)


def _write(options: WriterOptions, messages: Iterator[Message]) -> Written:
    """Write the records of a task."""
    named = map(RecordIds.of_task().add_to, messages) if options.record_ids else messages
    return Written(deliver(named, options.settings))


def _count_arrived(messages: Iterable[Any]) -> int:
    return sum(each.records for each in messages if each is not None)


class _BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._options, of_batches(iterator, self._options.topic))

    def abort(self, messages: list[Any]) -> None:
        _LOG.warning(
            "a batch failed; at least %d records stay in their topics", _count_arrived(messages)
        )


class _Stream:
    """The driver's part of a stream's writer, which only logs: the records are in the topics already."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _LOG.debug("micro-batch %d: %d records", batchId, _count_arrived(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _LOG.warning(
            "micro-batch %d failed; at least %d records stay in their topics, and come again",
            batchId,
            _count_arrived(messages),
        )


class _StreamRowWriter(_Stream, DataSourceStreamWriter):
    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self._options, of_rows(iterator, self._options.topic))


def _stream_arrow_writer(options: WriterOptions) -> DataSourceStreamWriter:
    return _StreamArrowWriter(options)


if hasattr(datasource, "DataSourceStreamArrowWriter"):

    class _StreamArrowWriter(_Stream, datasource.DataSourceStreamArrowWriter):
        def __init__(self, options: WriterOptions) -> None:
            self._options = options

        def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
            return _write(self._options, of_batches(iterator, self._options.topic))
