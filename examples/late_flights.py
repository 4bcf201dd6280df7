# SPDX-License-Identifier: Apache-2.0
"""Real flights, streamed by day: one query with two outputs, a Parquet directory for each.

    python examples/late_flights.py /tmp/late-flights 14

streams the first 14 days of 2013 and writes under /tmp/late-flights

    alerts/    an aircraft was late on three flights in a row
    silences/  an aircraft had no flight for seven days
    state/     the query's checkpoint, with the state of every aircraft

Run it again with 28, and it continues with day 15.  An aircraft whose last two flights were late
then needs one more late flight for an alert.  The function is in `demo/flights.py`; `scripts/demo`
shows more.

It needs Java 17 and `pip install '.[demo]'`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from demo import (
    ALERT_TYPE,
    FLIGHT_TYPE,
    SILENT,
    LateAircraft,
    flown,
    read_days,
    write_days,
)
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from sessions import local_session

from pyflinklike.spark import foreach_batch_output, key_by

# Spark's workers do not have this folder on their path.
cloudpickle.register_pickle_by_value(sys.modules[LateAircraft.__module__])  # type: ignore[no-untyped-call]


def main(arguments: Sequence[str]) -> None:
    directory, days = Path(arguments[0]), int(arguments[1])
    (directory / "flights").mkdir(parents=True, exist_ok=True)
    write_days(read_days(days), directory / "flights")
    spark = local_session("late flights")

    flights = (
        spark.readStream.schema(FLIGHT_TYPE)
        .option("maxFilesPerTrigger", 1)  # a file is a day
        .parquet(str(directory / "flights"))
    )
    found = key_by(flown(flights), "tailnum").process(
        LateAircraft(),
        output_type=ALERT_TYPE,
        event_time="scheduled",
        side_outputs=[SILENT],
        max_parallelism=8,  # few key groups, because micro-batches are small
    )

    # If a micro-batch is repeated after a failure, it overwrites its earlier files.
    def write_alerts(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(directory / "alerts" / f"batch={batch_id}"))

    def write_silences(batch: DataFrame, batch_id: int) -> None:
        batch.write.mode("overwrite").parquet(str(directory / "silences" / f"batch={batch_id}"))

    query = (
        found.writeStream.foreachBatch(foreach_batch_output(write_alerts, {SILENT: write_silences}))
        .option("checkpointLocation", str(directory / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    for name, time in (("alerts", "departure"), ("silences", "last_departure")):
        rows = spark.read.parquet(str(directory / name))
        print(f"{rows.count()} {name}, the latest first")
        rows.orderBy(rows[time].desc()).show()


if __name__ == "__main__":
    main(sys.argv[1:])
