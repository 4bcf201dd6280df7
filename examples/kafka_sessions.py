# SPDX-License-Identifier: Apache-2.0
"""Clicks from a topic of Kafka become sessions in another topic, without a jar.

    python examples/kafka_sessions.py /tmp/kafka-sessions

starts a broker (librdkafka's mock cluster, in this process), writes clicks to the topic `clicks`,
and runs a stream twice.  The second run continues from the offsets in the checkpoint, and reads the
clicks that came after the first run.

To use your brokers, pass `host:port` as a second argument.  Both topics must exist.

It needs Java 17 and `pip install '.[kafka]'`.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from sessions import local_session

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.kafka import drop_repeats, register
from pyflinklike.spark import key_by

FORMAT = "pyflinklike_kafka"  # with Spark's own connector: "kafka"
PAUSE = 30 * 60 * 1_000  # ms: half an hour without a click ends a session
SESSION = "user string, first timestamp, last timestamp, clicks long"
Click = tuple[str, int]


class Sessions(KeyedProcessFunction):
    def open(self, runtime_context: Any) -> None:
        session = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self.session = runtime_context.get_state(ValueStateDescriptor("session", session))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        at = ctx.timestamp()
        first, last, clicks = self.session.value() or (at, at, 0)
        if at - last >= PAUSE:
            yield self.row(value.user)
            first, clicks = at, 0
        self.session.update((first, at, clicks + 1))
        ctx.timer_service().register_event_time_timer(at + PAUSE)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        session = self.session.value()
        if session is not None and session[1] + PAUSE == timestamp:
            yield self.row(ctx.get_current_key())
            self.session.clear()

    def row(self, user: str) -> Any:
        first, last, clicks = self.session.value()
        return user, time_of(first), time_of(last), clicks


def time_of(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, timezone.utc)


def sessions(records: DataFrame) -> DataFrame:
    """Return the sessions of Kafka records with clicks, as Kafka records."""
    click = sql.from_json(sql.col("value").cast("string"), "user string, at timestamp")
    clicks = records.select(click.alias("click")).select("click.*").withWatermark("at", "1 minute")
    found = key_by(clicks, "user").process(Sessions(), SESSION, event_time="at")
    return found.selectExpr("user key", "to_json(struct(*)) value")


def run(spark: SparkSession, servers: str, checkpoint: Path) -> None:
    """Let the stream read all new clicks."""
    brokers = {"kafka.bootstrap.servers": servers}
    clicks = (
        spark.readStream.format(FORMAT)
        .options(**brokers, subscribe="clicks", startingOffsets="earliest")
        .load()
    )
    query = (
        sessions(clicks)
        .writeStream.format(FORMAT)
        .options(**brokers, topic="sessions", recordIds="true")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def found(spark: SparkSession, servers: str) -> list[tuple[str, str, int]]:
    """Return user, start and number of clicks of all sessions in the topic, without repeats."""
    records = (
        spark.read.format(FORMAT)
        .options(**{"kafka.bootstrap.servers": servers})
        .options(subscribe="sessions", includeHeaders="true")
        .load()
    )
    rows = drop_repeats(records, within=PAUSE).selectExpr("cast(value as string) value").collect()
    values = [json.loads(row.value) for row in rows]
    return sorted((each["user"], each["first"], each["clicks"]) for each in values)


def write(producer: Producer, clicks: Sequence[Click]) -> None:
    """Write clicks of users at times in milliseconds."""
    for user, at in clicks:
        value = json.dumps({"user": user, "at": time_of(at).isoformat()})
        producer.produce("clicks", value, user)
    producer.flush()


def brokers_of(arguments: Sequence[str]) -> Producer:
    """Return a producer for your brokers, or for a mock one that lives as long as the producer."""
    if len(arguments) > 1:
        return Producer({"bootstrap.servers": arguments[1]})
    return Producer({"bootstrap.servers": "mine", "test.mock.num.brokers": 1, "log_level": 0})


def main(arguments: Sequence[str]) -> None:
    producer = brokers_of(arguments)
    brokers = producer.list_topics(timeout=10).brokers.values()
    servers = ",".join(f"{each.host}:{each.port}" for each in brokers)
    spark = local_session("Clicks to sessions")
    register(spark)
    minute = 60 * 1_000
    write(producer, [("ann", 0), ("bob", minute), ("ann", 5 * minute), ("bob", 200 * minute)])
    run(spark, servers, Path(arguments[0]))
    print("after the first run:", *found(spark, servers), sep="\n  ")
    write(producer, [("ann", 201 * minute), ("bob", 202 * minute), ("eve", 400 * minute)])
    run(spark, servers, Path(arguments[0]))
    print("after the second:", *found(spark, servers), sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
