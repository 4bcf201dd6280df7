# SPDX-License-Identifier: Apache-2.0
"""Lambda: a batch view up to a cut-off, a speed view after it, and both served as one.

    python examples/lambda_merge.py /tmp/lambda

The job counts page views.  The log only grows.  For a cut-off T, the batch layer counts the events
before T and the speed layer counts the events at or after T.  So each event is in one layer
(`layers`), and the program serves the sum.

1. The batch layer counts the first day; the speed layer counts the second as it comes.
2. Page views of the first day come late.  The batch has missed them and the speed layer leaves
   them out, so they are not served yet.
3. The batch layer runs again with a cut-off one day later, and counts the late page views.  Its
   view and a new speed view replace the old pair, which stays for `rollback`.

It needs Java 17 and `pip install '.[spark]'`.
"""

import datetime as dt
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from serving_view import ServingView
from sessions import local_session

from pyflinklike import KeyedProcessFunction, RuntimeContext, Types, ValueStateDescriptor
from pyflinklike.spark import key_by
from pyflinklike.views import MaterializedView

EVENTS = "id long, page string, at timestamp"
DAY = dt.timedelta(days=1)
BEGIN = dt.datetime(2024, 3, 1, tzinfo=dt.timezone.utc)


class PageViews(KeyedProcessFunction):
    """Counts the views of each page."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.views = runtime_context.get_state(ValueStateDescriptor("views", Types.LONG()))

    def process_element(self, _: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        views = (self.views.value() or 0) + 1
        self.views.update(views)
        yield ctx.get_current_key(), views


def page_views(events: DataFrame) -> DataFrame:
    """Apply the function to events, as a batch or a stream; both layers use it."""
    return key_by(events, "page").process(
        PageViews(), "page string, views long", event_time="at", max_parallelism=4
    )


def layers(events: DataFrame, cut_off: dt.datetime) -> tuple[DataFrame, DataFrame]:
    """Split events into the batch layer's and the speed layer's.

    Events without a time go to the batch layer, so that none is lost.
    """
    is_recent = F.coalesce(F.col("at") >= F.lit(cut_off), F.lit(False))
    return events.where(~is_recent), events.where(is_recent)


def merged(batch: Any, speed: Any) -> Any:
    """Return the row to serve: the sum of both layers."""
    return batch._replace(views=batch.views + speed.views)


def open_layers(
    spark: SparkSession, directory: Path, cut_off: dt.datetime
) -> tuple[MaterializedView, MaterializedView]:
    """Run the batch layer up to a cut-off, and start the speed layer there."""
    name = f"{cut_off:%Y-%m-%d}"
    batch, speed = (
        MaterializedView(f"{layer}-{name}", key="page", path=directory / "views")
        for layer in ("batch", "speed")
    )
    log = spark.read.schema(EVENTS).json(str(directory / "log"))
    batch.foreach_batch(page_views(layers(log, cut_off)[0]), 0)
    catch_up(spark, directory, speed, cut_off)
    return batch, speed


def catch_up(
    spark: SparkSession, directory: Path, speed: MaterializedView, cut_off: dt.datetime
) -> None:
    """Let the speed layer process the new events of the log."""
    stream = spark.readStream.schema(EVENTS).json(str(directory / "log"))
    counted = page_views(layers(stream, cut_off)[1])
    writer = counted.writeStream.foreachBatch(speed.foreach_batch).trigger(availableNow=True)
    checkpoint = speed.path.with_suffix(".checkpoint")
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def append(directory: Path, events: Sequence[tuple[int, str, dt.datetime | None]]) -> None:
    """Add a file of events to the log."""
    log = directory / "log"
    log.mkdir(parents=True, exist_ok=True)
    number = len(list(log.iterdir()))
    lines = [
        json.dumps({"id": each, "page": page, "at": at.isoformat() if at else None})
        for each, page, at in events
    ]
    (log / f"{number:04}.json").write_text("\n".join(lines))
    os.utime(log / f"{number:04}.json", (1_700_000_000 + number,) * 2)


def day_of_views(first_id: int, day: int, count: int) -> list[tuple[int, str, dt.datetime | None]]:
    """Return page views at uniform times of a day; the first is at midnight."""
    choice = random.Random(first_id)  # noqa: S311 - drawn to a seed
    times = [0.0, *(choice.uniform(0, 86_400) for _ in range(count - 1))]
    return [
        (
            first_id + n,
            f"/articles/{choice.randrange(12)}",
            BEGIN + day * DAY + dt.timedelta(seconds=at),
        )
        for n, at in enumerate(times)
    ]


def main(arguments: Sequence[str]) -> None:
    spark, directory = local_session("lambda"), Path(arguments[0])
    append(directory, day_of_views(0, 0, 1_000))
    append(directory, day_of_views(10_000, 1, 1_000))
    batch, speed = open_layers(spark, directory, BEGIN + DAY)
    serving = ServingView(batch, speed, merge=merged)
    show("two days", serving)

    append(directory, day_of_views(20_000, 0, 100))  # of the first day, so late
    append(directory, day_of_views(30_000, 2, 1_000))
    catch_up(spark, directory, speed, BEGIN + DAY)
    show("a third day; 100 late views are not counted yet", serving)

    serving.swap(*open_layers(spark, directory, BEGIN + 2 * DAY))
    show("after the next run of the batch layer", serving)
    for view in (*serving.layers, *serving.former[0]):
        view.close()


def show(what: str, serving: ServingView) -> None:
    served = serving.get_many(f"/articles/{n}" for n in range(12))
    print(f"{what}: {sum(row.views for row in served.values())} views,", served["/articles/0"])


if __name__ == "__main__":
    main(sys.argv[1:])
