# SPDX-License-Identifier: Apache-2.0
"""A driver that may be killed, with two streams: `python kafka_driver.py <job as JSON>`.

    clicks --sessions--> topic `sessions`, with record ids
    items, as Debezium writes them --upsert--> view `items`

Both read until there is no more, some offsets per micro-batch; then the driver ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from kafka_streams import CHANGE, ROW, Sessions, item_upsert
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StreamingQuery

from pyflinklike.kafka import register
from pyflinklike.spark import decode_debezium, key_by
from pyflinklike.views import MaterializedView

_PATIENCE = 400


def main(job: dict[str, Any]) -> None:
    """Run both streams to their ends."""
    spark = SparkSession.builder.config(map=job["settings"]).getOrCreate()
    register(spark)
    with MaterializedView("items", key="id", path=Path(job["root"]) / "view.db") as view:
        queries = [sessions(spark, job), items(spark, job, view)]
        for query in queries:
            if not query.awaitTermination(_PATIENCE):
                raise SystemExit("a query goes on and on")
    spark.stop()


def topic(spark: SparkSession, job: dict[str, Any], name: str) -> DataFrame:
    """A topic as a stream."""
    options = {
        "subscribe": name,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": job["most"],
    }
    return spark.readStream.format("pyflinklike_kafka").options(**job["options"], **options).load()


def sessions(spark: SparkSession, job: dict[str, Any]) -> StreamingQuery:
    """Clicks to sessions to a topic."""
    click = sql.from_json(sql.col("value").cast("string"), "user string, at timestamp")
    clicks = topic(spark, job, "clicks").select(click.alias("click")).select("click.*")
    found = key_by(clicks.withWatermark("at", "200 seconds"), "user").process(
        Sessions(), "user string, first long, last long, clicks long", event_time="at"
    )
    return (
        found.selectExpr("user key", "to_json(struct(*)) value")
        .writeStream.format("pyflinklike_kafka")
        .options(**job["options"], topic="sessions", recordIds="true")
        .option("checkpointLocation", f"{job['root']}/sessions")
        .trigger(availableNow=True)
        .start()
    )


def items(spark: SparkSession, job: dict[str, Any], view: MaterializedView) -> StreamingQuery:
    """Debezium's events to a view."""
    events = decode_debezium(topic(spark, job, "items"), schema=ROW)
    changes = key_by(events, "key").process(item_upsert(), CHANGE)
    return (
        changes.writeStream.foreachBatch(view.foreach_batch)
        .option("checkpointLocation", f"{job['root']}/items")
        .trigger(availableNow=True)
        .start()
    )


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
