# SPDX-License-Identifier: Apache-2.0
"""Fraud detection with rules that change while the stream runs.

    python examples/fraud_rules.py /tmp/fraud-rules 2000

writes payments and rule changes into two directories, and runs a stream over both: first over half
of the micro-batches and then, after a restart, over the rest.  The rules are broadcast, so every
payment is checked against all current rules.  After each run the program compares the alerts with a
plain loop.

A rule limits how much a user may pay within some minutes.  Records of their own stream add, change
and remove rules.  The job keeps payments only as long as the longest rule needs them.

It needs Java 17 and `pip install '.[spark]'`.
"""

import os
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from sessions import local_session

from pyflinklike import KeyedBroadcastProcessFunction, MapStateDescriptor, Types
from pyflinklike.spark import broadcast, key_by

PAYMENTS = "user string, amount long, at timestamp"
RULES = "rule string, minutes long, limit long"
ALERTS = "rule string, user string, at timestamp, total long"
KNOWN = MapStateDescriptor("rules", Types.STRING(), Types.TUPLE([Types.LONG(), Types.LONG()]))
PAID = MapStateDescriptor("paid", Types.LONG(), Types.LONG())
MINUTE = 60_000
BATCHES = 6


class Check(KeyedBroadcastProcessFunction):
    """Alerts if a user has paid more than a rule's limit within its minutes."""

    def open(self, runtime_context: Any) -> None:
        self.paid = runtime_context.get_map_state(PAID)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(KNOWN)
        if value.limit is None:
            rules.remove(value.rule)
        else:
            rules.put(value.rule, (value.minutes, value.limit))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        now = ctx.timestamp()
        self.paid.put(now, (self.paid.get(now) or 0) + value.amount)
        rules = dict(ctx.get_broadcast_state(KNOWN).items())
        for rule, (minutes, limit) in sorted(rules.items()):
            total = sum(paid for at, paid in self.paid.items() if at > now - minutes * MINUTE)
            if total > limit:
                yield rule, value.user, value.at, total
        longest = max((minutes for minutes, _ in rules.values()), default=0)
        for at in list(self.paid):
            if at <= now - longest * MINUTE:
                self.paid.remove(at)


class Batch(NamedTuple):
    """The input of a micro-batch: rules first, then payments in order of time."""

    rules: list[tuple[str, int | None, int | None]]
    payments: list[tuple[str, int, datetime]]


def made(payments: int, seed: int = 7) -> list[Batch]:
    """Return payments of ten users over six hours, and rules that are added, changed, removed."""
    random, start = Random(seed), datetime(2026, 3, 1, 12)  # noqa: S311 - not for secrets
    changes: list[list[Any]] = [
        [("fast", 10, 900), ("much", 120, 4_000)],
        [],
        [("fast", 10, 500)],
        [("much", None, None)],
        [("night", 300, 3_000)],
        [("fast", None, None)],
    ]
    size = payments // BATCHES
    batches = []
    for number, rules in enumerate(changes):
        begin = start + timedelta(hours=number)
        seconds = sorted(random.sample(range(3_600 * 10), size))
        paid = [
            (
                f"user {random.randrange(10)}",
                random.randrange(1, 200),
                begin + timedelta(seconds=s / 10),
            )
            for s in seconds
        ]
        batches.append(Batch(rules, paid))
    return batches


def expected(batches: list[Batch]) -> list[tuple[Any, ...]]:
    """Return the alerts, found by a plain loop."""
    rules: dict[str, Any] = {}
    paid: list[tuple[str, int, datetime]] = []
    alerts: list[tuple[Any, ...]] = []
    for batch in batches:
        for rule, minutes, limit in batch.rules:
            rules.pop(rule, None)
            if limit is not None:
                rules[rule] = (timedelta(minutes=minutes or 0), limit)
        longest = max((length for length, _ in rules.values()), default=timedelta())
        for user, amount, at in batch.payments:
            paid.append((user, amount, at))
            for rule, (length, limit) in rules.items():
                total = sum(a for u, a, when in paid if u == user and when > at - length)
                if total > limit:
                    alerts.append((rule, user, at, total))
            paid = [each for each in paid if each[0] != user or each[2] > at - longest]
    return sorted(alerts)


def write(spark: SparkSession, directory: Path, schema: str, rows: list[Any], number: int) -> None:
    """Add the records of a micro-batch to the input of a stream, as one file."""
    frame = spark.createDataFrame(rows, schema)
    part = directory.with_name(f"{directory.name}-{number}")
    frame.coalesce(1).write.mode("overwrite").parquet(str(part))
    directory.mkdir(parents=True, exist_ok=True)
    (file,) = part.glob("*.parquet")
    os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))  # Spark reads the oldest first
    file.rename(directory / f"{number:04}.parquet")


def alerts(spark: SparkSession, directory: Path) -> DataFrame:
    """Return the alerts for the payments and rules in a directory."""

    def stream(name: str, schema: str) -> DataFrame:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(directory / name))

    payments, rules = stream("payments", PAYMENTS), stream("rules", RULES)
    return (
        key_by(payments, "user")
        .connect(broadcast(rules, KNOWN))
        .process(Check(), ALERTS, event_time="at")
    )


def run(spark: SparkSession, directory: Path) -> list[tuple[Any, ...]]:
    """Let the stream read the new files, and return all alerts since its first start."""

    def keep(output: DataFrame, batch_id: int) -> None:
        output.write.mode("overwrite").parquet(str(directory / "alerts" / str(batch_id)))

    query = (
        alerts(spark, directory)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(*map(str, (directory / "alerts").iterdir()))
    return sorted(tuple(row) for row in found.collect())


def main(directory: Path, payments: int) -> None:
    """Stream in two runs, and compare with the loop."""
    spark = local_session("fraud rules")
    batches = made(payments)
    for number, batch in enumerate(batches):
        write(spark, directory / "payments", PAYMENTS, batch.payments, number)
        write(spark, directory / "rules", RULES, batch.rules, number)
        if number in (BATCHES // 2 - 1, BATCHES - 1):
            found = run(spark, directory)
            wanted = expected(batches[: number + 1])
            print(f"after {number + 1} batches: {len(found)} alerts, {len(wanted)} expected")
            if found != wanted:
                sys.exit("the stream and the loop differ")
    for rule in ("fast", "much", "night"):
        print(f"{rule}: {sum(alert[0] == rule for alert in found)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2_000)
