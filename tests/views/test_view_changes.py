# SPDX-License-Identifier: Apache-2.0
"""Push queries: what subscribers of a view see, when they fall behind, and how they end.

Threads wait for one another by events and joins; a join that fails tells of a deadlock.
"""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    QueueOverflowError,
    StateValueError,
    UserFunctionError,
    ValueDecodeError,
)
from pyflinklike.views import Change, MaterializedView

PATIENCE = 30


@pytest.fixture
def pool():
    """Threads; all must have ended in the end."""
    with ThreadPoolExecutor(4) as threads:
        yield threads


def rows(*pairs):
    """Plain rows."""
    return [{"id": key, "n": n} for key, n in pairs]


def delete(key):
    """A flat change."""
    return {"id": key, "op": "delete", "diff": -1}


def taken(changes):
    """What is there now, as operations, keys and numbers."""
    return [
        (each.op, each.key, each.before and each.before["n"], each.after and each.after["n"])
        for each in changes
    ]


def test_a_subscriber_sees_what_comes(view):
    """Inserts, updates and deletes, with the rows before and after and the time."""
    view.apply(rows(("a", 1)), 0)
    with view.changes(timeout=0) as changes:
        view.apply(rows(("a", 2), ("b", 3)), 1)
        view.apply([delete("a")], 2)

        assert [
            Change("update_after", "a", {"id": "a", "n": 1}, {"id": "a", "n": 2}, 1_000),
            Change("insert", "b", None, {"id": "b", "n": 3}, 1_000),
            Change("delete", "a", {"id": "a", "n": 2}, None, 1_000),
        ] == list(changes)


def test_the_earliest_are_those_the_history_has(tmp_path):
    """What the oldest batch left comes as inserts; then what was changed, then what comes."""
    with MaterializedView("v", key="id", path=tmp_path, history=3) as view:
        for number, batch in enumerate(
            [
                rows(("a", 1), ("b", 1)),
                [delete("b"), *rows(("c", 1))],
                rows(("a", 2)),
                [delete("a"), *rows(("d", 3))],
            ]
        ):
            view.apply(batch, number)
        changes = view.changes(start="earliest", timeout=0)
        view.apply(rows(("a", 4)), 4)

        assert [
            ("insert", "a", None, 1),
            ("insert", "c", None, 1),
            ("update_after", "a", 1, 2),
            ("delete", "a", 2, None),
            ("insert", "d", None, 3),
            ("insert", "a", None, 4),
        ] == taken(changes)


def test_the_earliest_of_an_empty_view_is_what_comes(view):
    """There is nothing before."""
    changes = view.changes(start="earliest", timeout=0)
    view.apply(rows(("a", 1)), 0)

    assert [("insert", "a", None, 1)] == taken(changes)


def test_the_past_is_read_as_it_was_when_one_subscribed(view):
    """However slow the subscriber is, and however much the writer forgets meanwhile."""
    view.apply(rows(*((n, 0) for n in range(100))), 0)
    changes = view.changes(start="earliest", timeout=0, queue_size=1_000)
    first = next(changes)
    for number in range(1, 4):
        view.apply(rows((0, number)), number)

    assert ("insert", 0, None, 0) == taken([first])[0]
    expected = [("insert", n, None, 0) for n in range(1, 100)]
    assert [*expected, *(("update_after", 0, n, n + 1) for n in range(3))] == taken(changes)


def test_one_key_can_be_followed(view):
    """From the past into the future."""
    view.apply(rows(("a", 1), ("b", 1)), 0)
    view.apply(rows(("a", 2)), 1)
    with view.changes(key="a", start="earliest", timeout=0) as changes:
        view.apply([*rows(("b", 2)), delete("a")], 2)

        assert [
            ("insert", "a", None, 1),
            ("update_after", "a", 1, 2),
            ("delete", "a", 2, None),
        ] == taken(changes)


@pytest.mark.parametrize("where", [{"n": lambda n: n > 5}, lambda row: row["n"] > 5])
@pytest.mark.parametrize("start", ["latest", "earliest"])
def test_a_filter_is_a_view_of_its_own(view, where, start):
    """A row that comes to meet it is inserted, one that ceases to is deleted."""
    if start == "latest":
        changes = view.changes(where=where, timeout=0)
    for number, n in enumerate([1, 7, 8, 2, 3, 9]):
        view.apply(rows(("a", n)), number)
    view.apply([delete("a")], 6)
    if start == "earliest":
        changes = view.changes(where=where, start=start, timeout=0)

    assert [
        ("insert", "a", None, 7),
        ("update_after", "a", 7, 8),
        ("delete", "a", 8, None),
        ("insert", "a", None, 9),
        ("delete", "a", 9, None),
    ] == taken(changes)


def test_a_filter_that_raises_ends_its_subscription_only(view):
    """Not the batch: that is committed; the others do not notice."""
    broken = view.changes(where=lambda row: row["missing"], timeout=0)
    healthy = view.changes(timeout=0)
    view.apply(rows(("a", 1)), 0)

    with pytest.raises(UserFunctionError, match="missing"):
        next(broken)
    assert [("insert", "a", None, 1)] == taken(healthy)


def test_an_error_in_the_place_of_a_row_is_told_as_a_value(tmp_path):
    """It is no row, and meets no condition."""
    with MaterializedView("v", key="key", path=tmp_path) as view:
        changes = view.changes(timeout=0)
        filtered = view.changes(where=lambda row: True, timeout=0)
        bad = {"key": "a", "op": "insert", "value": None, "diff": 1, "error": "no number"}
        view.apply([bad], 0)

        (told,) = changes
        assert isinstance(told.after, ValueDecodeError)
        assert [] == list(filtered)


def test_a_subscription_ends_at_its_limit(view):
    """And then keeps nobody waiting."""
    changes = view.changes(limit=2, queue_size=1, overflow="drop_oldest")
    past = view.changes(start="earliest", limit=0)
    view.apply(rows(("a", 1)), 0)
    assert "a" == next(changes).key
    view.apply(rows(("b", 1)), 1)

    assert (["b"], [], True) == ([each.key for each in changes], list(past), changes.closed)
    view.apply(rows(("c", 1), ("d", 1)), 2)


@pytest.mark.parametrize("timeout", [0, 0.001, timedelta(milliseconds=1)])
def test_an_iteration_that_timed_out_can_be_taken_up_again(view, timeout):
    """Nothing is lost in between."""
    changes = view.changes(timeout=timeout)
    assert [] == list(changes)

    view.apply(rows(("a", 1)), 0)
    assert ["a"] == [each.key for each in changes]


def test_the_oldest_are_dropped_where_that_is_asked_for(view):
    """And counted."""
    changes = view.changes(queue_size=2, overflow="drop_oldest", timeout=0)
    view.apply(rows(*((n, n) for n in range(5))), 0)

    assert ([3, 4], 3) == ([each.key for each in changes], changes.dropped)


def test_who_falls_behind_is_told_where_that_is_asked_for(view):
    """After what was in the queue, which is whole; the writer does not notice."""
    changes = view.changes(queue_size=2, overflow="error")
    view.apply(rows(*((n, n) for n in range(3))), 0)
    view.apply(rows((9, 9)), 1)

    assert [0, 1] == [next(changes).key, next(changes).key]
    for _ in range(2):
        with pytest.raises(QueueOverflowError, match="queue_size"):
            next(changes)
    assert 4 == len(view)


def test_a_writer_waits_for_a_slow_subscriber(view, pool):
    """Readers do not: the batch is committed; new subscribers come and go meanwhile."""
    changes = view.changes(queue_size=2)
    writing = pool.submit(view.apply, rows(*((n, n) for n in range(10))), 0)
    while len(view) < 10:
        pass
    with view.changes(start="earliest", timeout=0) as other:
        assert 10 == len(list(other))
    assert not writing.done()

    assert list(range(10)) == [next(changes).key for _ in range(10)]
    assert writing.result(PATIENCE)


def test_closing_a_subscription_frees_the_writer(view, pool):
    """The other subscribers get the rest of the batch."""
    slow, other = view.changes(queue_size=1), view.changes(timeout=0)
    writing = pool.submit(view.apply, rows(("a", 1), ("b", 1), ("c", 1)), 0)
    next(slow)
    slow.close()

    assert writing.result(PATIENCE)
    assert ([], ["a", "b", "c"]) == (list(slow), [each.key for each in other])


def test_a_subscription_nobody_holds_frees_the_writer(view):
    """A loop that was left by an error must not stop a stream for ever."""
    view.apply(rows(("z", 1)), 0)
    changes = view.changes(start="earliest", queue_size=1)
    next(changes)
    del changes
    gc.collect()

    assert view.apply(rows(("a", 1), ("b", 1), ("c", 1)), 1)


def test_closing_the_view_frees_the_writer(view, pool):
    """The subscriber gets what it had been given, and comes to an end."""
    changes = view.changes(queue_size=2)
    writing = pool.submit(view.apply, rows(*((n, n) for n in range(10))), 0)
    while len(view) < 10:
        pass
    pool.submit(view.close).result(PATIENCE)

    assert writing.result(PATIENCE)
    assert list(range(len(found := [each.key for each in changes]))) == found
    assert len(found) < 10


def test_closing_wakes_who_waits_for_a_change(view, pool):
    """The subscription, or the whole view."""
    waiting = [view.changes(), view.changes()]
    ends = [pool.submit(list, each) for each in waiting]
    waiting[0].close()
    assert [] == ends[0].result(PATIENCE)

    view.close()
    assert [] == ends[1].result(PATIENCE)


def test_the_past_can_be_read_to_its_end_after_the_view_was_closed(view):
    """It is in a transaction of the subscriber's own."""
    view.apply(rows(("a", 1), ("b", 1)), 0)
    changes = view.changes(start="earliest")
    next(changes)
    view.close()

    assert ["b"] == [each.key for each in changes]


def test_leaving_the_block_closes(view):
    """Also in the middle of the past."""
    view.apply(rows(("a", 1), ("b", 1)), 0)
    with view.changes(start="earliest") as changes:
        next(changes)

    assert (True, []) == (changes.closed, list(changes))
    changes.close()


def test_threads_share_a_subscription(view, pool):
    """Each change goes to one of them."""
    changes = view.changes(limit=400)
    readers = [pool.submit(list, changes) for _ in range(3)]
    for number in range(40):
        view.apply(rows(*((number * 10 + n, 0) for n in range(10))), number)

    found = [each.key for reader in readers for each in reader.result(PATIENCE)]
    assert list(range(400)) == sorted(found)


def test_past_and_future_meet_without_gap_or_overlap(tmp_path, pool):
    """Whenever one subscribes while a writer counts, the numbers go up one by one."""
    interval, done, seen = sys.getswitchinterval(), threading.Event(), [0, 0, 0]
    with MaterializedView("v", key="id", path=tmp_path, history=2) as view:
        view.apply(rows(("a", 0)), 0)

        def follow(follower):
            while not done.is_set():
                with view.changes(start="earliest", limit=4, timeout=PATIENCE) as changes:
                    numbers = [each.after["n"] for each in changes]
                assert list(range(numbers[0], numbers[0] + 4)) == numbers
                seen[follower] += 1

        sys.setswitchinterval(1e-6)  # threads are interrupted anywhere
        try:
            followers = [pool.submit(follow, number) for number in range(len(seen))]
            number = 0
            while min(seen) < 100 and not any(each.done() for each in followers):
                number += 1
                view.apply(rows(("a", number)), number)
            done.set()
            while not all(each.done() for each in followers):
                number += 1
                view.apply(rows(("a", number)), number)
        finally:
            sys.setswitchinterval(interval)
        assert [None] * len(seen) == [each.result() for each in followers]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"start": "now"}, DeclarationValueError),
        ({"overflow": "grow"}, DeclarationValueError),
        ({"queue_size": 0}, DeclarationValueError),
        ({"limit": -1}, DeclarationValueError),
        ({"timeout": -1}, DeclarationValueError),
        ({"timeout": "1s"}, DeclarationTypeError),
        ({"where": 1}, DeclarationTypeError),
        ({"key": []}, StateValueError),
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_at_once(view, arguments, error):
    """Not when the first change comes."""
    with pytest.raises(error, match="got"):
        view.changes(**arguments)
