# SPDX-License-Identifier: Apache-2.0
"""DataFrames from Arrow tables, also on PySpark 3.5, which cannot make them itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

__all__ = ["frame_of"]


def frame_of(spark: SparkSession, table: pa.Table, schema: st.StructType) -> DataFrame:
    """Make a DataFrame from an Arrow table, which must have the Arrow types of the schema."""
    # PySpark 4.0 brought both `toArrow` and DataFrames from Arrow tables.
    if hasattr(DataFrame, "toArrow"):
        return spark.createDataFrame(table, schema)

    def rows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from table.to_batches()

    # PySpark 3.5 would take a pandas DataFrame, but converting to pandas changes values.
    return spark.range(1, numPartitions=1).mapInArrow(rows, schema)
