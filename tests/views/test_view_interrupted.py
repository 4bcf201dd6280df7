# SPDX-License-Identifier: Apache-2.0
"""A writer that is interrupted: its subscribers get the rest or an error, never silence."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import suppress
from functools import partial

import pytest
from view_support import ended_at, wait_until

from pyflinklike.errors import StateStoreError
from pyflinklike.views import MaterializedView, file_tables, materialized_view, subscription

WRITER = [materialized_view, subscription, file_tables]
ROWS = [{"id": n} for n in range(3)]


def taken(changes):
    """The keys that a subscriber gets, and whether an error comes after them."""
    keys = []
    with suppress(StateStoreError):
        while (change := next(changes, None)) is not None:
            keys.append(change.key)
        return keys, False
    return keys, True


@pytest.fixture
def interruptible():
    """The first Ctrl-C raises KeyboardInterrupt, also in the background jobs of a shell."""
    raised = []

    def interrupt(*_):
        if not raised:
            raised.append(True)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_writer_interrupted_while_it_waits_leaves_nobody_in_silence(tmp_path):
    """As by Ctrl-C in a notebook: only who had no room is told of an error."""
    with MaterializedView("v", key="id", path=tmp_path) as view:
        slow = view.changes(timeout=0, queue_size=1)
        behind = view.changes(timeout=0, queue_size=1)
        quick = view.changes(timeout=0, queue_size=9, overflow="drop_oldest")
        main = threading.get_ident()

        def interrupt():
            with suppress(TimeoutError):  # until the writer has come to those that have no room
                wait_until(lambda: len(quick._queue._changes or ()) >= 3)
                wait_until(lambda: slow._queue._changes)
            # Python sees a signal that comes just before a lock is waited for when that is over.
            while not interrupted.wait(0.01):
                signal.pthread_kill(main, signal.SIGINT)

        interrupted = threading.Event()
        helper = threading.Thread(target=interrupt)
        helper.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                view.apply(ROWS, 0)
        finally:
            interrupted.set()
            helper.join()

        assert ([0, 1, 2], False) == taken(quick)
        assert ([0], True) == taken(slow)
        assert ([], True) == taken(behind)
        assert not view.apply(ROWS, 0)
        with view.changes(start="earliest", timeout=0) as again:
            assert [0, 1, 2] == [change.key for change in again]


def test_a_writer_may_be_interrupted_anywhere(tmp_path):
    """At each line: what was committed is told, or its absence is; what was not is not."""
    with MaterializedView("v", key="id", path=tmp_path) as view:
        line = number = told = failed = undone = 0
        is_interrupted = True
        while is_interrupted:
            line += 1
            number += 1
            rows = [{"id": key, "n": number} for key in range(2)]
            subscribers = [
                view.changes(timeout=0),
                view.changes(timeout=0, overflow="error"),
                view.changes(timeout=0, where={"id": 1}),
            ]
            is_interrupted = ended_at(
                line, partial(view.apply, rows, number), WRITER, KeyboardInterrupt
            )
            is_committed = view.freshness.batch_id == number
            for expected, subscriber in zip([[0, 1], [0, 1], [1]], subscribers):
                keys, is_failed = taken(subscriber)
                assert keys == expected[: len(keys)]
                assert (is_committed and keys == expected) or is_failed or not is_committed
                assert is_committed or not (keys or is_failed)
                failed += is_failed
                told += keys == expected
                subscriber.close()
            undone += not is_committed
            assert is_committed != view.apply(rows, number)
        view.verify()

    assert min(told, failed, undone) > 20


def test_a_commit_that_is_interrupted_as_it_succeeds_is_told(tmp_path):
    """The interrupt comes when SQLite returns, so the batch is in and raised nevertheless."""
    with MaterializedView("v", key="id", path=tmp_path) as view:
        changes = view.changes(timeout=0)

        def interrupt(frame, event, _):
            is_commit = frame.f_code.co_name == "lend_writer" and event == "c_return"
            if is_commit and not view._database._writer.in_transaction:
                raise KeyboardInterrupt

        sys.setprofile(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                view.apply(ROWS, 0)
        finally:
            sys.setprofile(None)

        assert 0 == view.freshness.batch_id
        assert ([], True) == taken(changes)
        assert not view.apply(ROWS, 0)
