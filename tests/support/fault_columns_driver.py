# SPDX-License-Identifier: Apache-2.0
"""A driver of a function of either kind, to be killed: `python fault_columns_driver.py <job as JSON>`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from fault_support import SCHEMA, Place, write
from parity import OUTPUT, InColumns, ParityByElement
from pyspark.sql import SparkSession
from spark_support import pickle_by_value

from pyflinklike.spark import key_by

pickle_by_value("parity")
_PATIENCE = 240


def main(job: dict[str, Any]) -> None:
    """Run the function until all input is read."""
    spark = SparkSession.builder.config(map=job["settings"]).getOrCreate()
    place = Place(Path(job["root"]))
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    function: Any = InColumns() if job["in_columns"] else ParityByElement()
    rows = key_by(reader.parquet(str(place.input)), "key").process(
        function, OUTPUT, event_time="ts", max_parallelism=3, uid="parity"
    )
    write(rows, place).awaitTermination(_PATIENCE)
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
