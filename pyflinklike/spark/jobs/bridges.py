# SPDX-License-Identifier: Apache-2.0
"""From a stream of a job to a DataFrame."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame

from pyflinklike.errors import HostError
from pyflinklike.graph.job import Job
from pyflinklike.spark.hosts.cycle_collector import with_imports_frozen
from pyflinklike.spark.hosts.telling import telling_each
from pyflinklike.spark.jobs.runs import checked_session, frame_of_batch
from pyflinklike.spark.setup.settings import time_zone_of
from pyflinklike.spark.wire.columns import OutputEncoder
from pyflinklike.spark.wire.schema import arrow_schema, output_schema
from pyflinklike.types import RowTypeInfo, TupleTypeInfo

__all__ = ["data_frame"]


def data_frame(job: Job) -> DataFrame:
    """The elements of a job's only sink as a DataFrame; the job runs when that is read.

    Args:
        job: In batch mode.

    Raises:
        HostError: It is in streaming mode, or has a step that Spark does not run.
        DeclarationTypeError: Spark does not have the type of the elements.
    """
    if not job.settings.is_batch:
        msg = (
            "to_data_frame is there in batch mode, got a job in streaming mode; set "
            "execution.runtime-mode to BATCH"
        )
        raise HostError(msg)
    spark = checked_session(job)
    (sink,) = job.graph.sinks
    rows = frame_of_batch(job, spark)
    schema = output_schema(rows, sink.type_info, "the type of a stream for to_data_frame")
    encoder = OutputEncoder(arrow_schema(schema), time_zone_of(spark), "to_data_frame", str)
    is_row = isinstance(sink.type_info, (RowTypeInfo, TupleTypeInfo))
    opening = with_imports_frozen(telling_each(_Opening(encoder, is_row).run))
    result: DataFrame = rows.mapInArrow(opening, schema)
    return result


@attrs.frozen
class _Opening:
    """Makes rows of the elements in parcels.

    Args:
        encoder: Of the rows.
        is_row: Whether an element is a row, and not the value of a column.
    """

    encoder: OutputEncoder
    is_row: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Open all parcels, for `mapInArrow`."""
        as_row: Callable[[Any], Any] = (lambda value: value) if self.is_row else lambda v: (v,)
        for batch in batches:
            for payload in batch.column("payload").to_pylist():
                records = pickle.loads(payload)  # noqa: S301  # of the job's own stages
                rows = [as_row(value) for _, value, _ in records]
                yield self.encoder.encode(rows, [None] * len(rows))
