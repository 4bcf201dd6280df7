# SPDX-License-Identifier: Apache-2.0
"""Sessions of clicks that arrive out of order, some of them too late.

    python examples/click_sessions.py DIRECTORY [USERS]

Phones keep clicks while they have no network, and send them later.  A session ends when a user
pauses for half an hour.  The stream writes a row for each session when it ends, and another row
when a late click corrects it.  Clicks that come even later go to a side output, for someone to
look at.  The stream stops in the middle and continues from its checkpoint.

A plain loop over all clicks, without Spark, checks the result.
"""

from __future__ import annotations

import datetime as dt
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from sessions import local_session

from pyflinklike import AggregateFunction, OutputTag, Row
from pyflinklike.spark import foreach_batch_output, key_by
from pyflinklike.windows import EventTimeSessionWindows

SCHEMA = "user string, page string, at timestamp"
GAP = dt.timedelta(minutes=30)
OUT_OF_ORDER = dt.timedelta(minutes=5)
LATENESS = dt.timedelta(minutes=10)
LATE = OutputTag("late")
DAY = dt.datetime(2026, 3, 1)
BATCHES = 6


class Visit(AggregateFunction[Any, Any, Any]):
    """Counts clicks, and keeps the first and the last page."""

    def create_accumulator(self) -> Row:
        return Row(clicks=0, first_at=None, first=None, last_at=None, last=None)

    def add(self, value: Any, accumulator: Row) -> Row:
        one = Row(clicks=1, first_at=value.at, first=value.page, last_at=value.at, last=value.page)
        return self.merge(accumulator, one)

    def get_result(self, accumulator: Row) -> tuple[int, str, str]:
        return accumulator.clicks, accumulator.first, accumulator.last

    def merge(self, acc_a: Row, acc_b: Row) -> Row:
        """Join two sessions, because a click came in between."""
        if not acc_a.clicks or not acc_b.clicks:
            return acc_a if acc_a.clicks else acc_b
        # If times are equal, the page decides, so the order of arrival makes no difference.
        earlier = min(acc_a, acc_b, key=lambda each: (each.first_at, each.first))
        later = max(acc_a, acc_b, key=lambda each: (each.last_at, each.last))
        return Row(
            clicks=acc_a.clicks + acc_b.clicks,
            first_at=earlier.first_at,
            first=earlier.first,
            last_at=later.last_at,
            last=later.last,
        )


def sessions_of(clicks: DataFrame) -> DataFrame:
    """Return a row for each session and each correction; late clicks go to a side output.

    Args:
        clicks: A stream or a batch with the columns of `SCHEMA`.
    """
    if clicks.isStreaming:
        clicks = clicks.withWatermark("at", f"{OUT_OF_ORDER.seconds} seconds")
    return (
        key_by(clicks, "user")
        .window(EventTimeSessionWindows.with_gap(GAP))
        .allowed_lateness(LATENESS)
        .side_output_late_data(LATE)
        .aggregate(
            Visit(),
            accumulator_type=(
                "clicks int, first_at timestamp, first string, last_at timestamp, last string"
            ),
            output_type="clicks int, first string, last string",
            event_time="at",
            max_parallelism=16,
            uid="sessions",
        )
    )


class Click(NamedTuple):
    """One click.

    Args:
        user: Who clicked.
        page: The page of the site.
        at: The time of the click, in UTC.
        sent: The time when the phone sent it, in UTC.
    """

    user: str
    page: str
    at: dt.datetime
    sent: dt.datetime


def clicks(users: int, seed: int = 7) -> list[Click]:
    """Return a day of clicks in the order in which phones sent them; one in fifty comes late.

    The last click belongs to the user `nobody`.  It comes a day later, so it ends all sessions.
    """
    chance, made = random.Random(seed), []  # noqa: S311
    for number in range(users):
        at = DAY + dt.timedelta(minutes=chance.uniform(0, 600))
        for _ in range(chance.randint(1, 30)):
            at += dt.timedelta(minutes=chance.expovariate(1 / 12))
            at = at.replace(microsecond=0)
            delay = chance.uniform(0, 4) if chance.random() > 0.02 else chance.uniform(10, 240)
            sent = at + dt.timedelta(minutes=delay)
            made.append(Click(f"user-{number}", f"/{chance.randint(1, 9)}", at, sent))
    made.sort(key=lambda each: each.sent)
    end = made[-1].sent + dt.timedelta(days=1)
    return [*made, Click("nobody", "/", end, end)]


def batches_of(made: list[Click]) -> list[list[Click]]:
    """Return the micro-batches of the stream; the last click has its own."""
    size = -(-len(made) // (BATCHES - 1))
    starts = range(0, len(made) - 1, size)
    return [*(made[start : min(start + size, len(made) - 1)] for start in starts), made[-1:]]


def expected(batches: list[list[Click]]) -> tuple[set[tuple[Any, ...]], list[Click]]:
    """Return the sessions (user, start, end, clicks, first and last page) and the late clicks."""
    over: set[tuple[Any, ...]] = set()
    late: list[Click] = []
    is_open: dict[str, list[list[Click]]] = {}
    watermark = dt.datetime.min
    for batch in batches:
        for user, groups in is_open.items():
            over |= {_row(group) for group in groups if _closed(group, watermark)}
            is_open[user] = [group for group in groups if not _closed(group, watermark)]
        for click in sorted(batch, key=lambda each: each.at):
            groups = is_open.setdefault(click.user, [])
            near = [group for group in groups if _touches(group, click)]
            merged = [click, *(each for group in near for each in group)]
            if _closed(merged, watermark):
                late.append(click)
                continue
            is_open[click.user] = [*(group for group in groups if group not in near), merged]
        watermark = max(watermark, max(each.at for each in batch) - OUT_OF_ORDER)
    for groups in is_open.values():
        over |= {_row(group) for group in groups if _end(group) <= watermark}
    return over, late


def _end(group: list[Click]) -> dt.datetime:
    return max(each.at for each in group) + GAP


def _closed(group: list[Click], watermark: dt.datetime) -> bool:
    """Return whether a session is final: its last millisecond and the lateness are over."""
    last = _end(group) - dt.timedelta(milliseconds=1)
    return last <= watermark - LATENESS if watermark > DAY else False


def _touches(group: list[Click], click: Click) -> bool:
    return min(each.at for each in group) <= click.at + GAP and click.at <= _end(group)


def _row(group: list[Click]) -> tuple[Any, ...]:
    first, last = min(group, key=_when), max(group, key=_when)
    return first.user, first.at, last.at + GAP, len(group), first.page, last.page


def _when(click: Click) -> tuple[dt.datetime, str]:
    return click.at, click.page


def write_input(spark: SparkSession, folder: Path, number: int, batch: list[Click]) -> None:
    """Write a micro-batch as a file."""
    rows = spark.createDataFrame([each[:3] for each in batch], SCHEMA)
    rows.coalesce(1).write.mode("overwrite").parquet(f"{folder}/clicks/{number:02}")


def run(spark: SparkSession, folder: Path) -> None:
    """Stream the new files, and write the sessions and late clicks of each micro-batch."""
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    stream = source.parquet(f"{folder}/clicks/*")

    def writer(name: str) -> Callable[[DataFrame, int], None]:
        # A micro-batch that is repeated has the same number and overwrites its earlier files.
        return lambda rows, batch: rows.write.mode("overwrite").parquet(
            f"{folder}/{name}/batch={batch}"
        )

    query = (
        sessions_of(stream)
        .writeStream.foreachBatch(foreach_batch_output(writer("sessions"), {LATE: writer("late")}))
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def final_sessions(spark: SparkSession, folder: Path) -> set[tuple[Any, ...]]:
    """Return the last row of each session; a corrected session covers its earlier rows."""
    columns = ("user", "window_start", "window_end", "clicks", "first", "last", "batch")
    rows = spark.read.parquet(f"{folder}/sessions").select(*columns).collect()
    last: dict[str, list[tuple[Any, ...]]] = {}
    for user, start, end, *rest in sorted(map(tuple, rows), key=lambda row: (row[-1], row[3])):
        kept = last.setdefault(user, [])
        kept[:] = [each for each in kept if not (start <= each[1] and each[2] <= end)]
        kept.append((user, start, end, *rest[:-1]))
    return {row for kept in last.values() for row in kept}


def main(folder: Path, users: int) -> None:
    """Make the input, stream it in two runs, and compare."""
    spark = local_session("click-sessions")
    batches = batches_of(clicks(users))
    for numbers in (range(BATCHES // 2), range(BATCHES // 2, len(batches))):
        for number in numbers:
            write_input(spark, folder, number, batches[number])
        run(spark, folder)
    sessions, late = expected(batches)
    found = final_sessions(spark, folder)
    dismissed = spark.read.parquet(f"{folder}/late").count()
    total = sum(map(len, batches))
    print(f"{total} clicks: {len(found)} sessions, {dismissed} clicks came too late")
    if (found, dismissed) != (sessions, len(late)):
        sys.exit("the stream and the loop differ")
    print("the stream and the loop agree")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 500)
