# SPDX-License-Identifier: Apache-2.0
"""Ends a stream: its watermark goes to the maximum, so every window closes and every timer fires.

Spark's streams have no end, and only records move the watermark.  So `with_ending_watermark` unites
a stream with a second source, a folder of files.  `end_input` writes a single row there, with a time
after all others.  The row passes the watermark's node and is dropped behind it.
"""

from __future__ import annotations

import os

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._plan.event_time import check_event_time, has_watermark
from pyflinklike.spark._wire.system_columns import END_OF_INPUT, quote

__all__ = ["end_input", "with_ending_watermark"]

_END_TYPE = "milliseconds long"


def with_ending_watermark(
    df: DataFrame, event_time: str, delay: str, *, end_marker: str | os.PathLike[str]
) -> DataFrame:
    """Declare a watermark on a stream as `withWatermark` does, so that `end_input` can end it.

    Args:
        df: A stream without a watermark; a batch, which ends by itself, is returned as it is.
        event_time: Name of the timestamp column.
        delay: How late records may be, as `withWatermark` takes it, such as "10 minutes".
        end_marker: The folder for the end of this stream alone, as durable as the checkpoint of its
            query; it is made if it does not exist.

    Raises:
        DeclarationTypeError, DeclarationValueError: There is no such column, it does not hold
            instants, or the stream has a watermark.
    """
    check_event_time(df, event_time)
    if not df.isStreaming:
        return df
    if has_watermark(df):
        msg = (
            "with_ending_watermark declares a watermark, got a stream that has one already; leave "
            "out its withWatermark"
        )
        raise DeclarationValueError(msg)
    # The row must pass the watermark's node before it is dropped.  Spark moves conditions on other
    # columns before that node, so this one is on the event time.
    time = F.col(quote(event_time))
    is_record = time.isNull() | (time < F.timestamp_millis(F.lit(END_OF_INPUT)))
    ending = df.union(_ends(df, event_time, _path(end_marker)))
    return ending.withWatermark(event_time, delay).where(is_record)


def end_input(spark: SparkSession, end_marker: str | os.PathLike[str]) -> None:
    """End a stream that was made by `with_ending_watermark`.

    The end comes with the next micro-batch of its query, and all event timers fire in the one after
    it, under the watermark `MAX_WATERMARK`.  So call it after all records were processed: records
    that come later are late.  A second call has no effect.

    Args:
        spark: Any session that reaches the folder.
        end_marker: The folder that you gave to `with_ending_watermark`.
    """
    row = spark.createDataFrame([(END_OF_INPUT,)], _END_TYPE)
    row.coalesce(1).write.mode("append").parquet(_path(end_marker))


def _ends(df: DataFrame, event_time: str, path: str) -> DataFrame:
    """Read the rows that end a stream, with its columns."""
    spark = df.sparkSession
    spark.createDataFrame([], _END_TYPE).write.mode("ignore").parquet(path)
    ends = spark.readStream.schema(_END_TYPE).parquet(path)
    time = F.timestamp_millis("milliseconds")
    return ends.select(
        [
            (time if field.name == event_time else F.lit(None).cast(field.dataType)).alias(
                field.name
            )
            for field in df.schema.fields
        ]
    )


def _path(end_marker: str | os.PathLike[str]) -> str:
    if not isinstance(end_marker, (str, os.PathLike)) or not os.fspath(end_marker):
        msg = f"end_marker must be the path of a folder, got {short_repr(end_marker)}"
        raise DeclarationTypeError(msg)
    return os.fspath(end_marker)
