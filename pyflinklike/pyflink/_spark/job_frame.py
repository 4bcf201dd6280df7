# SPDX-License-Identifier: Apache-2.0
"""A stream of a job as a DataFrame."""

from __future__ import annotations

import atexit
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._spark.job_folder import new_folder
from pyflinklike.pyflink._spark.job_runs import (
    frame_of_batch,
    frame_of_stream,
    prepare_session,
    steps_of,
)
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._plan.session import time_zone_of
from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.spark._wire.schema import output_schema
from pyflinklike.state_processor._folders.hadoop_files import is_remote_address, temporary_folder
from pyflinklike.types import RowTypeInfo, TupleTypeInfo

__all__ = ["data_frame"]


def data_frame(
    job: Job, schema: Any, plain: Callable[[Any], Any], metric_names: set[str]
) -> DataFrame:
    """Return the elements of a job's only sink as a DataFrame; the job runs when that is read.

    Args:
        job: The job; in streaming mode the DataFrame is a stream.
        schema: The schema of the DataFrame, as an `output_type`; None takes the type of the elements.
        plain: Makes a tuple or mapping from an element that is a row.
        metric_names: Names of metrics that other DataFrames of the program use; the job's names are
            added.

    Raises:
        SparkSetupError: The job has a step that Spark does not run.
        DeclarationTypeError: Spark does not have the type of the elements.
    """
    spark = prepare_session(job)
    (sink,) = job.graph.sinks
    rows = (
        frame_of_batch(steps_of(job, spark), spark)
        if job.settings.is_batch
        else _stream(job, spark, metric_names)
    )
    wanted = sink.type_info if schema is None else schema
    columns = output_schema(rows, wanted, "the schema of to_data_frame")
    encoder = OutputEncoder(columns, time_zone_of(spark), "to_data_frame", str)
    # Without a schema, an element that is no row is the value of the only column, even if it is a list.
    is_row = schema is not None or isinstance(sink.type_info, (RowTypeInfo, TupleTypeInfo))
    opening = in_worker(_Opening(encoder, plain, is_row).run)
    result: DataFrame = rows.mapInArrow(opening, columns)
    return result


def _stream(job: Job, spark: SparkSession, metric_names: set[str]) -> DataFrame:
    """Return the results of a stream; its files stay until this process ends, for any query to read."""
    directory = job.settings.checkpoint_dir
    if directory is not None and is_remote_address(directory):
        return frame_of_stream(job, spark, temporary_folder(spark, directory), metric_names)
    folder = new_folder(directory)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return frame_of_stream(job, spark, folder, metric_names)


@attrs.frozen
class _Opening:
    """Makes rows from the elements in stage records.

    Args:
        encoder: Encodes rows as Arrow record batches.
        plain: Makes a tuple or mapping from an element that is a row.
        is_row: True if an element is a row, False if it is the value of the only column.
    """

    encoder: OutputEncoder
    plain: Callable[[Any], Any]
    is_row: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make rows from all stage records, for `mapInArrow`."""
        for batch in batches:
            for payload in batch.column("payload").to_pylist():
                records = pickle.loads(payload)  # noqa: S301  # of the job's own stages
                rows = self._rows([value for _, value, _ in records])
                yield self.encoder.encode(rows, [None] * len(rows))

    def _rows(self, values: list[Any]) -> list[Any]:
        if not self.is_row:
            return [(self.plain(value),) for value in values]
        if self._is_flat() and set(map(type, values)) == {tuple}:
            return values  # in flat columns no value can be a row
        return [self.plain(value) for value in values]

    def _is_flat(self) -> bool:
        return not any(pa.types.is_nested(kind) for kind in self.encoder.schema.types)
