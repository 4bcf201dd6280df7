# SPDX-License-Identifier: Apache-2.0
"""Views in PostgreSQL: whatever breaks, a batch is applied once and whole, or somebody is told."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

import pytest

from pyflinklike.errors import (
    CorruptStateError,
    StateStoreError,
    StateValueError,
)
from pyflinklike.views import PostgresView

pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
import psycopg
from postgres_support import Frame, rows_of, table
from psycopg.conninfo import make_conninfo
from view_support import ended_at

from pyflinklike.views import postgres_database, postgres_staging, postgres_writer

WRITER = [postgres_writer, postgres_staging, postgres_database]


def staging(schemas, schema):
    """The staging tables that are there."""
    found = schemas.run(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relname LIKE %s",
        schema,
        "%staging%",
    )
    return [name for (name,) in found]


LINES = 5 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 83
"""How far apart the places are where a driver is killed."""


class Killed(BaseException):
    """As a killed driver: nothing below catches it."""


def test_a_driver_killed_between_any_two_steps_loses_and_repeats_nothing(opened, schemas, schema):
    """At every few lines: the batch is in as a whole or not at all, and its repetition puts it in."""
    model = {}
    line, number, was_in = 1, 0, []
    while True:
        frame = Frame([table((0, number), (number, 1)), table((1, number))], source="stream")
        view = opened()
        came_so_far = ended_at(line, partial(view.foreach_batch, frame, number), WRITER, Killed)
        after = {**model, 0: number, number: 1, 1: number}
        with opened() as seen:
            found = rows_of(seen)
        assert found in (model, after)
        was_in.append(found == after)
        view.close()
        again = opened()
        again.foreach_batch(frame, number)
        again.foreach_batch(frame, number)
        assert after == rows_of(again)
        again.verify()
        assert [] == staging(schemas, schema)
        assert number == again.freshness.batch_id
        again.close()
        model = after
        if not came_so_far:
            break
        line, number = line + LINES, number + 1

    assert {True, False} == set(was_in)
    assert number > 3


def test_of_attempts_at_a_partition_one_counts(opened):
    """A task that is run twice at once, and one that breaks after half of its rows and is run again."""

    def attempts(task, batches):
        with suppress(ZeroDivisionError):
            list(task(each if at == 0 else 1 / 0 for at, each in enumerate([*batches, None])))
        results = [list(task(iter(batches))) for _ in range(2)]
        return results[1]

    view = opened()
    view.foreach_batch(Frame([table((1, 1), (2, 1)), table((1, 2))], attempts=attempts), 0)

    assert {1: 2, 2: 1} == rows_of(view)
    view.verify()


def test_a_connection_that_is_lost_while_a_task_copies_fails_the_task(opened, schemas):
    """So that Spark runs it again; what it had copied is gone with its transaction."""

    def attempts(task, batches):
        def cut():
            yield from batches
            schemas.run(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE application_name LIKE 'pyflinklike task%'"
            )
            for _ in range(100):
                yield from batches

        with pytest.raises(StateStoreError, match="what was not applied can be sent again"):
            list(task(cut()))
        return list(task(iter(batches)))

    view = opened()
    view.foreach_batch(Frame([table((1, 1), (2, 2))], attempts=attempts), 0)

    assert {1: 1, 2: 2} == rows_of(view)


def test_a_second_writer_is_refused_by_name_until_the_first_is_gone(opened):
    """It may read; once the first is closed it writes."""
    first, second = opened(), opened(lock_timeout=0)
    first.apply([{"id": 1, "n": 1}], 0)

    with pytest.raises(StateStoreError, match=r"one writer.*'pyflinklike writer on .* pid \d+'"):
        second.apply([{"id": 1, "n": 2}], 1)

    assert {1: 1} == rows_of(second)
    first.close()
    assert second.apply([{"id": 1, "n": 2}], 1)
    assert {1: 2} == rows_of(second)


def test_a_writer_that_lost_its_connection_cannot_write_after_another(opened, schemas, schema):
    """Its lock went with the connection, and with that its transaction."""
    old, new = opened(lock_timeout=0), opened(lock_timeout=0)

    def attempts(task, batches):
        lines = list(task(iter(batches)))
        schemas.run(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name LIKE 'pyflinklike writer%'"
        )
        new.foreach_batch(Frame([table((1, 2))], source="s"), 0)
        return lines

    with pytest.raises(StateStoreError):
        old.foreach_batch(Frame([table((1, 1))], source="s", attempts=attempts), 0)

    assert {1: 2} == rows_of(new)
    new.close()
    old.foreach_batch(Frame([table((1, 3))], source="s"), 1)
    assert {1: 3} == rows_of(old)
    assert [] == staging(schemas, schema)


def test_staged_rows_that_a_crash_of_the_server_emptied_are_missed(opened, schemas, schema):
    """What is not logged is empty after a crash, and no error of the server's tells it."""
    view = opened()

    def attempts(task, batches):
        lines = list(task(iter(batches)))
        schemas.run(f"TRUNCATE {schema}.{staging(schemas, schema)[0]}")
        return lines

    with pytest.raises(StateStoreError, match="got 0 of 1; send the batch again"):
        view.foreach_batch(Frame([table((1, 1))], attempts=attempts), 0)

    assert {} == rows_of(view)
    view.foreach_batch(Frame([table((1, 1))]), 0)
    assert {1: 1} == rows_of(view)


def test_batches_that_a_restored_database_lacks_are_missed(opened, schemas, schema):
    """A stream never sends them again; who knows better says so."""
    view = opened()
    for number in range(2):
        view.foreach_batch(Frame([table((number, 0))], source="s"), number)
    names = ("v", "v__batches", "v__changes", "v__seen")
    for name in names:
        schemas.run(f"CREATE TABLE {schema}.copy_{name} AS TABLE {schema}.{name}")
    view.foreach_batch(Frame([table((2, 0))], source="s"), 2)
    following = view.changes(timeout=0)
    for name in names:  # as a restored backup
        schemas.run(f"TRUNCATE {schema}.{name}")
        schemas.run(f"INSERT INTO {schema}.{name} TABLE {schema}.copy_{name}")

    with pytest.raises(StateStoreError, match=r"got 3 with 1 as the last before it.*allow_gaps"):
        view.foreach_batch(Frame([table((3, 0))], source="s"), 3)
    with pytest.raises(StateStoreError, match="restored from an older copy"):
        next(following)

    assert {0: 0, 1: 0} == rows_of(view)
    view.close()
    opened(allow_gaps=True).foreach_batch(Frame([table((3, 0))], source="s"), 3)
    assert {0: 0, 1: 0, 3: 0} == rows_of(opened())


def test_a_database_that_lost_the_view_is_told_from_a_new_one(opened):
    """A stream in its middle does not begin with an empty view unasked."""
    with pytest.raises(StateStoreError, match="got 7 with none before it"):
        opened().foreach_batch(Frame([table((1, 1))], source="s"), 7)


def test_streams_and_what_comes_from_no_stream_count_on_their_own(opened):
    """Batch 0 of two streams are two batches."""
    view = opened()
    view.foreach_batch(Frame([table((1, 1))], source="one"), 0)
    view.foreach_batch(Frame([table((2, 2))], source="two"), 0)
    assert view.apply([{"id": 3, "n": 3}], 0)
    assert not view.apply([{"id": 3, "n": 4}], 0)

    assert {1: 1, 2: 2, 3: 3} == rows_of(view)


def test_a_bad_row_of_a_partition_is_told_as_it_is_to_the_driver(opened, schemas, schema):
    """With the class that `apply` gives it; nothing of the batch is in."""
    view = opened(columns={"n": "smallint"})

    with pytest.raises(StateValueError, match="70000"):
        view.foreach_batch(Frame([table((1, 1)), table((2, 70_000))]), 0)

    assert {} == rows_of(view)
    view.foreach_batch(Frame([table((1, 1)), table((2, 7))]), 0)
    assert {1: 1, 2: 7} == rows_of(view)
    assert [] == staging(schemas, schema)


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM {}.v WHERE id = 1",
        "UPDATE {}.v SET _row = (SELECT _row FROM {}.v WHERE id = 2) WHERE id = 1",
        "INSERT INTO {}.v SELECT 'x', _row, _order, _checksum, _error, id FROM {}.v WHERE id = 1",
    ],
)
def test_rows_that_somebody_changed_by_sql_are_not_served(opened, schemas, schema, damage):
    """By a scan, or where it reads them, by a lookup."""
    view = opened(columns={"id": "bigint"})
    view.apply([{"id": 1, "n": 1}, {"id": 2, "n": 2}], 0)
    schemas.run(damage.replace("{}", schema))

    with pytest.raises(CorruptStateError, match="let nobody else write"):
        view.verify()


def test_no_message_or_text_has_the_password(schemas, schema):
    """Of a wrong one, of one that libpq cannot read, and of a view that is shown or pickled."""
    wrong = make_conninfo(schemas.conninfo, password="se/cret")
    with pytest.raises(StateStoreError, match="password authentication failed") as refused:
        PostgresView("v", key="id", conninfo=wrong, schema=schema)
    with pytest.raises(ValueError, match="cannot read") as unread:
        PostgresView("v", key="id", conninfo="postgresql://me:se/cret@[", schema=schema)
    with PostgresView("v", key="id", conninfo=schemas.conninfo, schema=schema) as view:
        texts = [repr(view), repr(view.__reduce__())]

    secret = psycopg.conninfo.conninfo_to_dict(schemas.conninfo)["password"]
    for error in (refused.value, unread.value):
        assert error.__cause__ is None
        assert (
            "se/cret" not in f"{error}{error.__context__ if not error.__suppress_context__ else ''}"
        )
    assert [True, True] == ["***" in text and secret not in text for text in texts]


def test_a_server_that_may_only_be_read_is_read_and_refuses_batches(opened, schemas):
    """As a standby; it is told what to do."""
    opened().apply([{"id": 1, "n": 1}], 0)
    standby = make_conninfo(schemas.conninfo, options="-c default_transaction_read_only=on")
    view = opened(conninfo=standby, lock_timeout=0)
    opened_before = rows_of(view)

    with pytest.raises(StateStoreError, match=r"primary|one writer"):
        view.apply([{"id": 1, "n": 2}], 1)

    assert {1: 1} == opened_before == rows_of(view)


def test_a_reader_survives_a_server_that_ends_its_connections(opened, schemas):
    """As a restart does: the next read connects again."""
    view = opened()
    view.apply([{"id": 1, "n": 1}], 0)
    rows_of(view)
    schemas.run(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE application_name LIKE 'pyflinklike reader%'"
    )

    assert {1: 1} == rows_of(view)


def test_an_attempt_that_lost_and_still_copies_makes_no_batch_wait(opened, schemas, schema):
    """The staging table that it holds is left to the next batch."""
    view, holding = opened(), []

    def attempts(task, batches):
        lines = list(task(iter(batches)))
        other = psycopg.connect(schemas.conninfo)
        holding.append(other)
        other.execute(f"INSERT INTO {schema}.{staging(schemas, schema)[0]} (_token) VALUES (1)")
        return lines

    view.foreach_batch(Frame([table((1, 1))], attempts=attempts), 0)
    assert {1: 1} == rows_of(view)
    assert 1 == len(staging(schemas, schema))
    holding[0].close()
    view.foreach_batch(Frame([table((1, 2))]), 1)

    assert ({1: 2}, []) == (rows_of(view), staging(schemas, schema))
