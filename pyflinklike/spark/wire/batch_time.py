# SPDX-License-Identifier: Apache-2.0
"""The time at which a batch began: the processing time if Spark tells its workers none."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.spark.wire.names import BATCH_TIME

__all__ = ["with_batch_time"]


def with_batch_time(df: DataFrame) -> DataFrame:
    """Append a column with the time in ms at which the batch began.

    Args:
        df: Preferably has few rows, since the time is computed for each.
    """
    return df.withColumn(BATCH_TIME, _opaque(F.unix_millis(F.current_timestamp())))


def _opaque(number: Column) -> Column:
    # Spark writes a literal into the code that it generates.  A literal that changes makes every
    # micro-batch compile its stage again and run it cold.  Spark interprets a sort with a custom
    # comparison, so neither the sort nor the literal in it becomes part of the generated code.
    return F.get(F.array_sort(F.array(number), _compared), F.lit(0))


def _compared(one: Column, other: Column) -> Column:
    return F.when(one < other, -1).when(one > other, 1).otherwise(0)
