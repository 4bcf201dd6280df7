# SPDX-License-Identifier: Apache-2.0
"""Views in PostgreSQL: columns, batches and subscriptions that come and go."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

from pyflinklike.errors import (
    IncompatibleStateError,
    QueueOverflowError,
    StoreClosedError,
    UserFunctionError,
)
from pyflinklike.views import PostgresView

pytest.importorskip("psycopg", reason="psycopg is not installed (the extra `postgres`)")
from postgres_support import Frame, rows_of, table


def test_tables_of_others_are_left_alone(opened, schemas, schema):
    """Of another program, or of this view by another key."""
    schemas.run(f"CREATE TABLE {schema}.v (id int)")
    with pytest.raises(IncompatibleStateError, match="another program"):
        opened()
    schemas.run(f"DROP TABLE {schema}.v")
    opened().close()
    with pytest.raises(IncompatibleStateError, match="must keep its key"):
        PostgresView("v", key="other", conninfo=schemas.conninfo, schema=schema)


def test_a_subscriber_in_another_view_is_woken_and_one_too_slow_is_told(opened):
    """It waits without an end, and gets what another process's view applies."""
    writer, reader = opened(history=2), opened(history=2)
    slow = reader.changes(timeout=0)
    found = []
    with reader.changes(limit=2) as changes:
        thread = threading.Thread(target=lambda: found.extend(changes))
        thread.start()
        for number in range(3):
            writer.apply([{"id": number, "n": 0}], number)
            if number == 1:
                thread.join(30)

    assert [0, 1] == [change.key for change in found]
    with pytest.raises(QueueOverflowError, match="raise history"):
        list(slow)


def test_a_column_that_comes_later_is_added_and_one_of_another_type_refused(
    opened, schemas, schema
):
    """Rows from before have nothing there; a row without it takes it away."""
    view = opened()
    view.foreach_batch(Frame([table((1, 1))]), 0)
    wider = pa.Table.from_pylist([{"id": 1, "n": 2, "name": "a\0b"}])
    view.foreach_batch(Frame([wider]), 1)
    assert [(1, 2, "a\ufffdb")] == schemas.run(f"SELECT id, n, name FROM {schema}.v")
    assert "a\0b" == view[1]["name"]
    with pytest.raises(IncompatibleStateError, match="'n' must keep its type bigint, got text"):
        view.foreach_batch(Frame([pa.Table.from_pylist([{"id": 1, "n": "x"}])]), 2)
    view.foreach_batch(Frame([table((1, 3))]), 2)

    assert [(1, 3, None)] == schemas.run(f"SELECT id, n, name FROM {schema}.v")


def test_a_batch_without_rows_counts(opened):
    """Of no partition, and of an empty one."""
    view = opened()
    view.foreach_batch(Frame([table((1, 1))], source="s"), 0)
    view.foreach_batch(Frame([table((1, 1)).slice(0, 0)], source="s"), 1)

    assert ({1: 1}, 1) == (rows_of(view), view.freshness.batch_id)


def test_a_condition_that_raises_ends_its_subscription(opened):
    """And nothing else."""
    view = opened()
    with view.changes(where=lambda row: 1 / 0, timeout=0) as changes:
        view.apply([{"id": 1, "n": 1}], 0)
        with pytest.raises(UserFunctionError, match="division by zero"):
            next(changes)

        assert (True, []) == (changes.closed, list(changes))
    assert {1: 1} == rows_of(view)


def test_a_view_that_is_closed_ends_those_who_wait_for_it(opened):
    """In whichever thread they wait."""
    view, found = opened(), []
    changes = view.changes()
    thread = threading.Thread(target=lambda: found.extend(changes))
    thread.start()
    view.close()
    thread.join(30)

    assert ([], False) == (found, thread.is_alive())
    with pytest.raises(StoreClosedError):
        view.get(1)
