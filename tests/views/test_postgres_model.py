# SPDX-License-Identifier: Apache-2.0
"""A view in PostgreSQL, a view in a file and a dict: whatever is applied, replayed or read, they agree."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from test_view_model import CHANGES, HISTORY, PLAIN, applied, row, value_of

from pyflinklike.views import MaterializedView, PostgresView, UnknownBatchError


def machine_over(schemas):
    """The law over the schemas of a database."""

    class Machine(RuleBasedStateMachine):
        """Compares two views with the states of a dict."""

        @initialize(is_ordered=st.booleans(), history=st.integers(1, HISTORY))
        def begin(self, is_ordered, history):
            self.directory = tempfile.TemporaryDirectory()
            self.is_ordered, self.history = is_ordered, history
            self.schema = schemas.new()
            self.states, self.ids = [{}], [None]
            self.open()
            self.live = self.views[1].changes(timeout=0)

        def open(self):
            order = "at" if self.is_ordered else None
            shared = {"key": "key", "order_by": order, "history": self.history}
            more = {"conninfo": schemas.conninfo, "schema": self.schema}
            columns = {"key": "bigint", "at": "bigint", "tag": "bigint"}
            self.views = (
                MaterializedView("v", path=self.directory.name, verified=False, **shared),
                PostgresView("v", columns=columns, **more, **shared),
            )

        @rule(ops=st.lists(PLAIN | CHANGES, max_size=6), batch_id=st.integers(0, 12))
        def apply(self, ops, batch_id):
            """A batch of any id; one seen before is ignored by both."""
            is_new = batch_id not in self.ids
            assert [is_new] * 2 == [view.apply(map(row, ops), batch_id) for view in self.views]
            if is_new:
                before = self.states[-1]
                after = applied(before, ops, is_ordered=self.is_ordered)
                told = [(c.key, value_of(c.before), value_of(c.after)) for c in self.live]
                keys = {key: None for _, key, _ in ops}
                assert told == [
                    (key, before.get(key), after.get(key))
                    for key in keys
                    if before.get(key) != after.get(key)
                ]
                self.states.append(after)
                self.ids.append(batch_id)

        @rule(ops=st.lists(PLAIN | CHANGES, max_size=3))
        def fail(self, ops):
            """A batch with a bad row changes nothing, and may come again."""
            with pytest.raises(TypeError):
                self.views[1].apply([*map(row, ops), {"no": "key"}], 13)

        @rule(history=st.integers(1, HISTORY))
        def reopen(self, history):
            """Closed and opened, with another history."""
            for view in self.views:
                view.close()
            self.history = history
            self.open()
            self.live = self.views[1].changes(timeout=0)

        @invariant()
        def agrees(self):
            """Now, in the past that is kept, in the changes from the earliest, and by SQL."""
            file, postgres = self.views
            now = self.states[-1]
            assert now == {r["key"]: value_of(r) for r in postgres.query(allow_scan=True)}
            assert now == {key: value_of(r) for key, r in postgres.get_many(range(4)).items()}
            assert (len(now), self.ids[-1]) == (len(postgres), postgres.freshness.batch_id)
            sql = schemas.run(f"SELECT key, at, tag FROM {self.schema}.v ORDER BY key")
            assert sorted(now.items()) == [(key, (at, tag)) for key, at, tag in sql]
            for batch_id in self.ids[1:]:
                assert _past(file, batch_id) == _past(postgres, batch_id)
            assert now == _replayed(postgres)

        def teardown(self):
            if hasattr(self, "views"):
                for view in self.views:
                    view.close()
                self.directory.cleanup()

    return Machine


def _past(view, batch_id):
    try:
        past = view.as_of(batch_id)
        return len(past), dict(past.items()), {key: past[key] for key in range(4) if key in past}
    except UnknownBatchError:
        return None


def _replayed(view):
    state = {}
    with view.changes(start="earliest", timeout=0) as changes:
        for change in changes:
            assert state.get(change.key) == value_of(change.before)
            state[change.key] = value_of(change.after)
    return {key: value for key, value in state.items() if value is not None}


def test_views_in_postgresql_and_in_a_file_agree(schemas):
    """On random changes, cuts, replays, failures and reopenings; live changes in their order."""
    run_state_machine_as_test(
        machine_over(schemas),
        settings=settings(
            max_examples=max(2, settings().max_examples // 16),
            stateful_step_count=10,
            deadline=None,
        ),
    )
