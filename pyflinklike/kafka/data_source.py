# SPDX-License-Identifier: Apache-2.0
"""The writers of batches and streams: tasks write, and nothing is left for the driver to commit.

Each record is written at least once.  The records of a task that failed, and of a micro-batch whose
driver was killed before Spark noted its end, come again; `recordIds` and `drop_repeats` are for
these repeats.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.delivery import deliver
from pyflinklike.kafka.messages import Message, check_columns, of_batches, of_rows
from pyflinklike.kafka.options import WriterOptions
from pyflinklike.kafka.record_ids import RecordIds

__all__ = ["Written", "batch_writer", "stream_writer"]

_LOG: Final = logging.getLogger("pyflinklike.kafka")


@attrs.frozen
class Written(WriterCommitMessage):
    """The result of a task.

    Args:
        records: How many records were acknowledged.
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
        msg = 'a topic is only added to, got mode("overwrite"); use mode("append")'
        raise DeclarationValueError(msg)
    if options.record_ids:
        msg = "recordIds is for streams, got a batch; leave the option out"
        raise DeclarationValueError(msg)
    check_columns(schema, options.topic)
    return _BatchWriter(options)


def stream_writer(options: WriterOptions, schema: StructType) -> DataSourceStreamWriter:
    """Make the writer of a stream: of Arrow from PySpark 4.1 on, before that of rows.

    Raises:
        DeclarationValueError: A column or an option does not fit.
    """
    check_columns(schema, options.topic)
    if hasattr(datasource, "DataSourceStreamArrowWriter"):
        return _stream_arrow_writer(options)
    return _StreamRowWriter(options)


def _write(options: WriterOptions, messages: Iterator[Message]) -> Written:
    """Write the records of a task."""
    named = map(RecordIds.of_task().named, messages) if options.record_ids else messages
    return Written(deliver(named, options.settings))


def _arrived(messages: Iterable[Any]) -> int:
    return sum(each.records for each in messages if each is not None)


class _BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: WriterOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._options, of_batches(iterator, self._options.topic))

    def abort(self, messages: list[Any]) -> None:
        _LOG.warning("a batch failed; at least %d records stay in their topics", _arrived(messages))


class _Stream:
    """The driver's part of a stream's writer: all records are in the topics already."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _LOG.debug("micro-batch %d: %d records", batchId, _arrived(messages))

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        _LOG.warning(
            "micro-batch %d failed; at least %d records stay in their topics, and come again",
            batchId,
            _arrived(messages),
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
