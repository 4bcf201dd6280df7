# SPDX-License-Identifier: Apache-2.0
"""A web server's log: the most viewed pages, hourly windows and visits, in batch and stream.

    python examples/access_log.py /tmp/access-log 20000

writes a log of 20,000 lines in the combined format under /tmp/access-log, and finds the five
most viewed pages in three ways:

    awk '{print $7}' access.log | sort | uniq -c | sort -rn | head -5
    the function `Pages` on the log as a batch
    the same function on the log as a stream, one file per micro-batch

Then it shows the busiest hours of a page and the longest visits.  It uses the stores of Kafka
Streams.  `Pages` counts all views in a key-value store, which the pages of a key group share,
and hourly views in a window store.  `Visits` merges page views in a session store.

The log is random.  Page k of 40 is viewed with a probability proportional to k ** -1.2.  Each
visit belongs to one of 200 hosts and begins at a uniform time within two days.  It has a geometric
number of views (mean 4) with exponential pauses (mean 4 minutes).  Lines are in order of time,
except that one line in fifty comes up to 20 lines late.

It needs Java 17, awk, and `pip install '.[spark]'`.
"""

import datetime as dt
import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from sessions import local_session

from pyflinklike import KeyedProcessFunction, RuntimeContext, Types
from pyflinklike.spark import key_by
from pyflinklike.stores import (
    KeyValueStoreDescriptor,
    SessionStoreDescriptor,
    WindowStoreDescriptor,
)

PIPELINE = "awk '{print $7}' access.log | sort | uniq -c | sort -rn | head -5"
HOUR = 3_600_000
PAUSE = dt.timedelta(minutes=30)
PAGES = [
    "/favicon.ico",
    "/css/typography.css",
    *(f"/articles/{number}.html?from=feed" for number in range(1, 39)),
]

# The log


def write_log(directory: Path, lines: int, files: int, seed: int = 4) -> None:
    """Write access.log, and the same lines as several files for a stream."""
    (directory / "parts").mkdir(parents=True, exist_ok=True)
    log = list(draw(lines, random.Random(seed)))  # noqa: S311 - drawn to a seed
    (directory / "access.log").write_text("".join(log))
    size = -(-lines // files)
    for number in range(files):
        part = directory / "parts" / f"{number:04}.log"
        part.write_text("".join(log[number * size : (number + 1) * size]))
        os.utime(part, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first


def draw(lines: int, choice: random.Random) -> Iterator[str]:
    weights = [rank**-1.2 for rank in range(1, len(PAGES) + 1)]
    begin = dt.datetime(2015, 5, 17, tzinfo=dt.timezone.utc)
    views: list[tuple[float, str]] = []
    while len(views) < lines:
        host = f"10.0.0.{choice.randrange(200)}"
        at = choice.uniform(0, 2 * 86_400)
        while True:
            views.append((at, host))
            if choice.random() < 1 / 4:
                break
            at += choice.expovariate(1 / 240)
    late = [
        (place + (choice.randrange(20) if choice.random() < 1 / 50 else 0), place, *view)
        for place, view in enumerate(sorted(views[:lines]))
    ]
    for *_, at, host in sorted(late):
        time = (begin + dt.timedelta(seconds=at)).strftime("%d/%b/%Y:%H:%M:%S %z")
        page = choice.choices(PAGES, weights)[0]
        yield f'{host} - - [{time}] "GET {page} HTTP/1.1" 200 512 "-" "Mozilla/5.0 (X11)"\n'


def parsed(lines: DataFrame) -> DataFrame:
    """Return the host, time and page of each line in the column `value`."""
    fields = F.split("value", " ")  # as awk does
    return lines.select(
        fields[0].alias("host"),
        F.to_timestamp(F.concat(fields[3], fields[4]), "'['dd/MMM/yyyy:HH:mm:ssZ']'").alias("at"),
        fields[6].alias("page"),
    )


# The functions


class Pages(KeyedProcessFunction):
    """Counts the views of each page: in total, and by the hour."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.totals = runtime_context.get_store(
            KeyValueStoreDescriptor("totals", Types.STRING(), Types.LONG(), scope="partition")
        )
        self.hours = runtime_context.get_store(
            WindowStoreDescriptor(
                "hours", Types.STRING(), Types.LONG(), window_size=HOUR, scope="partition"
            )
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        page = value.page
        self.totals[page] = total = self.totals.get(page, 0) + 1
        at = ctx.timestamp()
        assert at is not None  # process(event_time=...) gives every record a time
        hour = at // HOUR * HOUR
        in_hour = self.hours.get(page, hour, 0) + 1
        self.hours.put(page, in_hour, hour)
        yield page, total, hour, in_hour


class Visits(KeyedProcessFunction):
    """Merges the views of a host into visits; half an hour without a view ends a visit."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.visits = runtime_context.get_store(
            SessionStoreDescriptor("visits", Types.STRING(), Types.LONG())
        )

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        at = ctx.timestamp()
        assert at is not None
        update = self.visits.add(
            value.host,
            at,
            1,
            gap=PAUSE,
            grace=dt.timedelta(hours=1),
            initializer=int,
            aggregator=lambda _, view, views: views + view,
            merger=lambda _, one, other: one + other,
        )
        for absorbed in update.removed:
            yield value.host, absorbed.start, absorbed.end, -1, absorbed.value
        if update.session is not None:
            yield value.host, update.session.start, update.session.end, 1, update.agg


def page_views(log: DataFrame) -> DataFrame:
    """Return the counts that `Pages` yields for a log, as a batch or a stream."""
    return key_by(log, "page").process(
        Pages(),
        "page string, total long, hour long, in_hour long",
        event_time="at",
        max_parallelism=4,
    )


def visit_changes(log: DataFrame) -> DataFrame:
    """Return the changes that `Visits` yields: a visit was made (1) or absorbed (-1)."""
    return key_by(log, "host").process(
        Visits(),
        "host string, start long, end long, change int, views long",
        event_time="at",
        max_parallelism=4,
    )


def top_five(views: DataFrame) -> list[tuple[int, str]]:
    """Return the pages with the most views; ties in the order of `sort -rn`, last name first."""
    totals = views.groupBy("page").agg(F.max("total").alias("total"))
    rows = totals.orderBy(F.desc("total"), F.desc("page")).limit(5).collect()
    return [(row.total, row.page) for row in rows]


def visits(changes: DataFrame) -> DataFrame:
    """Return the final visits, which nothing absorbed after they were last made."""
    ends = changes.groupBy("host", "start", "end").agg(
        F.max(F.when(F.col("change") > 0, F.col("views"))).alias("made"),
        F.max(F.when(F.col("change") < 0, F.col("views"))).alias("absorbed"),
    )
    return ends.where("absorbed is null or made > absorbed").drop("absorbed")


def pipeline(directory: Path) -> list[tuple[int, str]]:
    """Return the five most viewed pages, found by the shell."""
    shell = subprocess.run(  # noqa: S603 - a constant
        ["sh", "-c", PIPELINE],  # noqa: S607
        cwd=directory,
        env={**os.environ, "LC_ALL": "C"},
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [line.split() for line in shell.stdout.splitlines()]
    return [(int(count), page) for count, page in lines]


def streamed(result: DataFrame, directory: Path) -> DataFrame:
    """Run a stream to its end, and return its results as a DataFrame."""

    def write(batch: DataFrame, batch_id: int) -> None:
        # If a micro-batch is repeated after a failure, it overwrites its earlier files.
        batch.write.mode("overwrite").parquet(str(directory / "rows" / f"batch={batch_id}"))

    query = (
        result.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(directory / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return result.sparkSession.read.parquet(str(directory / "rows"))


def main(arguments: Sequence[str]) -> None:
    directory, lines = Path(arguments[0]), int(arguments[1])
    write_log(directory, lines, files=4)
    spark = local_session("access log")
    bounded = parsed(spark.read.text(str(directory / "access.log")))
    stream = parsed(spark.readStream.option("maxFilesPerTrigger", 1).text(str(directory / "parts")))
    in_batch = page_views(bounded).persist()
    in_stream = streamed(page_views(stream), directory / "pages")

    print(f"{PIPELINE}\n")
    by_shell, by_batch, by_stream = pipeline(directory), top_five(in_batch), top_five(in_stream)
    for name, found in (("shell", by_shell), ("batch", by_batch), ("stream", by_stream)):
        print(name, *(f"{count:8} {page}" for count, page in found), sep="\n")
    if not by_shell == by_batch == by_stream:
        sys.exit("shell, batch and stream differ")
    hours = in_batch.groupBy("page", F.timestamp_millis("hour").alias("hour"))
    hours.agg(F.max("in_hour").alias("views")).orderBy(F.desc("views")).show(5, truncate=False)
    visited = visits(visit_changes(bounded))
    visited.orderBy(F.desc("made"), "host").show(5, truncate=False)
    print(visited.count(), "visits")


if __name__ == "__main__":
    main(sys.argv[1:])
