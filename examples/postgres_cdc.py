# SPDX-License-Identifier: Apache-2.0
"""A table of PostgreSQL, its changes, and a view that a Spark stream keeps equal to it.

    python examples/postgres_cdc.py /tmp/postgres-cdc 3

starts a PostgreSQL of its own on 127.0.0.1 and a stream, and then three times over: changes
the table `items` by SQL, captures the changes by logical decoding into Debezium's records, waits
for the stream, and compares the view with the table, row by row.  On the way:

    the table --pgoutput--> JSON files --decode_debezium--> UpsertFunction --> MaterializedView

* The table has 40 rows before anything is captured, which a snapshot reads.
* Transactions insert, update, delete and change primary keys; some roll back; two overlap,
  so that the log has their changes in another order than that of their commits.
* `body` is too large for the row, and most updates leave it alone: then it is not in the log,
  and the upsert takes it from the row it knows.  A changed key has no such row, which is why
  `move` writes the body anew; with REPLICA IDENTITY FULL it would not have to.
* Records come twice, as from a connector that restarts.

It needs Java 17, `apt install postgresql`, and `pip install 'pyflinklike[spark]'`.
"""

import datetime as dt
import json
import os
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

from postgres_capture import Capture
from postgres_server import Server, Session, binaries
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from pyflinklike import Types
from pyflinklike.spark import key_by
from pyflinklike.upsert import MaterializedView, UpsertFunction, decode_debezium

TABLE = """
    CREATE TABLE items (
        id bigint PRIMARY KEY,
        name text NOT NULL,
        price numeric(10, 2),
        in_stock boolean NOT NULL DEFAULT true,
        body text,
        changed timestamptz NOT NULL DEFAULT clock_timestamp()
    );
    ALTER TABLE items ALTER COLUMN body SET STORAGE EXTERNAL
"""
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

# The database


def fill(session: Session, rows: int) -> None:
    session.run(TABLE)
    session.run(
        f"INSERT INTO items SELECT n, 'item ' || n, n * 1.25, n % 3 > 0, repeat(md5(n::text), 200) "
        f"FROM generate_series(1, {rows}) n"
    )


def work(one: Session, other: Session, choice: random.Random, transactions: int) -> None:
    """Change the table by random transactions, and by two that overlap."""
    for _ in range(transactions):
        one.run("BEGIN")
        for _ in range(choice.randint(1, 6)):
            one.run(statement(choice))
        one.run(choice.choice(["COMMIT", "COMMIT", "COMMIT", "ROLLBACK"]))
    # The first to begin is the last to commit, and goes on with a row that the other one made.
    one.run("BEGIN")
    one.run("INSERT INTO items (id, name) VALUES (500, 'from one') ON CONFLICT (id) DO NOTHING")
    other.run("BEGIN")
    other.run("DELETE FROM items WHERE id = 501")
    other.run("INSERT INTO items (id, name, body) VALUES (501, 'from other', repeat('o', 9000))")
    other.run("COMMIT")
    one.run("UPDATE items SET name = 'from one again' WHERE id IN (500, 501)")
    one.run("COMMIT")


def statement(choice: random.Random) -> str:
    """One statement, of a row that may or may not be there."""
    number, free = choice.randint(1, 60), choice.randint(61, 90)
    insert = (
        f"INSERT INTO items (id, name, price, body) VALUES ({number}, 'new', {number}.05, "
        f"repeat(md5('{choice.random()}'), 150)) ON CONFLICT (id) "
    )
    move = (
        f"UPDATE items SET id = {free}, body = body || '' WHERE id = {number} "
        f"AND NOT EXISTS (SELECT FROM items WHERE id = {free})"
    )
    touch = "changed = clock_timestamp()"
    return choice.choice(
        [
            f"{insert} DO NOTHING",
            f"{insert} DO UPDATE SET name = items.name || '!', {touch}",
            f"UPDATE items SET price = price * 1.1, {touch} WHERE id = {number}",
            f"UPDATE items SET price = NULL, in_stock = NOT in_stock WHERE id % 7 = {number % 7}",
            f"UPDATE items SET body = repeat('{choice.randrange(10)}', 7000) WHERE id = {number}",
            f"UPDATE items SET body = NULL WHERE id = {number}",
            f"DELETE FROM items WHERE id = {number}",
            f"DELETE FROM items WHERE id = {free}",
            move,
        ]
    )


def table(session: Session) -> dict[int, dict[str, Any]]:
    """The rows of the table by their key, in Python's types."""
    rows = {}
    for line in session.run("SELECT row_to_json(items) FROM items ORDER BY id"):
        row = json.loads(line, parse_float=Decimal)
        changed = dt.datetime.fromisoformat(row["changed"]).replace(tzinfo=None)
        price = None if row["price"] is None else Decimal(row["price"])
        rows[row["id"]] = {**row, "price": price, "changed": changed}
    return rows


# The stream


def items(records: DataFrame) -> DataFrame:
    """The changes of the rows of `items`, of records that are a stream or a batch."""
    events = decode_debezium(records, schema=ROW)
    upsert = UpsertFunction(value="after", order_key="order_key", value_type=ROW_TYPE)
    return key_by(events, "key").process(upsert, CHANGE, max_parallelism=4)


@contextmanager
def streaming(
    spark: SparkSession, directory: Path, view: MaterializedView
) -> Iterator[StreamingQuery]:
    """A stream from the captured files to the view, until the block ends."""
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
    """What is not the same in the view and in the table; nothing, if all is well."""
    found = view.get_many(expected)
    wrong = [
        f"row {key}: {found.get(key)!r} instead of {row!r}"
        for key, row in expected.items()
        if key not in found or found[key].as_dict() != row
    ]
    extra = [row.id for row in view.query(allow_scan=True) if row.id not in expected]
    return wrong + [f"row {key} is not in the table" for key in extra]


def run(spark: SparkSession, directory: Path, rounds: int, seed: int = 5) -> Iterator[str]:
    """Run the example; tells what was done, and raises if the view is not the table."""
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
                yield f"round {number}: {records} new records; the view is the table, {len(expected)} rows"


def main(arguments: Sequence[str]) -> None:
    if binaries() is None:
        print("There is no PostgreSQL here, so there is nothing to capture: apt install postgresql")
        return
    directory, rounds = Path(arguments[0]), int(arguments[1])
    directory.mkdir(parents=True)
    for line in run(session(), directory, rounds):
        print(line)


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return (
        SparkSession.builder.master("local[2]")
        .appName("PostgreSQL to a view")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )


if __name__ == "__main__":
    main(sys.argv[1:])
