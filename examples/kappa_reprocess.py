# SPDX-License-Identifier: Apache-2.0
"""Kappa: correct a streaming job by running it again over its log, and switch to the result.

    python examples/kappa_reprocess.py /tmp/kappa

1. A stream sums the spending of each customer into the view `spending-1`, which is served.  The
   function has a bug: it ignores refunds.
2. The corrected function differs in one argument.  It processes the whole log as a batch into the
   view `spending-2`, and writes its state as a savepoint.  The program compares both views.
3. A switch serves the new view instead of the old one.
4. A stream with the corrected function and its own checkpoint starts from that savepoint, at the
   first event that the batch did not read.  It keeps the new view up to date.

At any time `rollback` would serve the old view again, as its stream left it.

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
from serving_view import ServingView
from sessions import local_session

from pyflinklike import KeyedProcessFunction, Row, RuntimeContext, Types, ValueStateDescriptor
from pyflinklike.spark import history_of, key_by
from pyflinklike.views import MaterializedView

EVENTS = "customer string, amount long, at timestamp"
SPENDING = "customer string, events long, spent long"


class Spending(KeyedProcessFunction):
    """Sums the spending of each customer, and counts the events.

    Args:
        with_refunds: Whether negative amounts count.
    """

    def __init__(self, with_refunds: bool) -> None:
        self.with_refunds = with_refunds

    def open(self, runtime_context: RuntimeContext) -> None:
        row = Types.ROW_NAMED(["events", "spent"], [Types.LONG(), Types.LONG()])
        self.state = runtime_context.get_state(ValueStateDescriptor("spending", row))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        before = self.state.value()
        events, spent = (0, 0) if before is None else (before.events, before.spent)
        counts = value.amount > 0 or self.with_refunds
        after = Row(events=events + 1, spent=spent + (value.amount if counts else 0))
        self.state.update(after)
        yield (ctx.get_current_key(), *after)


def spending(events: DataFrame, *, with_refunds: bool, **savepoint: Any) -> DataFrame:
    """Apply the function to events, as a batch or a stream."""
    function = Spending(with_refunds)
    return key_by(events, "customer").process(
        function, SPENDING, event_time="at", max_parallelism=4, **savepoint
    )


def write_log(directory: Path, number: int, events: int) -> None:
    """Append a file to the log; every tenth event is a refund."""
    choice = random.Random(number)  # noqa: S311 - drawn to a seed
    begin = dt.datetime(2024, 3, 1, tzinfo=dt.timezone.utc) + dt.timedelta(days=number)
    directory.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps(
            {
                "customer": f"c{choice.randrange(30):02}",
                "amount": choice.randrange(1, 100) * (-1 if n % 10 == 9 else 1),
                "at": (begin + dt.timedelta(seconds=n)).isoformat(),
            }
        )
        for n in range(events)
    ]
    part = directory / f"{number:04}.json"
    part.write_text("\n".join(lines))
    os.utime(part, (1_700_000_000 + number,) * 2)  # Spark reads the oldest first


def open_version(directory: Path, version: int) -> MaterializedView:
    """Return the view of a version of the job; it drops rows older than its own."""
    return MaterializedView(
        f"spending-{version}", key="customer", order_by="events", path=directory / "views"
    )


def stream_into(view: MaterializedView, result: DataFrame) -> None:
    """Stream the new events of the log into a view; the checkpoint is beside its file."""
    writer = result.writeStream.foreachBatch(view.foreach_batch).trigger(availableNow=True)
    checkpoint = view.path.with_suffix(".checkpoint")
    writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination()


def differences(old: MaterializedView, new: MaterializedView) -> list[tuple[str, int, int]]:
    """Return the customers for whom two views differ, with both sums."""
    before = {row.customer: row.spent for row in old.query(allow_scan=True)}
    after = {row.customer: row.spent for row in new.query(allow_scan=True)}
    return [
        (customer, before.get(customer, 0), after.get(customer, 0))
        for customer in sorted(before.keys() | after.keys())
        if before.get(customer) != after.get(customer)
    ]


def run(spark: SparkSession, directory: Path, events: int) -> ServingView:
    """Run all four steps, and return the views that are served at the end."""
    log, savepoint = directory / "log", directory / "spending-2.savepoint"
    write_log(log, 0, events)
    stream = spark.readStream.schema(EVENTS).option("maxFilesPerTrigger", 1).json(str(log))

    first = open_version(directory, 1)
    stream_into(first, spending(stream, with_refunds=False))
    serving = ServingView(first, None, merge=lambda _, speed: speed)
    print("served:   ", serving.get("c00"), first.freshness)

    second = open_version(directory, 2)
    options = {"maxFilesPerTrigger": "1"}
    history = history_of(spark, format="json", schema=EVENTS, path=str(log), options=options)
    reprocessed = spending(history.batch(), with_refunds=True, savepoint_to=savepoint)
    # The stream's micro-batch 0 has no rows, so number 0 is free for this batch.
    second.foreach_batch(reprocessed, 0)
    changed = differences(first, second)
    print(f"different: {len(changed)} of {len(second)}, for example {changed[0]}")

    serving.swap(second, None)
    print("switched: ", serving.get("c00"))

    write_log(log, 1, events)
    later = spending(history.stream(savepoint), with_refunds=True, from_savepoint=savepoint)
    stream_into(second, later)
    print("caught up:", serving.get("c00"), second.freshness)
    return serving


def main(arguments: Sequence[str]) -> None:
    serving = run(local_session("kappa"), Path(arguments[0]), 1_000)
    for view, _ in (serving.layers, *serving.former):
        view.close()


if __name__ == "__main__":
    main(sys.argv[1:])
