# SPDX-License-Identifier: Apache-2.0
"""A driver that reads a topic as history, and goes on with it: `python kafka_history_driver.py <job>`.

    clicks --batch--> sessions to files `past`, state to a savepoint
    clicks --stream that begins there--> sessions to files `live`

It may be killed anywhere, and is started again as it is.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from kafka_streams import Sessions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from pyflinklike.kafka import register
from pyflinklike.spark import history_of, key_by
from pyflinklike.state_processor import is_savepoint


def main(job: dict[str, Any]) -> None:
    """Run the batch, if its savepoint is not there, and the stream to the end of the topic."""
    spark = SparkSession.builder.config(map=job["settings"]).getOrCreate()
    register(spark)
    root = Path(job["root"])
    savepoint = str(root / "savepoint")
    options = {**job["options"], "subscribe": "clicks", "maxOffsetsPerTrigger": job["most"]}
    history = history_of(spark, format="pyflinklike_kafka", options=options)
    if not is_savepoint(savepoint):
        past = sessions(history.batch(), savepoint_to=savepoint)
        past.write.mode("overwrite").parquet(str(root / "past"))
    (root / "batch is done").touch()
    while not (root / "all is there").exists():
        time.sleep(0.05)
    live = sessions(history.stream(savepoint), from_savepoint=savepoint)
    writing = live.writeStream.format("parquet").option("path", str(root / "live"))
    writing = writing.option("checkpointLocation", str(root / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()
    spark.stop()


def sessions(records: DataFrame, **savepoints: Any) -> DataFrame:
    """Clicks to sessions."""
    click = sql.from_json(sql.col("value").cast("string"), "user string, at timestamp")
    return key_by(records.select(click.alias("click")).select("click.*"), "user").process(
        Sessions(),
        "user string, first long, last long, clicks long",
        event_time="at",
        watermark_delay="200 seconds",
        max_parallelism=8,
        **savepoints,
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
