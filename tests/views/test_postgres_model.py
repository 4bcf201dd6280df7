# SPDX-License-Identifier: Apache-2.0
"""A view in PostgreSQL and a list of dicts: whatever is applied, replayed or read, they agree."""

from __future__ import annotations

from hypothesis import settings
from hypothesis.stateful import invariant, run_state_machine_as_test
from test_view_model import ViewMachine

from pyflinklike.views import PostgresView

COLUMNS = {"key": "bigint", "at": "bigint", "tag": "bigint"}


def machine_over(schemas):
    """The law over the schemas of a database."""

    class Machine(ViewMachine):
        """What a view in a file is compared with, for one in PostgreSQL."""

        def open(self):
            if self.states == [{}]:
                self.schema = schemas.new()
            self.view = PostgresView(
                "v",
                key="key",
                order_by="at" if self.is_ordered else None,
                history=self.history,
                columns=COLUMNS,
                conninfo=schemas.conninfo,
                schema=self.schema,
            )
            self.live = self.view.changes(timeout=0)

        @invariant()
        def is_seen_by_sql(self):
            """Its columns have the rows of now."""
            sql = schemas.run(f"SELECT key, at, tag FROM {self.schema}.v ORDER BY key")
            assert sorted(self.states[-1].items()) == [(key, (at, tag)) for key, at, tag in sql]

    return Machine


def test_a_view_in_postgresql_follows_the_model_of_views_in_files(schemas):
    """On random changes, cuts, replays, failures and reopenings; live changes in their order."""
    run_state_machine_as_test(
        machine_over(schemas),
        settings=settings(
            max_examples=max(2, settings().max_examples // 5),
            stateful_step_count=10,
            deadline=None,
        ),
    )
