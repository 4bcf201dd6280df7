# SPDX-License-Identifier: Apache-2.0
"""`JdbcSink` on a PostgreSQL: values of each type, and a server that goes away."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from local_support import local

from pyflinklike.errors import OutputError, SparkSetupError
from pyflinklike.pyflink.common import Instant, Row, Types
from pyflinklike.pyflink.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")

KINDS = {
    "id": Types.INT(),
    "yes": Types.BOOLEAN(),
    "long": Types.LONG(),
    "real": Types.DOUBLE(),
    "text": Types.STRING(),
    "exact": Types.BIG_DEC(),
    "day": Types.SQL_DATE(),
    "at": Types.SQL_TIME(),
    "moment": Types.SQL_TIMESTAMP(),
    "instant": Types.INSTANT(),
    "raw": Types.PRIMITIVE_ARRAY(Types.BYTE()),
}
COLUMNS = (
    "id int primary key, yes bool, long bigint, real float8, text text, exact numeric(10, 2), day date, "
    "at time, moment timestamp, instant timestamptz, raw bytea"
)
ROWS = Types.ROW_NAMED(list(KINDS), list(KINDS.values()))


@pytest.fixture(scope="module")
def server():
    """A PostgreSQL of the tests."""
    from postgres_support import server_for_tests

    with server_for_tests() as started:
        yield started


@pytest.fixture
def table(server):
    """An empty table, and what is in it."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute("drop table if exists t")
        connection.execute(f"create table t ({COLUMNS})")
        yield lambda: connection.execute("select * from t order by 1").fetchall()


def sink_to(server, sql, **options):
    """A sink."""
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url_of(server.conninfo))
    given = psycopg.conninfo.conninfo_to_dict(server.conninfo)
    builder.with_user_name(given.get("user", "postgres"))
    if given.get("password"):
        builder.with_password(given["password"])
    return JdbcSink.sink(sql, ROWS, builder.build(), JdbcExecutionOptions(**options))


def url_of(conninfo):
    """The URL of JDBC for what libpq takes."""
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    return f"jdbc:postgresql://{given['host']}:{given['port']}/{given['dbname']}"


INSERT = f"insert into t values ({', '.join('?' * len(KINDS))}) -- 5 %"
UPSERT = f"insert into t values ({', '.join('?' * len(KINDS))}) on conflict (id) do update set text = excluded.text || '%' || chr(63)"


def test_rows_of_each_type_are_written(server, table):
    """None is NULL; an upsert may be run twice."""
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, 6)
    full = Row(1, True, 2**62, 0.5, "x", Decimal("1.50"), dt.date(2020, 1, 2), dt.time(3), moment)
    full = Row(*full, Instant(0, 5000), b"\0\xff")
    blank = Row(2, *[None] * (len(KINDS) - 1))
    for sql in (INSERT, UPSERT):
        env = local()
        env.from_collection([full, blank], ROWS).add_sink(sink_to(server, sql, batch_size=1))
        env.execute()

    found = table()
    instant = dt.datetime(1970, 1, 1, 0, 0, 0, 5, tzinfo=dt.timezone.utc)
    assert [(*list(full)[:4], "x%?", *list(full)[5:9], instant, b"\0\xff"), tuple(blank)] == found


def test_what_the_database_refuses_fails_the_job_at_once(server, table):
    """The whole batch is left out."""
    env = local()
    rows = [Row(n, *[None] * 10) for n in (1, 2, 1)]
    env.from_collection(rows, ROWS).add_sink(sink_to(server, INSERT))

    with pytest.raises(OutputError, match="UniqueViolation"):
        env.execute()
    assert [] == table()


def test_a_connection_that_breaks_is_made_anew(server, table):
    """The batch is written again, and once."""
    import attrs

    sink = attrs.evolve(sink_to(server, INSERT, batch_size=1), wait=lambda _: None)
    writer = sink.writer(0, 1, ROWS)
    writer.write(Row(1, *[None] * 10), None)
    with psycopg.connect(server.conninfo, autocommit=True) as other:
        other.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and query like 'insert%' or query = 'COMMIT'"
        )
    writer.write(Row(2, *[None] * 10), None)
    writer.finish()

    assert [1, 2] == [row[0] for row in table()]


def test_a_server_that_is_not_there_is_told_after_all_attempts(server):
    """With the address, and what to see to."""
    import attrs

    waits = []
    sink = attrs.evolve(sink_to(server, INSERT, batch_size=1, max_retries=1), wait=waits.append)
    away = attrs.evolve(sink.database, settings={**sink.database.settings, "port": "1"})
    writer = attrs.evolve(sink, database=away).writer(0, 1, ROWS)
    with pytest.raises(SparkSetupError, match="in each of 2 attempts; check that it runs"):
        writer.write(Row(1, *[None] * 10), None)
    assert [1.0] == waits
