# SPDX-License-Identifier: Apache-2.0
"""A view in PostgreSQL, fed by the executors of a real stream, is the view in a file."""

from __future__ import annotations

import pytest
from spark_support import Feed, at

from pyflinklike.errors import NullKeyError
from pyflinklike.views import MaterializedView, PostgresView

SCHEMA = """id long, at timestamp, local timestamp_ntz, day date, price decimal(10, 2), data binary,
    tags array<string>, counts map<string, long>, place struct<x: double, when: timestamp>, n int"""


def record(key, n, second):
    """A record with a value of every kind."""
    from decimal import Decimal

    when = at(1_700_000_000_000 + 1_000 * second)
    place = {"x": float("nan"), "when": when}
    return (key, when, when, when.date(), Decimal("1.50"), b"\0", ["a", None], {"b": 1}, place, n)


@pytest.fixture(scope="module")
def schemas():
    """Schemas in a PostgreSQL of the tests' own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
    from postgres_support import Schemas, server_for_tests

    with server_for_tests() as server:
        yield Schemas(server.conninfo)


def test_a_stream_feeds_a_view_in_postgresql_as_one_in_a_file(spark, schemas, tmp_path):
    """Each row with the same values; a batch that comes again is read, and changes nothing."""
    feed = Feed(spark, tmp_path / "feed", SCHEMA)
    feed.add([record(n % 7, n, n) for n in range(20)], [record(n, 99, n) for n in range(3)])
    stream = feed.stream().withWatermark("at", "1 second").dropDuplicatesWithinWatermark(["n"])
    file = MaterializedView("v", key="id", order_by="at", path=tmp_path)
    postgres = PostgresView(
        "v", key="id", order_by="at", conninfo=schemas.conninfo, schema=schemas.new()
    )

    def apply(df, batch_id):
        df.persist()
        file.foreach_batch(df, batch_id)
        for _ in range(2):
            postgres.foreach_batch(df, batch_id)
        df.unpersist()

    with file, postgres:
        writer = stream.writeStream.foreachBatch(apply).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

        found = [repr(view.query(allow_scan=True)) for view in (file, postgres)]
        assert found[0] == found[1]
        assert file.freshness[:2] == postgres.freshness[:2]
        assert len(file) == len(postgres) == 7
        postgres.verify()
        with pytest.raises(NullKeyError, match="must have a key"):
            postgres.foreach_batch(feed.bounded().selectExpr("CAST(null AS long) id", "at", "n"), 0)
        seen = schemas.run(f"SELECT id, n, place ->> 'when', tags FROM {postgres_table(postgres)}")
        assert {(row.id, row.n) for row in file.query(allow_scan=True)} == {
            (key, n) for key, n, _, _ in seen
        }
        assert all(
            tags == ["a", None] and when.startswith("2023-11-14T") for _, _, when, tags in seen
        )


def postgres_table(view):
    """The table that SQL sees."""
    return f"{view._database.names.schema}.v"
