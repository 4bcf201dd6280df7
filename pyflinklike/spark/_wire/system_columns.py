# SPDX-License-Identifier: Apache-2.0
"""System columns, which the runtime adds to the user's, and the meaning of Spark's watermarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import SparkSetupError

KEY_GROUP = "__key_group"
"""The key group of a record or of packed records."""

BATCH_TIME = "__batch_time"
"""The time in ms at which the micro-batch or batch began."""

BEFORE_WATERMARK = "__before_watermark"
"""Whether an operator emitted a record before the watermark of the micro-batch passed on."""

ARRIVAL = "__arrival"
"""The position of a record among the records of its task, in a batch."""

LAST_WATERMARK = "__last_watermark"
"""The watermark in ms, in the row that ends a key group of a batch with a savepoint; else null."""

INPUT = "__input"
"""The number of a record's input, from 1, if an operator has several inputs."""

INPUTS = ("__input_1", "__input_2")
"""The columns of structs for each input; the column of the other input is null."""

OUTPUT_TAG = "output_tag"
"""The id of the side output of a row; null if the row belongs to the main output."""


PHASE_MARK = "pyflinklike.beforeWatermark"
"""The metadata of the column that says which records came before the watermark."""


def quote(name: str) -> str:
    """Quote a column's name so that Spark parses any name."""
    return "`" + name.replace("`", "``") + "`"


def frame_of(spark: SparkSession, table: pa.Table, schema: st.StructType) -> DataFrame:
    """Make a DataFrame from an Arrow table whose types are the Arrow types of the schema."""
    # PySpark 4.0 brought both `toArrow` and DataFrames from Arrow tables.
    if hasattr(DataFrame, "toArrow"):
        return spark.createDataFrame(table, schema)

    def rows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()

    # PySpark 3.5 would take a pandas DataFrame, but converting to pandas changes values.
    return spark.range(1, numPartitions=1).mapInArrow(rows, schema)


def with_batch_time(df: DataFrame) -> DataFrame:
    """Append a column with the time in ms at which the batch began.

    Args:
        df: A DataFrame, preferably of few rows: Spark computes the time for each of them.
    """
    return df.withColumn(BATCH_TIME, _opaque(F.unix_millis(F.current_timestamp())))


def _opaque(number: Column) -> Column:
    # Spark writes a literal into the code that it generates.  A literal that changes makes every
    # micro-batch compile its stage again and run it cold.  Spark interprets a sort with a custom
    # comparison, so neither the sort nor the literal in it becomes part of the generated code.
    return F.get(F.array_sort(F.array(number), _compare), F.lit(0))


def _compare(one: Column, other: Column) -> Column:
    return F.when(one < other, -1).when(one > other, 1).otherwise(0)


def take_apart(
    records: pa.RecordBatch, before_watermark: str
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Divide records into those before the watermark and the others, both in their old order.

    Args:
        records: The records of a key group in a micro-batch.
        before_watermark: The column that says which records come before the watermark.  The
            system column is dropped; a column of the user stays.
    """
    # The column is null in records that the user has united with an operator's outputs.
    is_early = pc.fill_null(records.column(before_watermark), False)
    if before_watermark == BEFORE_WATERMARK:
        records = records.drop_columns([BEFORE_WATERMARK])
    return records.filter(is_early), records.filter(pc.invert(is_early))


# Spark's watermark cannot become `MAX_WATERMARK`, because it is a record's time less a delay, and
# timestamps end earlier.  So a record with a time beyond all others ends an input.  A watermark near
# that time means the end, whatever the delay.

END_OF_INPUT: Final = 9_000_000_000_000_000
"""The event time in ms of the record that ends an input: in the year 287,168."""
ENDED: Final = 8_000_000_000_000_000
"""The watermark in ms from which the input has ended: delays may be up to 31,000 years."""


def watermark_of(milliseconds: int) -> int:
    """Return the watermark in ms that stands for a watermark of Spark.

    Args:
        milliseconds: Spark's watermark: 0 before the first event, -1 if there is no event time.
    """
    if milliseconds <= 0:
        return MIN_WATERMARK
    return MAX_WATERMARK if milliseconds >= ENDED else milliseconds


def check_watermark(milliseconds: int) -> None:
    """Refuse a watermark of elements that would be taken for the end of the input.

    Args:
        milliseconds: The watermark that elements make, or `MAX_WATERMARK` at their end.

    Raises:
        SparkSetupError: The watermark is too late.
    """
    if ENDED <= milliseconds < MAX_WATERMARK:
        msg = (
            f"watermarks on Spark must be below {ENDED:,} ms, in the year 255,000, got "
            f"{milliseconds:,} from the times of some elements; give times in ms since 1970, and "
            "leave out times that mean never"
        )
        raise SparkSetupError(msg)
