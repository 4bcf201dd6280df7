# SPDX-License-Identifier: Apache-2.0
"""Taxi rides that last longer than two hours, from a stream of starts and a stream of ends.

    python examples/long_rides.py /tmp/long-rides 600

writes starts and ends of rides into two directories, and runs a stream over both, in two runs with
a restart between them.  If no end has come two hours after a start, a timer reports the ride while
it still lasts.  The timer fires when both streams have reached that time.  If an end comes before
its start, it waits in state.  At the end the program compares the result with a plain loop.

It needs Java 17 and `pip install '.[spark]'`.
"""

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from fraud_rules import write
from pyspark.sql import DataFrame, SparkSession
from sessions import local_session

from pyflinklike import KeyedCoProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark import connect

STARTS = "ride long, taxi string, start timestamp"
ENDS = "ride_id long, passengers int, end timestamp"
LONG = "ride long, taxi string"
LIMIT = timedelta(hours=2)
BATCHES = 6


class LongRides(KeyedCoProcessFunction):
    """Reports each ride once if it lasts longer than the limit."""

    def open(self, runtime_context: Any) -> None:
        start = Types.TUPLE([Types.LONG(), Types.STRING()])
        self.start = runtime_context.get_state(ValueStateDescriptor("start", start))
        self.end = runtime_context.get_state(ValueStateDescriptor("end", Types.LONG()))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        due = ctx.timestamp() + LIMIT // timedelta(milliseconds=1)
        end = self.end.value()
        if end is not None:
            self.end.clear()
            if end > due:
                yield value.ride, value.taxi
            return
        self.start.update((due, value.taxi))
        ctx.timer_service().register_event_time_timer(due)

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        start = self.start.value()
        if start is None:
            # The start comes later, or the timer has already reported the ride.
            self.end.update(ctx.timestamp())
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1)
            return
        due, taxi = start
        self.start.clear()
        ctx.timer_service().delete_event_time_timer(due)
        if ctx.timestamp() > due:
            yield value.ride_id, taxi

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        start = self.start.value()
        if start is not None and start[0] == timestamp:
            yield ctx.get_current_key(), start[1]
            self.start.clear()
        elif start is None:
            # Both streams are past the end, so no start can come for it.
            self.end.clear()


def made(rides: int, seed: int = 11) -> list[tuple[list[Any], list[Any]]]:
    """Return starts and ends of rides in micro-batches of an hour; some rides never end."""
    random, begin = Random(seed), datetime(2026, 3, 1, 6)  # noqa: S311 - not for secrets
    batches: list[tuple[list[Any], list[Any]]] = [([], []) for _ in range(BATCHES)]
    for ride in range(rides):
        start = begin + timedelta(seconds=random.randrange(3 * 3_600))
        taxi = f"taxi {random.randrange(40)}"
        batches[_hour(start - begin)][0].append((ride, taxi, start))
        end = start + timedelta(minutes=random.choice([5, 30, 119, 120, 121, 150]))
        if random.random() < 0.9:
            # Some ends arrive an hour early, some of them before their starts.
            hour = max(0, _hour(end - begin) - (random.random() < 0.2))
            batches[hour][1].append((ride, random.randrange(1, 5), end))
    # A last record in both streams makes every timer of the rides fire.
    last = begin + timedelta(hours=BATCHES + 4)
    batches[-1][0].append((-1, "taxi", last))
    batches[-1][1].append((-1, 1, last))
    return batches


def _hour(since: timedelta) -> int:
    return min(since // timedelta(hours=1), BATCHES - 1)


def expected(batches: list[tuple[list[Any], list[Any]]]) -> list[tuple[int, str]]:
    """Return the long rides, found by a plain loop."""
    ends = {ride: end for _, each in batches for ride, _, end in each}
    starts = [each for some, _ in batches for each in some]
    return sorted(
        (ride, taxi)
        for ride, taxi, start in starts
        if ride >= 0 and (ride not in ends or ends[ride] - start > LIMIT)
    )


def long_rides(spark: SparkSession, directory: Path) -> DataFrame:
    """Return the long rides for the starts and ends in a directory."""

    def stream(name: str, schema: str) -> DataFrame:
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(directory / name))

    # An end may come an hour before its start, so a start may be an hour late.
    starts = stream("starts", STARTS).withWatermark("start", "1 hour")
    ends = stream("ends", ENDS).withWatermark("end", "1 hour")
    connected = connect(starts, ends).key_by("ride", "ride_id")
    return connected.process(LongRides(), LONG, event_time=("start", "end"))


def run(spark: SparkSession, directory: Path) -> list[tuple[Any, ...]]:
    """Let the stream read the new files, and return all long rides since its first start."""

    def keep(output: DataFrame, batch_id: int) -> None:
        output.write.mode("overwrite").parquet(str(directory / "long" / str(batch_id)))

    query = (
        long_rides(spark, directory)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(*map(str, (directory / "long").iterdir()))
    return sorted(tuple(row) for row in found.collect())


def main(directory: Path, rides: int) -> None:
    """Stream in two runs, and compare with the loop."""
    spark = local_session("long rides")
    batches = made(rides)
    for number, (starts, ends) in enumerate(batches):
        write(spark, directory / "starts", STARTS, starts, number)
        write(spark, directory / "ends", ENDS, ends, number)
        if number in (BATCHES // 2 - 1, BATCHES - 1):
            found = run(spark, directory)
            print(f"after {number + 1} batches: {len(found)} long rides")
    wanted = expected(batches)
    print(f"{len(wanted)} of {rides} rides are long")
    if found != wanted:
        sys.exit("the stream and the loop differ")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 600)
