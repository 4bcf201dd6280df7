# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL table, its changes, and a view that a Spark stream keeps equal to the table.

    python examples/postgres_cdc.py /tmp/postgres-cdc 3

starts its own PostgreSQL on 127.0.0.1 and a stream.  Then, three times, it changes the table
`items` by SQL, captures the changes by logical decoding as Debezium's records, waits for the
stream, and compares the view with the table, row by row:

    the table --pgoutput--> JSON files --decode_debezium--> UpsertFunction --> MaterializedView

* A snapshot reads the 40 rows that the table has at first.
* Transactions insert, update, delete and change primary keys.  Some roll back.  Two overlap, so the
  log has their changes in a different order from their commits.
* `body` is stored outside the row.  If an update does not change it, it is not in the log, and the
  upsert takes it from the old row in state.
* Records come twice, as from a connector that restarts.

It needs Java 17, `apt install postgresql`, and `pip install '.[spark]'`.
"""

import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from postgres_capture import Capture
from postgres_items import fill, table, work
from postgres_server import Server, binaries
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery
from sessions import local_session

from pyflinklike import Types
from pyflinklike.spark import decode_debezium, key_by
from pyflinklike.upsert import UpsertFunction
from pyflinklike.views import MaterializedView

RECORD = "key string, value string, partition int, offset bigint"
ROW = (
    "id bigint, name string, price decimal(10, 2), in_stock boolean, body string, changed timestamp"
)
ROW_TYPE = Types.ROW_NAMED(
    ["id", "name", "price", "in_stock", "body", "changed"],
    [
        Types.LONG(),
        Types.STRING(),
        Types.BIG_DEC(),
        Types.BOOLEAN(),
        Types.STRING(),
        Types.SQL_TIMESTAMP(),
    ],
)
CHANGE = f"key bigint, op string, value struct<{ROW}>, diff int, error string"

# The stream


def items(records: DataFrame) -> DataFrame:
    """Return the changes of the rows of `items`, for a stream or a batch of records."""
    events = decode_debezium(records, schema=ROW)
    upsert = UpsertFunction(value="after", order_key="order_key", value_type=ROW_TYPE)
    return key_by(events, "key").process(upsert, CHANGE, max_parallelism=4)


@contextmanager
def streaming(
    spark: SparkSession, directory: Path, view: MaterializedView
) -> Iterator[StreamingQuery]:
    """Stream the captured files into the view until the block ends."""
    reader = spark.readStream.schema(RECORD).option("maxFilesPerTrigger", 2)
    query = (
        items(reader.json(str(directory / "captured")))
        .writeStream.foreachBatch(view.foreach_batch)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


def differences(view: MaterializedView, expected: dict[int, dict[str, Any]]) -> list[str]:
    """List the differences between the view and the table."""
    found = view.get_many(expected)
    wrong = [
        f"row {key}: {found.get(key)!r} instead of {row!r}"
        for key, row in expected.items()
        if key not in found or found[key].as_dict() != row
    ]
    extra = [row.id for row in view.query(allow_scan=True) if row.id not in expected]
    return wrong + [f"row {key} is not in the table" for key in extra]


def run(spark: SparkSession, directory: Path, rounds: int, seed: int = 5) -> Iterator[str]:
    """Run the example, and yield a line for each step; raise if view and table differ."""
    choice = random.Random(seed)  # noqa: S311 - drawn to a seed
    with (
        Server() as server,
        server.session() as one,
        server.session() as other,
        MaterializedView("items", key="id", path=directory / "view.db") as view,
    ):
        fill(one, rows=40)
        capture = Capture(server.session(), "items", ["id"], directory / "captured")
        yield f"snapshot: {capture.snapshot()} records"
        with capture, streaming(spark, directory, view) as query:
            for number in range(1, rounds + 1):
                work(one, other, choice, transactions=12)
                records = capture.changes()
                query.processAllAvailable()
                expected = table(one)
                wrong = differences(view, expected)
                if wrong:
                    raise AssertionError("\n".join(wrong))
                rows = len(expected)
                yield f"round {number}: {records} new records; the view is the table, {rows} rows"


def main(arguments: Sequence[str]) -> None:
    if binaries() is None:
        sys.exit("This example needs a PostgreSQL server, and found none: apt install postgresql")
    directory, rounds = Path(arguments[0]), int(arguments[1])
    directory.mkdir(parents=True)
    for line in run(local_session("PostgreSQL to a view"), directory, rounds):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])
