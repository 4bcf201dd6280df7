# SPDX-License-Identifier: Apache-2.0
"""The hottest sensors of every hour, with two chained keyed functions.

    python examples/sensor_top.py /tmp/sensor-top 20000

writes a day of 20,000 readings from 40 sensors as files under /tmp/sensor-top.  Readings arrive up
to ten minutes late.  The program finds the three hottest sensors of each hour in three ways:

    a stream that stops and restarts after every file; ending its input emits the last hour
    a batch with the same functions
    Spark SQL on all readings

Then it checks that all three agree.

`HourlyMean` is keyed by sensor.  When the watermark passes the end of an hour, a timer emits the
mean of each sensor.  `Hottest` is keyed by hour, collects the means, and sorts them in a timer of
the same time.  This works because the means reach `Hottest` before the watermark does: when its
timer fires, it has all means of the hour, and none is late.

It needs Java 17 and `pip install '.[spark]'`.
"""

import datetime as dt
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812
from sessions import local_session

from pyflinklike import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    Types,
)
from pyflinklike.spark import end_input, key_by, with_ending_watermark

HOUR = 3_600_000
SENSORS = 40
READING = "sensor string, at timestamp, tenths long"
MEAN = "hour timestamp, at timestamp, sensor string, mean double"
RANKED = "hour timestamp, place int, sensor string, mean double"
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
Ranking = set[tuple[dt.datetime, int, str, float]]

# The readings


def write_readings(directory: Path, readings: int, files: int, seed: int = 7) -> list[Path]:
    """Write the readings in the order of their arrival, and return the files."""
    rows = sorted(draw(readings, random.Random(seed)))  # noqa: S311 - drawn to a seed
    size = -(-readings // files)
    written = []
    for number in range(files):
        _, sensors, times, tenths = zip(*rows[number * size : (number + 1) * size])
        instants = pa.array(times, pa.timestamp("us", tz="UTC"))
        written.append(directory / f"{number:04}.parquet")
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"sensor": sensors, "at": instants, "tenths": tenths}), written[-1])
    return written


def draw(readings: int, choice: random.Random) -> Iterator[tuple[float, str, dt.datetime, int]]:
    """Yield the arrival of each reading, its sensor, its time, and tenths of a degree."""
    begin = dt.datetime(2024, 7, 1, tzinfo=dt.timezone.utc)
    warmth = [choice.gauss(200, 30) for _ in range(SENSORS)]
    for _ in range(readings):
        sensor = choice.randrange(SENSORS)
        second = choice.randrange(24 * 3_600)
        arrives = second + choice.random() ** 4 * 600
        tenths = round(warmth[sensor] + choice.gauss(0, 20))
        yield arrives, f"s{sensor:02}", begin + dt.timedelta(seconds=second), tenths


# The functions


class HourlyMean(KeyedProcessFunction):
    """Emits the mean of a sensor's readings when an hour is over."""

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.LONG(), Types.LONG()])
        self.hours = runtime_context.get_map_state(
            MapStateDescriptor("sum and count", Types.LONG(), pair)
        )
        self.too_late = runtime_context.get_metrics_group().counter("too_late")

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        at = ctx.timestamp()
        assert at is not None  # process(event_time=...) gives every reading a time
        hour = at // HOUR * HOUR
        last = hour + HOUR - 1
        if last <= ctx.timer_service().current_watermark():
            self.too_late.inc()
            return
        total, count = self.hours.get(hour) or (0, 0)
        self.hours.put(hour, (total + value.tenths, count + 1))
        ctx.timer_service().register_event_time_timer(last)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        hour = timestamp + 1 - HOUR
        total, count = self.hours.get(hour) or (0, 1)
        self.hours.remove(hour)
        yield instant(hour), instant(timestamp), ctx.get_current_key(), total / count


class Hottest(KeyedProcessFunction):
    """Emits the sensors with the highest means of an hour.

    Args:
        places: The number of sensors.
    """

    def __init__(self, places: int) -> None:
        self.places = places

    def open(self, runtime_context: RuntimeContext) -> None:
        pair = Types.TUPLE([Types.DOUBLE(), Types.STRING()])
        self.means = runtime_context.get_list_state(ListStateDescriptor("means", pair))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.means.add((value.mean, value.sensor))
        at = ctx.timestamp()
        assert at is not None
        # All means of an hour have this time, and come before the watermark reaches it.
        ctx.timer_service().register_event_time_timer(at)

    def on_timer(self, timestamp: int, _: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:
        hottest = sorted(self.means.get(), key=lambda mean: (-mean[0], mean[1]))
        self.means.clear()
        for place, (mean, sensor) in enumerate(hottest[: self.places], start=1):
            yield instant(timestamp + 1 - HOUR), place, sensor, mean


def instant(milliseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(milliseconds=milliseconds)


def hottest(readings: DataFrame, places: int = 3) -> DataFrame:
    """Return the hottest sensors of each hour, for a stream or a batch of readings."""
    means = key_by(readings, "sensor").process(
        HourlyMean(), MEAN, event_time="at", max_parallelism=4
    )
    return key_by(means, "hour").process(
        Hottest(places), RANKED, event_time="at", max_parallelism=2
    )


def by_sql(readings: DataFrame, places: int = 3) -> DataFrame:
    """Return the same for a batch, with Spark's own aggregation and ranking."""
    means = readings.groupBy(F.date_trunc("hour", "at").alias("hour"), "sensor").agg(
        (F.sum("tenths") / F.count("tenths")).alias("mean")
    )
    order = Window.partitionBy("hour").orderBy(F.desc("mean"), "sensor")
    ranked = means.withColumn("place", F.row_number().over(order))
    return ranked.where(ranked.place <= places).select("hour", "place", "sensor", "mean")


class Stream:
    """A stream in a folder, which you can run several times.

    Args:
        spark: The session.
        directory: The folder for input, state, results and the marker that ends the stream.
    """

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._input, self._state = directory / "input", directory / "state"
        self._results, self._end = directory / "results", directory / "end"
        self._input.mkdir(parents=True, exist_ok=True)

    def receive(self, file: Path) -> None:
        """Let the stream read a file, in one micro-batch."""
        file.rename(self._input / file.name)
        self._run()

    def end(self) -> None:
        """End the input, so that the stream emits the last hour."""
        end_input(self._spark, self._end)
        self._run()

    def _run(self) -> None:
        files = self._spark.readStream.schema(READING).parquet(str(self._input))
        readings = with_ending_watermark(files, "at", "10 minutes", end_marker=self._end)
        query = (
            hottest(readings)
            .writeStream.foreachBatch(self._write)
            .option("checkpointLocation", str(self._state))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def _write(self, batch: DataFrame, batch_id: int) -> None:
        # If a micro-batch is repeated after a failure, it overwrites its earlier files.
        batch.write.mode("overwrite").parquet(str(self._results / f"batch={batch_id}"))

    def results(self) -> Ranking:
        """Return the results so far."""
        return ranking(self._spark.read.parquet(str(self._results)).drop("batch"))


def ranking(rows: DataFrame) -> Ranking:
    return {tuple(row) for row in rows.collect()}


def main(arguments: Sequence[str]) -> None:
    directory, readings = Path(arguments[0]), int(arguments[1])
    spark = local_session("sensor top")
    files = write_readings(directory / "arriving", readings, files=6)
    everything = spark.createDataFrame(
        pa.concat_tables(map(pq.read_table, files)).to_pandas(), READING
    ).persist()
    stream = Stream(spark, directory / "stream")
    for file in files:
        stream.receive(file)  # each file has its own run, so the stream restarts
        print(f"after {file.name}: {len({hour for hour, *_ in stream.results()})} hours")
    stream.end()
    streamed = stream.results()
    for hour, place, sensor, mean in sorted(streamed)[:6]:
        print(f"{hour:%H:%M} {place}. {sensor} {mean / 10:.2f} degrees")
    batched, queried = ranking(hottest(everything)), ranking(by_sql(everything))
    if not streamed == batched == queried:
        sys.exit("stream, batch and SQL differ")
    print(f"{len(streamed)} places: stream, batch and SQL agree")


if __name__ == "__main__":
    main(sys.argv[1:])
