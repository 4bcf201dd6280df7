# SPDX-License-Identifier: Apache-2.0
"""A driver with a chain of two operators, to be killed: `python fault_chain_driver.py <job as JSON>`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fault_support import SCHEMA as INPUT
from fault_support import Place, write
from pyspark.sql import DataFrame, SparkSession
from relay import SCHEMA, Relay
from spark_support import pickle_by_value

from pyflinklike.spark import key_by

pickle_by_value("relay")
_PATIENCE = 240


def chained(spark: SparkSession, place: Place) -> DataFrame:
    """The input of a place through two operators."""
    reader = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1)
    rows = reader.parquet(str(place.input)).selectExpr("key", "ts", "n", "'' as trace")
    for number, groups in enumerate((3, 5)):
        rows = key_by(rows, "key").process(
            Relay(4), SCHEMA, event_time="ts", max_parallelism=groups, uid=f"relay {number}"
        )
    return rows.selectExpr("key", "unix_millis(ts)", "n", "trace")


def main(job: dict[str, Any]) -> None:
    """Run the chain until all input is read."""
    spark = SparkSession.builder.config(map=job["settings"]).getOrCreate()
    place = Place(Path(job["root"]))
    query = write(chained(spark, place), place)
    query.awaitTermination(_PATIENCE)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
