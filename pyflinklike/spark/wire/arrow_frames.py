# SPDX-License-Identifier: Apache-2.0
"""DataFrames of Arrow tables, also where PySpark cannot make them itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

__all__ = ["frame_of"]


def frame_of(spark: SparkSession, table: pa.Table, schema: st.StructType) -> DataFrame:
    """An Arrow table as a DataFrame, in one partition on PySpark 3.5.

    Args:
        spark: The session.
        table: Its columns have the Arrow types of the schema.
        schema: Of the DataFrame.
    """
    if hasattr(DataFrame, "toArrow"):  # both came with PySpark 4.0
        return spark.createDataFrame(table, schema)

    def rows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()

    # 3.5 takes pandas, whose conversions change values.
    return spark.range(1, numPartitions=1).mapInArrow(rows, schema)
