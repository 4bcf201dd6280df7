# SPDX-License-Identifier: Apache-2.0
"""A view is a dict per batch: whatever is applied, replayed, opened again or read meanwhile."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyflinklike.views import MaterializedView, UnknownBatchError

HISTORY = 3
KEYS = st.integers(0, 3)
VALUES = st.tuples(st.integers(0, 2), st.integers(0, 1))  # what orders a row, and the rest of it
PLAIN = st.tuples(st.just("plain"), KEYS, VALUES)
CHANGES = st.tuples(st.sampled_from(["set", "retract", "delete"]), KEYS, VALUES)


def row(op):
    """An operation of the model as a row for the view."""
    kind, key, (at, tag) = op
    value = {"key": key, "at": at, "tag": tag}
    if kind == "plain":
        return value
    if kind == "set":
        return {"key": key, "op": "update_after", "value": value, "diff": 1}
    if kind == "retract":
        return {"key": key, "op": "update_before", "value": value, "diff": -1}
    return {"key": key, "op": "delete", "value": None, "diff": -1}


def applied(state, ops, *, is_ordered):
    """What a batch makes of a state."""
    state = dict(state)
    for kind, key, value in ops:
        if kind == "plain" and is_ordered and key in state and state[key][0] >= value[0]:
            continue
        if kind in ("plain", "set"):
            state[key] = value
        elif kind == "delete" or state.get(key) == value:
            state.pop(key, None)
    return state


def value_of(row):
    """A row of the view as the model has it."""
    return row and (row["at"], row["tag"])


def difference(before, after, ops):
    """The changes from one state to another, in the order in which a batch names their keys."""
    keys = dict.fromkeys(key for _, key, _ in ops)
    return [
        (key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)
    ]


class ViewMachine(RuleBasedStateMachine):
    """Compares a view with the list of its states."""

    @initialize(is_ordered=st.booleans(), history=st.integers(1, HISTORY))
    def begin(self, is_ordered, history):
        """An empty view."""
        self.directory = tempfile.TemporaryDirectory()
        self.is_ordered = is_ordered
        self.history = history
        self.states = [{}]
        self.ids = [None]
        self.open()

    def open(self):
        """The view, and a subscriber to what comes."""
        order = "at" if self.is_ordered else None
        self.view = MaterializedView(
            "v", key="key", order_by=order, path=self.directory.name, history=self.history
        )
        self.live = self.view.changes(timeout=0)

    @rule(ops=st.lists(PLAIN | CHANGES, max_size=6), batch_id=st.integers(0, 12))
    def apply(self, ops, batch_id):
        """A batch of any id; one seen before, perhaps long ago, is ignored."""
        if batch_id in self.ids:
            assert not self.view.apply(map(row, ops), batch_id)
            return
        assert self.view.apply(map(row, ops), batch_id)
        after = applied(self.states[-1], ops, is_ordered=self.is_ordered)
        told = [(c.key, value_of(c.before), value_of(c.after)) for c in self.live]
        assert told == difference(self.states[-1], after, ops)
        self.states.append(after)
        self.ids.append(batch_id)

    @rule(ops=st.lists(PLAIN | CHANGES, max_size=3))
    def fail(self, ops):
        """A batch with a bad row changes nothing, and may come again."""
        with pytest.raises(TypeError):
            self.view.apply([*map(row, ops), {"no": "key"}], 13)

    @rule(history=st.integers(1, HISTORY))
    def reopen(self, history):
        """Closed and opened; the history may be another one from then on."""
        self.view.close()
        self.history = history
        self.open()

    @invariant()
    def agrees(self):
        """Now, in the past that is kept, and in the changes from the earliest."""
        now, view = self.states[-1], self.view
        assert now == {row["key"]: value_of(row) for row in view.query(allow_scan=True)}
        assert now == {key: value_of(row) for key, row in view.get_many(range(4)).items()}
        assert (len(now), self.ids[-1]) == (len(view), view.freshness.batch_id)
        kept = self._kept()
        for batch_id, state in zip(self.ids[1:], self.states[1:]):
            if batch_id in kept:
                past = view.as_of(batch_id)
                assert state == {key: value_of(row) for key, row in past.items()}
                assert state == {key: value_of(past[key]) for key in range(4) if key in past}
                assert len(state) == len(past)
        assert self._replayed() == self.states[-1]

    def _kept(self):
        kept = set()
        for batch_id in self.ids[1:]:
            try:
                self.view.as_of(batch_id)
            except UnknownBatchError:
                continue
            kept.add(batch_id)
        last = self.ids[1:][-1:]
        assert set(last) <= kept <= set(self.ids[1:][-HISTORY:])
        return kept

    def _replayed(self):
        state = {}
        with self.view.changes(start="earliest", timeout=0) as changes:
            for change in changes:
                assert state.get(change.key) == value_of(change.before)
                assert change.before != change.after
                if change.op == "delete":
                    del state[change.key]
                else:
                    assert (change.op == "insert") == (change.key not in state)
                    state[change.key] = value_of(change.after)
        return state

    def teardown(self):
        """The file goes."""
        if hasattr(self, "view"):
            self.view.close()
            self.directory.cleanup()


ViewMachine.TestCase.settings = settings(
    max_examples=settings().max_examples // 2, stateful_step_count=15, deadline=None
)
TestView = ViewMachine.TestCase


# Many readers beside one writer

WIDTH, BATCHES = 40, 60


def numbered(number):
    """A batch in which all rows carry the same number, and one key is there or not."""
    rows = [{"id": n, "number": number} for n in range(WIDTH)]
    flag = {"id": -1, "number": number, "op": "delete" if number % 2 else "insert"}
    return [*rows, {**flag, "diff": -1 if number % 2 else 1}]


def test_readers_always_see_a_whole_batch(tmp_path):
    """By keys, by scans, as of a batch, and in the freshness, which never goes back."""
    view = MaterializedView("v", key="id", path=tmp_path)
    view.apply(numbered(0), 0)
    failures, reads, done = [], [0] * 4, threading.Event()

    def read(reader):
        last = 0
        choice = random.Random(reader)
        try:
            while not done.is_set():
                keys = [-1, *choice.sample(range(WIDTH), 8)]
                rows = (
                    view.get_many(keys)
                    if reader % 2
                    else {row["id"]: row for row in view.query(allow_scan=True)}
                )
                numbers = {row["number"] for row in rows.values()}
                (number,) = numbers
                assert (number % 2 == 0) == (-1 in rows)
                assert len(rows) - (-1 in rows) == (8 if reader % 2 else WIDTH)
                assert last <= number <= view.freshness.batch_id
                past = view.as_of(number)
                assert {number} == {row["number"] for row in past.values()}
                last = number
                reads[reader] += 1
        except Exception as error:  # told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=read, args=(n,)) for n in range(len(reads))]
    for thread in threads:
        thread.start()
    number = 0
    while (number < BATCHES or min(reads) < 20) and not failures:
        number += 1
        view.apply(numbered(number), number)
    done.set()
    for thread in threads:
        thread.join()
    view.close()

    assert [] == failures


# Killed

WRITER = """
import random, sys
from pyflinklike.views import MaterializedView

directory, first, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, sys.argv[4])
from test_view_model import batch_of

view = MaterializedView("v", key="key", path=directory, history=5)
for number in range(first, 10_000):
    applied = view.apply(batch_of(seed, number), number)
    print(number, int(applied), flush=True)
"""


def batch_of(seed, number):
    """A batch that follows from its number."""
    choice = random.Random(f"{seed} {number}")
    ops = [
        (choice.choice(["plain", "plain", "set", "delete"]), choice.randrange(200), (number, 0))
        for _ in range(choice.randrange(300))
    ]
    return [row(op) for op in ops]


def ops_of(rows):
    """The operations of a batch's rows, for the model."""
    for each in rows:
        if each.get("op") == "delete":
            yield "delete", each["key"], None
        else:
            yield "set", each["key"], value_of(each.get("value", each))


def test_a_killed_writer_loses_and_repeats_nothing(tmp_path):
    """At any moment: what was acknowledged is there, a batch is whole or not at all.

    The writer is killed again and again; each life begins with batches that the one before
    had applied, as a stream does that was not told of their success.
    """
    seed = 5
    choice = random.Random(seed)
    acknowledged, lives = -1, 3
    for life in range(lives):
        first = max(0, acknowledged - 3)
        replayed = []
        writer = subprocess.Popen(
            [
                sys.executable,
                "-c",
                WRITER,
                str(tmp_path),
                str(first),
                str(seed),
                str(Path(__file__).parent),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        until = acknowledged + choice.randrange(1, 12)
        for line in writer.stdout:
            number, is_new = map(int, line.split())
            replayed += [] if is_new else [number]
            acknowledged = max(acknowledged, number)
            if acknowledged >= until:
                break
        spin = choice.randrange(400_000)  # somewhere within the next batches
        for _ in range(spin):
            pass
        os.kill(writer.pid, signal.SIGKILL)
        for line in writer.stdout:  # what it could still say counts
            if line.endswith("\n"):
                acknowledged = max(acknowledged, int(line.split()[0]))
        writer.stdout.close()
        writer.wait()

        with MaterializedView("v", key="key", path=tmp_path, history=5) as view:
            last = view.freshness.batch_id
            # One more than was told may be in.
            assert last in (acknowledged, acknowledged + 1)
            assert life == 0 or set(range(first, first + 3)) <= set(replayed)
            states = [{}]
            for number in range(last + 1):
                ops = ops_of(batch_of(seed, number))
                states.append(applied(states[-1], ops, is_ordered=False))
            now = {row["key"]: value_of(row) for row in view.query(allow_scan=True)}
            assert (states[-1], len(states[-1])) == (now, len(view))
            for number in range(max(0, last - 4), last + 1):
                found = {key: value_of(row) for key, row in view.as_of(number).items()}
                assert states[number + 1] == found
            with sqlite3.connect(view.path) as file:
                assert [("ok",)] == file.execute("PRAGMA integrity_check").fetchall()
            file.close()
            assert not view.apply([{"key": "x"}], last)
            assert view.apply(batch_of(seed, last + 1), last + 1)
            acknowledged = last + 1
