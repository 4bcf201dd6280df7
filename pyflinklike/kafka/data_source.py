# SPDX-License-Identifier: Apache-2.0
"""The data source from which Spark makes readers and writers.

A task writes its records at once, so the driver has nothing to commit, and each record is written at
least once.  Records are written again if a task fails, or if the driver of a micro-batch is killed before
Spark has committed it.  The option `recordIds` and `drop_repeats` remove such repeats.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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

from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.kafka.delivery import deliver
from pyflinklike.kafka.fetch import (
    fetch,
    refuse_new_topics,
    refuse_step_back,
    report_gone,
    report_loss,
)
from pyflinklike.kafka.messages import (
    Message,
    RecordIds,
    check_columns,
    of_batches,
    of_rows,
    spark_columns,
)
from pyflinklike.kafka.offsets import (
    Cluster,
    OffsetRange,
    Offsets,
    Topics,
    limit_ends,
    resolve_offsets,
    split_ranges,
)
from pyflinklike.kafka.options import (
    Partition,
    ReaderOptions,
    WriterOptions,
    reader_options,
    writer_options,
)
from pyflinklike.spark._plan.session import prepare_workers

try:
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

    HAS_LIMITS = True
except ImportError:  # before PySpark 4.2
    HAS_LIMITS = False

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
    return _StreamArrowWriter(options) if _HAS_ARROW else _StreamRowWriter(options)


def _write(options: WriterOptions, messages: Iterator[Message]) -> Written:
    """Write the records of a task."""
    named = map(RecordIds.of_task().add_to, messages) if options.record_ids else messages
    return Written(deliver(named, options.settings))


def _count_arrived(messages: Iterable[Any]) -> int:
    return sum(each.records for each in messages if each is not None)


class _Writer:
    def __init__(self, options: WriterOptions) -> None:
        self._options = options


class _BatchWriter(_Writer, DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._options, of_batches(iterator, self._options.topic))

    def abort(self, messages: list[Any]) -> None:
        _LOG.warning(
            "a batch failed; at least %d records stay in their topics", _count_arrived(messages)
        )


class _StreamWriter(_Writer):
    """The driver's part of a stream's writer, which only logs: the records are in the topics already."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _LOG.debug("micro-batch %d: %d records", batchId, _count_arrived(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _LOG.warning(
            "micro-batch %d failed; at least %d records stay in their topics, and come again",
            batchId,
            _count_arrived(messages),
        )


class _StreamRowWriter(_StreamWriter, DataSourceStreamWriter):
    def write(self, iterator: Iterator[Any]) -> Written:
        return _write(self._options, of_rows(iterator, self._options.topic))


_HAS_ARROW: Final = hasattr(datasource, "DataSourceStreamArrowWriter")

if _HAS_ARROW:

    class _StreamArrowWriter(_StreamWriter, datasource.DataSourceStreamArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
            return _write(self._options, of_batches(iterator, self._options.topic))


# The reader of a stream: what the driver asks between micro-batches, and what tasks read
#
# Only Spark's checkpoint has the offsets; the reader joins no consumer group.  PySpark 4.2 and newer
# pass the start of the micro-batch and its limit to the reader.  Earlier versions ask only for the
# latest offset, so they cannot limit a micro-batch.


# After an election a partition may seem to end earlier for a moment.
# https://issues.apache.org/jira/browse/KAFKA-7703
_STEP_BACK_WAITS: Final = (0.1, 0.2, 0.4, 0.8, 1.6)


class _Progress:
    """The offsets between which the next micro-batch lies.

    Args:
        options: The options of the reader, with the brokers' addresses.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._connected: Cluster | None = None
        self._stop_at: Offsets | None = None
        self.seen: Offsets | None = None
        """The ends of all partitions that `latest` has found last."""

    @property
    def _cluster(self) -> Cluster:
        """The brokers; connected at the first request, because readers are pickled before that."""
        if self._connected is None:
            self._connected = Cluster(self._options)
        return self._connected

    def first(self) -> Offsets:
        """Return the offsets at which a new query starts."""
        topics = self._cluster.topics()
        start = resolve_offsets(
            self._options.starting, topics.partitions, self._cluster, "startingOffsets"
        )
        return Offsets(start, topics.ids)

    def latest(self, start: Offsets | None) -> Offsets:
        """Return the current ends of all partitions, or the limits of `stop_here` if they come first.

        Args:
            start: The offsets up to which the query has read; None if they are not known.
        """
        topics = self._cluster.topics()
        if start is None:
            return Offsets(self._cluster.latest(topics.partitions), topics.ids)
        self._check(start, topics)
        end = self._latest_after(start, topics.partitions)
        self.seen = Offsets(end, topics.ids)
        if self._stop_at is not None:
            stop = self._stop_at.at
            end = {each: min(last, stop[each]) for each, last in end.items() if each in stop}
            # A partition that was already read further than the stop stays there.
            end.update({each: max(end[each], start.at[each]) for each in end if each in start.at})
        return Offsets(end, topics.ids)

    def stop_here(self) -> None:
        """Never go beyond the present ends, as `Trigger.AvailableNow` asks."""
        topics = self._cluster.topics()
        self._stop_at = Offsets(self._cluster.latest(topics.partitions), topics.ids)

    def take(self, start: Offsets, end: Offsets, most: int | None) -> Offsets:
        """Return the end of a micro-batch of at most `most` offsets; `start` if it is empty."""
        begins = self._begins(start, end)
        taken = dict(end.at) if most is None else limit_ends(begins, end.at, most)
        # While the brokers have no controller, they report no ids; then the known ids stay.
        ids = {**start.topic_ids, **end.topic_ids}
        return start if taken == dict(start.at) else Offsets(taken, ids)

    def ranges(self, start: Offsets, end: Offsets, *, checked: bool) -> list[OffsetRange]:
        """Return the ranges that the tasks of a micro-batch read.

        Args:
            start: The offsets at which the micro-batch starts.
            end: The offsets at which it ends.
            checked: Whether `latest` has just found `end`; False if Spark found it in its
                checkpoint.
        """
        if not checked and start.at != end.at:
            self._check(start, self._cluster.topics())
        refuse_step_back(start.at, end.at)
        begins = self._begins(start, end, say=True)
        ranges = [
            OffsetRange(*each, begins[each], last)
            for each, last in end.at.items()
            if begins[each] < last
        ]
        return split_ranges(ranges, self._options.min_partitions)

    def _check(self, start: Offsets, topics: Topics) -> None:
        refuse_new_topics(start, topics.ids)
        report_gone(start.at, topics.partitions, fail=self._options.fail_on_data_loss)

    def _latest_after(self, start: Offsets, partitions: list[Partition]) -> dict[Partition, int]:
        """Return the ends of partitions; ask again while one seems to lie before the start."""
        for wait in (*_STEP_BACK_WAITS, None):
            end = self._cluster.latest(partitions)
            if wait is None or all(end.get(each, at) >= at for each, at in start.at.items()):
                break
            time.sleep(wait)
        refuse_step_back(start.at, end)
        return end

    def _begins(
        self, start: Offsets, end: Offsets, *, say: bool = False
    ) -> Mapping[Partition, int]:
        """Return the start of each partition in a micro-batch; a new one starts at its earliest."""
        new = [each for each in end.at if each not in start.at]
        first = (
            {each: min(at, end.at[each]) for each, at in self._cluster.earliest(new).items()}
            if new
            else {}
        )
        for (topic, number), offset in first.items():
            if offset and say:
                report_loss(
                    f"partition {number} of topic {topic} is new to this query, and its offsets 0 "
                    f"to {offset - 1} are gone",
                    fail=self._options.fail_on_data_loss,
                )
        return {**start.at, **first}


class KafkaStreamReader(DataSourceStreamReader):
    """Reads topics as a stream.

    Args:
        options: The options of the reader, checked.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._progress = _Progress(options)
        self._known: Offsets | None = None
        """The offsets up to which the query was planned, if this reader knows them."""
        self._checked: tuple[Offsets, Offsets] | None = None
        """The last micro-batch that `latestOffset` planned; its start was checked then."""

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Return the start of a new query: `startingOffsets`, as they are now.

        Raises:
            DeclarationValueError: The offsets do not fit the topics.
            BrokerError: A broker does not answer, or a topic does not exist.
        """
        return self._note_plan(self._progress.first())

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # noqa: N802 - Spark's name
        """Return the end of the next micro-batch: all partitions' ends, without a limit.

        Raises:
            DataLossError: A topic or partition that was read is gone, or was made anew.
            BrokerError: A broker does not answer.
        """
        # After a restart the reader does not know the start; then `partitions` makes the check.
        start, end = self._known, self._progress.latest(self._known)
        return self._note_plan(end) if start is None else self._take(start, end, None)

    def _take(self, start: Offsets, end: Offsets, most: int | None) -> dict[str, Any]:
        taken = self._progress.take(start, end, most)
        # `partitions` gets the same pair right after this, and then need not ask the brokers again.
        self._checked = start, taken
        return self._note_plan(taken)

    def _note_plan(self, end: Offsets) -> dict[str, Any]:
        self._known = end
        return end.to_json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return a range of offsets for each task of a micro-batch.

        Raises:
            DataLossError: As for `latestOffset`, if that did not know the start; or a new partition
                has lost its first records.
            CorruptStateError: The checkpoint holds other offsets than ours.
            BrokerError: A broker does not answer.
        """
        first, last = Offsets.from_json(start), Offsets.from_json(end)
        self._known = last
        return self._progress.ranges(first, last, checked=(first, last) == self._checked)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of a range; this runs in a task.

        Raises:
            DataLossError: Records are gone, and `failOnDataLoss` is true.
            BrokerError: The records cannot be read.
        """
        assert isinstance(partition, OffsetRange)
        yield from fetch(partition, self._options)


if HAS_LIMITS:

    class LimitedStreamReader(KafkaStreamReader, SupportsTriggerAvailableNow):
        """Reads topics as a stream, and keeps rate limits.

        With the option `waitFor` the stream stays at its start until a file exists, because a job reads
        other sources first.  With `holdWhile` it stops while a file exists, because it is too far
        ahead of other sources.
        """

        def _waits(self) -> bool:
            gate, hold = self._options.wait_for, self._options.hold_while
            is_closed = gate is not None and not os.path.exists(gate)
            return is_closed or (hold is not None and os.path.exists(hold))

        def latestOffset(  # type: ignore[override]  # noqa: N802 - Spark's name
            self, start: dict[str, Any], limit: ReadLimit
        ) -> dict[str, Any]:
            """Return the offsets at which the next micro-batch ends."""
            if self._waits():
                return start
            before = Offsets.from_json(start)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            return self._take(before, self._progress.latest(before), most)

        def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
            """Return the limit of records in a micro-batch."""
            most = self._options.max_offsets
            return ReadAllAvailable() if most is None else ReadMaxRows(most)

        def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 - Spark's name
            """Return the newest offsets that were seen, for the progress of the query."""
            return None if self._progress.seen is None else self._progress.seen.to_json()

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
            """Let the query end at the offsets that are there now."""
            self._progress.stop_here()


def stream_reader(options: ReaderOptions) -> DataSourceStreamReader:
    """Make the reader for this PySpark.

    Args:
        options: The options of the reader, checked.

    Raises:
        SparkSetupError: `maxOffsetsPerTrigger` is set, and this PySpark cannot limit a micro-batch.
    """
    if HAS_LIMITS:
        return LimitedStreamReader(options)
    if options.max_offsets is not None:
        msg = (
            "maxOffsetsPerTrigger needs PySpark 4.2 or newer, which gives a Python source the start of a "
            "micro-batch; leave the option out, or upgrade"
        )
        raise SparkSetupError(msg)
    return KafkaStreamReader(options)
