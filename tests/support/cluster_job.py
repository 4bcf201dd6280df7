# SPDX-License-Identifier: Apache-2.0
"""A job for `spark-submit`: running totals of a stream of files; `cluster_job.py <directory>`.

It prints where pyflinklike was found and the totals; an error of ours in one line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    root = Path(sys.argv[1])
    for artifact in sys.argv[2:]:
        spark.addArtifacts(artifact, pyfile=True)

    import pyflinklike
    from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
    from pyflinklike.errors import SparkSetupError
    from pyflinklike.spark import key_by

    class RunningTotal(KeyedProcessFunction):
        def open(self, runtime_context: Any) -> None:
            self.total = runtime_context.get_state(ValueStateDescriptor("total", Types.LONG()))

        def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
            total = (self.total.value() or 0) + value.amount
            self.total.update(total)
            yield ctx.get_current_key(), total, pyflinklike.__file__

    payments = spark.readStream.schema("user string, amount long").json(str(root / "input"))
    try:
        totals = key_by(payments, "user").process(
            RunningTotal(), "user string, total long, found string"
        )
    except SparkSetupError as error:
        sys.exit(f"SparkSetupError: {error}")
    query = (
        totals.writeStream.format("parquet")
        .option("checkpointLocation", str(root / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(root / "output"))
    )
    query.awaitTermination()
    rows = spark.read.parquet(str(root / "output")).collect()
    sys.stdout.write(
        json.dumps({"driver": pyflinklike.__file__, "rows": sorted(map(tuple, rows))}) + "\n"
    )
    spark.stop()
