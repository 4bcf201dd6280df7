# SPDX-License-Identifier: Apache-2.0
"""`JdbcSink` on SQLite, and what it makes of statements and URLs; on PostgreSQL in `test_jdbc_postgres`."""

from __future__ import annotations

import datetime as dt
import pickle
import sqlite3
from decimal import Decimal

import attrs
import pytest
from local_support import local

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    SparkSetupError,
)
from pyflinklike.pyflink.common import Instant, Row, Types
from pyflinklike.pyflink.datastream.connectors.jdbc import (
    JdbcConnectionOptions,
    JdbcExecutionOptions,
    JdbcSink,
)

PAIR = Types.ROW([Types.INT(), Types.STRING()])
INSERT = "insert into t values (?, ?)"


def at(url, **fields):
    """The options of a connection."""
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    for name, value in fields.items():
        getattr(builder, f"with_{name}")(value)
    return builder.build()


def options(size=2, interval=0, retries=0):
    """How rows are written."""
    builder = JdbcExecutionOptions.builder().with_batch_size(size)
    return builder.with_batch_interval_ms(interval).with_max_retries(retries).build()


@pytest.fixture
def path(tmp_path):
    """A database with a table."""
    found = tmp_path / "test.db"
    with sqlite3.connect(found) as connection:
        connection.execute("create table t (id integer primary key, name text)")
    return found


def rows_in(path):
    """What other connections see."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute("select * from t order by 1").fetchall()
    finally:
        connection.close()


def sink_to(path, sql=INSERT, type_info=PAIR, how=None, **changes):
    """A sink to the table."""
    made = JdbcSink.sink(sql, type_info, at(f"jdbc:sqlite:{path}"), how or options())
    return attrs.evolve(made, **changes)


def test_a_job_writes_its_rows(path):
    """All of them, whatever is left of a batch at the end."""
    env = local(parallelism__default="2")
    stream = env.from_collection([(n, f"name {n}") for n in range(5)], PAIR)
    stream.add_sink(sink_to(path))

    env.execute()

    assert [(n, f"name {n}") for n in range(5)] == rows_in(path)


def test_an_upsert_may_be_run_twice(path):
    """So rows that come again change nothing."""
    upsert = f"{INSERT} on conflict (id) do update set name = excluded.name"
    for _ in range(2):
        env = local()
        env.from_collection([(1, "a"), (1, "b")], PAIR).sink_to(sink_to(path, upsert))
        env.execute()

    assert [(1, "b")] == rows_in(path)


def test_a_batch_is_written_when_it_is_full(path):
    """And what is left at the end."""
    sink = sink_to(path, how=options(size=3))
    writer, seen = sink.writer(0, 1, PAIR), []
    for n in range(7):
        writer.write(Row(n, "x"), None)
        seen.append(len(rows_in(path)))
    writer.prepare()

    assert [0, 0, 3, 3, 3, 6, 6] == seen
    assert 7 == len(rows_in(path))


def test_a_batch_is_written_when_its_first_row_is_old(path):
    """Whatever room there is."""
    now = [0]
    sink = sink_to(path, how=options(size=100, interval=50), clock=lambda: now[0])
    writer, seen = sink.writer(0, 1, PAIR), []
    for n, at_time in enumerate([0, 49, 50, 60, 109, 110]):
        now[0] = at_time
        writer.write(Row(n, "x"), None)
        seen.append(len(rows_in(path)))

    assert [0, 0, 3, 3, 3, 6] == seen


def test_a_job_that_fails_leaves_its_last_batch_out(path):
    """Those before are there: rows come at least once when it runs again."""
    writer = sink_to(path).writer(0, 1, PAIR)
    for n in range(3):
        writer.write(Row(n, "x"), None)
    writer.abandon()

    assert [(0, "x"), (1, "x")] == rows_in(path)


def test_a_locked_database_is_tried_again(path):
    """With a longer wait each time, and then given up."""
    holder, waits = sqlite3.connect(path, isolation_level=None), []
    holder.execute("begin immediate")
    sink = sink_to(path, how=options(retries=2), wait=waits.append)
    settings = {**sink.database.settings, "timeout": 0}
    sink = attrs.evolve(sink, database=attrs.evolve(sink.database, settings=settings))
    writer = sink.writer(0, 1, PAIR)
    writer.write(Row(1, "x"), None)
    with pytest.raises(SparkSetupError, match=r"database is locked in each of 3 attempts"):
        writer.write(Row(2, "x"), None)
    assert [1.0, 2.0] == waits

    release = attrs.evolve(sink, wait=lambda _: holder.execute("commit"))
    writer = release.writer(0, 1, PAIR)
    writer.write(Row(1, "x"), None)
    writer.finish()
    assert [(1, "x")] == rows_in(path)


@pytest.mark.parametrize(
    ("sql", "row", "told"),
    [
        (INSERT, Row(0, "twice"), "UNIQUE constraint failed"),
        ("insert into nowhere values (?, ?)", Row(1, "x"), "no such table"),
        ("insert intooo t values (?, ?)", Row(1, "x"), "syntax error"),
    ],
)
def test_what_the_database_refuses_fails_the_job_at_once(path, sql, row, told):
    """Another attempt would not help; the whole batch is left out."""
    with sqlite3.connect(path) as connection:
        connection.execute("insert into t values (0, 'there')")
    waits = []
    writer = sink_to(path, sql, how=options(retries=3), wait=waits.append).writer(0, 1, PAIR)
    writer.write(Row(5, "x"), None)

    with pytest.raises(OutputError, match=told):
        writer.write(row, None)
    assert ([], [(0, "there")]) == (waits, rows_in(path))


def test_values_of_each_type_are_written(tmp_path):
    """Times as texts that compare as they do; None is NULL."""
    kinds = [
        Types.BOOLEAN(),
        Types.BYTE(),
        Types.LONG(),
        Types.DOUBLE(),
        Types.STRING(),
        Types.BIG_DEC(),
        Types.SQL_DATE(),
        Types.SQL_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
        Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ]
    values = [True, 1, 2**62, 0.5, "x", Decimal("1.50"), dt.date(2020, 1, 2), dt.time(3, 4)]
    values += [dt.datetime(2020, 1, 2, 3, 4, 5, 6), Instant(0, 5000), b"\0\xff"]
    path = tmp_path / "types.db"
    with sqlite3.connect(path) as connection:
        connection.execute(f"create table t ({', '.join(f'c{n}' for n in range(len(kinds)))})")
    places = ", ".join("?" * len(kinds))
    writer = sink_to(path, f"insert into t values ({places})", Types.ROW(kinds)).writer(0, 1, None)
    writer.write(Row(*values), None)
    writer.write(Row(*[None] * len(kinds)), None)

    written = [1, 1, 2**62, 0.5, "x", "1.50", "2020-01-02", "03:04:00"]
    written += ["2020-01-02 03:04:05.000006", "1970-01-01 00:00:00.000005+00:00", b"\0\xff"]
    assert [(None,) * len(kinds), tuple(written)] == rows_in(path)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (Types.DOUBLE(), float("nan"), "would write NULL"),
        (Types.INSTANT(), Instant(0, 1), "takes microseconds"),
        (Types.INSTANT(), Instant(2**60, 0), "years from 1 to 9999"),
        (Types.BIG_INT(), 2**70, "OverflowError"),
        (Types.INT(), "x", "writes rows of its type_info"),
    ],
)
def test_a_value_that_the_database_would_change_is_refused(path, kind, value, told):
    """Before or while it is written."""
    sink = sink_to(path, "insert into t (id) values (?)", Types.ROW([kind]))
    writer = attrs.evolve(sink, options=options(size=1)).writer(0, 1, None)
    with pytest.raises(OutputError, match=told):
        writer.write(Row(value), None)


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("select ? where a like '5 %'", "select %s where a like '5 %%'"),
        ("select ? where a ?? b", "select %s where a ? b"),
    ],
)
def test_a_statement_of_postgresql_has_the_markers_of_its_driver(sql, statement):
    """A percent sign and a question mark of an operator stay what they are."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
    made = JdbcSink.sink(sql, Types.ROW([Types.STRING()]), at("jdbc:postgresql:d"))

    assert statement == made.statement


@pytest.mark.parametrize(
    "sql",
    [
        "insert into t values (?, '?', ?)",
        "insert into t values (?, '?')",
        "insert into t values (?, 'x')",
        "insert into t values (?) -- ?",
        "insert into t values (?, $$?$$)",
        r"insert into t values (?, E'it\'s ?')",
    ],
)
def test_a_statement_of_postgresql_whose_question_marks_are_unclear_is_refused(sql):
    """PostgreSQL would write the marker as a text, and leave a field out."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
    with pytest.raises(DeclarationValueError, match=r"for 2 fields .* chr\(63\) for one in a text"):
        JdbcSink.sink(sql, PAIR, at("jdbc:postgresql:d"))


def test_sqlite_tells_a_question_mark_in_a_text_from_a_parameter(path):
    """One that is missing fails the job when the first batch is written."""
    writer = sink_to(path, "insert into t values (?, ? || '?') -- ?").writer(0, 1, PAIR)
    writer.write(Row(1, "x"), None)
    writer.prepare()
    assert [(1, "x?")] == rows_in(path)

    writer = sink_to(path, "insert into t values (?, '?')").writer(0, 1, PAIR)
    writer.write(Row(2, "x"), None)
    with pytest.raises(OutputError, match="Incorrect number of bindings"):
        writer.prepare()


def test_a_url_of_postgresql_becomes_the_settings_of_libpq():
    """What Java's driver has other words for; the password is never shown."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
    url = "jdbc:postgresql://a:1,b/my%20db?ssl=true&password=secret1"
    given = at(url, user_name="ann", password="secret2", driver_name="org.postgresql.Driver")
    database = JdbcSink.sink(INSERT, PAIR, given).database

    assert {
        "host": "a,b",
        "port": "1,",
        "dbname": "my db",
        "sslmode": "require",
        "user": "ann",
        "password": "secret2",
    } == dict(database.settings)
    assert "PostgreSQL at a,b:1,/my db" == database.shown
    assert "secret" not in f"{database!r}{given!r}"
    assert database == pickle.loads(pickle.dumps(database))
    six = JdbcSink.sink(INSERT, PAIR, at("jdbc:postgresql://[::1]:7/d")).database
    assert ("::1", "7") == (six.settings["host"], six.settings["port"])
    with pytest.raises(
        DeclarationValueError, match=r"\['currentSchema'\]; name them as libpq does"
    ):
        JdbcSink.sink(INSERT, PAIR, at("jdbc:postgresql://ann:secret@a/b?currentSchema=s"))


def test_options_tell_what_was_set():
    """With PyFlink's defaults."""
    given = at("jdbc:sqlite:x", driver_name="d", user_name="u", password="p")

    assert ("jdbc:sqlite:x", "d", "u", "p") == (
        given.get_db_url(),
        given.get_driver_name(),
        given.get_user_name(),
        given.get_password(),
    )
    found = JdbcExecutionOptions.defaults()
    assert (0, 5000, 3) == (
        found.get_batch_interval_ms(),
        found.get_batch_size(),
        found.get_max_retries(),
    )
    assert options(7, 8, 9) == JdbcExecutionOptions(8, 7, 9)


def test_what_is_declared_wrongly_is_refused_with_the_remedy(tmp_path):
    """When it is declared."""
    lite = at("jdbc:sqlite:x")
    with pytest.raises(SparkSetupError, match=r"got jdbc:mysql; write with stream\.to_data_frame"):
        JdbcSink.sink(INSERT, PAIR, at("jdbc:mysql://h/d"))
    with pytest.raises(SparkSetupError, match="give the path of a file"):
        JdbcSink.sink(INSERT, PAIR, at("jdbc:sqlite::memory:"))
    with pytest.raises(DeclarationValueError, match="got 'http://x/'; give one of these"):
        JdbcSink.sink(INSERT, PAIR, at("http://user:secret@x/"))
    with pytest.raises(DeclarationValueError, match="got 1 for 2 fields in"):
        JdbcSink.sink("insert into t values (?, 1)", PAIR, lite)
    with pytest.raises(DeclarationTypeError, match="a JdbcSink writes fields without parts"):
        JdbcSink.sink("?", Types.ROW([Types.LIST(Types.INT())]), lite)
    with pytest.raises(DeclarationTypeError, match="type_info is the type of rows"):
        JdbcSink.sink("?", Types.INT(), lite)
    with pytest.raises(DeclarationTypeError, match="a statement is text"):
        JdbcSink.sink(None, PAIR, lite)
    with pytest.raises(DeclarationTypeError, match=r"JdbcSink\.sink takes JdbcConnectionOptions"):
        JdbcSink.sink(INSERT, PAIR, "jdbc:sqlite:x")
    with pytest.raises(DeclarationValueError, match="call with_url"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().build()
    with pytest.raises(DeclarationTypeError, match="password is text, got a value"):
        at("jdbc:sqlite:x", password=1)
    for wrong in (
        lambda: options(size=0),
        lambda: options(retries=-1),
        lambda: options(interval="1"),
    ):
        with pytest.raises((DeclarationValueError, DeclarationTypeError)):
            wrong()
