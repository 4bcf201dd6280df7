# SPDX-License-Identifier: Apache-2.0
"""When a micro-batch or batch began: the processing time, if Spark gives the workers none."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.spark.wire.names import BATCH_TIME

__all__ = ["with_batch_time"]


def with_batch_time(df: DataFrame) -> DataFrame:
    """A frame with the time its batch began in a last column, in ms.

    Args:
        df: Preferably of few rows.
    """
    return df.withColumn(BATCH_TIME, _opaque(F.unix_millis(F.current_timestamp())))


def _opaque(number: Column) -> Column:
    # Spark writes a literal into the code that it generates: a literal that changes makes every
    # micro-batch compile its stage again, and run it cold.  A sort with a custom comparison is
    # interpreted, so neither it nor what it sorts is part of that code.
    return F.get(F.array_sort(F.array(number), _compared), F.lit(0))


def _compared(one: Column, other: Column) -> Column:
    return F.when(one < other, -1).when(one > other, 1).otherwise(0)
