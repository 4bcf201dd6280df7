# SPDX-License-Identifier: Apache-2.0
"""When a micro-batch or batch began: the processing time where Spark tells the workers none."""

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
    # Spark writes a number into the code that it generates, so that one which changes has
    # every micro-batch compile its stage anew, and run it cold.  Spark interprets a sort
    # with a comparison of its own, and so keeps it and what it sorts out of that code.
    return F.get(F.array_sort(F.array(number), _compared), F.lit(0))


def _compared(one: Column, other: Column) -> Column:
    return F.when(one < other, -1).when(one > other, 1).otherwise(0)
