# SPDX-License-Identifier: Apache-2.0
"""The writer of a view in PostgreSQL: it stages a batch, and applies it in one transaction.

The process may be killed between any two of these steps without harm, since only the fourth changes the
view:

1. The batch is looked up among the batches that were seen.
2. A staging table is made, under a random name.
3. The partitions are copied into it.
4. One transaction applies it, writes its id and notifies subscribers.
5. The staging table is dropped.  This is not part of the transaction, which would have to wait for a task
   that lost a race and still copies.

If a staging table is left, it is dropped when the next batch begins.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs
import psycopg

from pyflinklike.errors import StateStoreError
from pyflinklike.views.arguments import to_ms
from pyflinklike.views.batch_frame import Feed
from pyflinklike.views.incoming_rows import BatchReader
from pyflinklike.views.postgres.batch_merge import Merge
from pyflinklike.views.postgres.conninfo import Conninfo
from pyflinklike.views.postgres.postgres_database import PostgresDatabase
from pyflinklike.views.postgres.postgres_tables import (
    Names,
    PostgresSnapshot,
    columns_of,
)
from pyflinklike.views.postgres.sql_columns import check_types, types_of
from pyflinklike.views.postgres.staging_table import RECEIPT, Receipt, Stager, StagingTask, drain
from pyflinklike.views.row_codec import decode_row
from pyflinklike.views.view_storage import AppliedBatch

__all__ = ["open_view"]


@attrs.frozen
class PostgresWriter:
    """Applies the batches of a view.

    Args:
        database: The tables of the view.
        incoming: Reads the rows of batches.
        columns: The columns that SQL sees, as declared; None takes them from DataFrames.
        history: The length of the history in batches.
        allow_gaps: True permits a stream to skip batch ids.
        clock: Returns the time in ms since the epoch.
    """

    database: PostgresDatabase
    incoming: BatchReader
    columns: dict[str, str] | None
    history: int
    allow_gaps: bool
    clock: Callable[[], int]

    def apply(
        self, rows: Iterable[Any], batch_id: int, watermark: int | dt.datetime | None
    ) -> bool:
        """Apply rows of this process, over the writer's connection."""
        reached = None if watermark is None else to_ms(watermark, dt.timezone.utc)
        with self.database.lend_writer() as connection:
            if self._is_seen(connection, "", batch_id):
                return False
            self.database.drop_staging(connection)
            with connection.transaction():
                stager = self._stager(connection, self.columns or {})
                receipt = stager.copy(connection, [rows], dt.timezone.utc)
                batch = self._batch("", batch_id, reached, [receipt])
                self._merge(connection, stager, [receipt], batch)
            self.database.drop_staging(connection)
        return True

    def apply_frame(self, df: Any, batch_id: int, source: str | None) -> bool:
        """Apply a DataFrame, whose partitions the executors copy."""
        feed = Feed(df, source)
        with self.database.lend_writer() as connection:
            if self._is_seen(connection, feed.source, batch_id):
                # A stateful stream cannot commit a batch that is not read.
                df.mapInArrow(drain, RECEIPT).collect()
                return False
            self._check_gap(connection, feed.source, batch_id)
            self.database.drop_staging(connection)
            columns = self.columns
            if columns is None:
                columns = types_of(
                    self.incoming.view, df.schema.jsonValue(), self.incoming.key_columns
                )
            stager = self._stager(connection, columns)
            receipts = self._stage(df, StagingTask(stager, self.database.conninfo, feed.time_zone))
            reached = None if feed.watermark is None else to_ms(feed.watermark, feed.zone)
            batch = self._batch(feed.source, batch_id, reached, receipts)
            with connection.transaction():
                self._merge(connection, stager, receipts, batch)
            self.database.drop_staging(connection)
        return True

    def _stage(self, df: Any, task: StagingTask) -> list[Receipt]:
        """Return the receipts of the partitions, in their order.

        Raises:
            NullKeyError, StateValueError: The view cannot hold a row.
        """
        found = df.mapInArrow(task, RECEIPT).collect()
        receipts = [Receipt(*line) for line in found]
        for receipt in receipts:
            receipt.check()
        return receipts

    def _stager(self, connection: psycopg.Connection[Any], wanted: dict[str, str]) -> Stager:
        database = self.database
        table, columns = database.new_staging(connection, wanted)
        return Stager(database.names, table, self.incoming, columns, database.about.identity)

    def _is_seen(self, connection: psycopg.Connection[Any], source: str, batch_id: int) -> bool:
        return self._snapshot(connection).is_seen(source, batch_id)

    def _snapshot(self, connection: psycopg.Connection[Any]) -> PostgresSnapshot:
        return PostgresSnapshot(connection, self.database.names, self.database.about.identity)

    def _check_gap(self, connection: psycopg.Connection[Any], source: str, batch_id: int) -> None:
        """Refuse a batch of a stream after batches that the database does not have.

        A stream never sends an acknowledged batch again.  So if the database was restored from an
        older copy, the batches since then would be missing without notice.
        """
        last = self._snapshot(connection).last_of(source)
        if self.allow_gaps or not source or batch_id <= (-1 if last is None else last) + 1:
            return
        after = "none before it" if last is None else f"{last} as the last before it"
        msg = (
            f"view {self.incoming.view!r}: the batches of a stream must follow one another, got "
            f"{batch_id} with {after}: the database was restored from an older copy, or the "
            "stream wrote elsewhere"
        )
        raise StateStoreError(
            f"{msg}; build the view again by a stream with a new checkpoint, or, if nothing is "
            "missing, open it with allow_gaps=True"
        )

    @staticmethod
    def _batch(
        source: str, batch_id: int, reached: int | None, receipts: Sequence[Receipt]
    ) -> AppliedBatch:
        times = [reached, *(receipt.reached for receipt in receipts)]
        watermark = max((each for each in times if each is not None), default=None)
        return AppliedBatch(0, source, batch_id, 0, watermark, 0, 0, 0, 0)

    def _merge(
        self,
        connection: psycopg.Connection[Any],
        stager: Stager,
        receipts: Sequence[Receipt],
        batch: AppliedBatch,
    ) -> None:
        """Apply the staged rows, in a transaction."""
        for statement in _DURABLE:
            connection.execute(statement)
        names = self.database.names
        latest = self._snapshot(connection).latest_batch()
        batch = batch.after(latest, self.clock())
        merge = Merge(connection, names, stager.table, receipts)
        merge.outcome(
            self.incoming.order_columns, lambda row: self.incoming.order_of(decode_row(row))
        )
        merge.write(batch, latest, self.history, columns_of(connection, names))
        connection.execute(
            "SELECT pg_notify(%s, %s)", (self.database.about.channel, str(batch.seq))
        )


_DURABLE = (
    """SELECT set_config('synchronous_commit', 'on', true)
        WHERE current_setting('synchronous_commit') = 'off'""",
    "SET LOCAL client_min_messages = warning",
)


def open_view(
    conninfo: Conninfo,
    schema: str,
    incoming: BatchReader,
    columns: Mapping[str, str] | None,
    history: int,
    clock: Callable[[], int],
    *,
    allow_gaps: bool,
    patience: int,
) -> tuple[PostgresDatabase, PostgresWriter]:
    """Open the tables of a view, and make its writer; the arguments are as for `PostgresView`.

    Args:
        conninfo: The address of the server, with the login.
        schema: The schema of PostgreSQL that has the tables.
        incoming: Reads the rows of the view.
        columns: The columns that SQL sees; None if they are not declared.
        history: The length of the history in batches.
        clock: Returns the time in ms since the epoch.
        allow_gaps: True permits a stream to skip batch ids.
        patience: How long to wait for another writer, in ms.
    """
    types = None if columns is None else check_types(incoming.view, columns)
    names = Names(schema, incoming.view)
    database = PostgresDatabase(
        conninfo, names, incoming.key_columns, incoming.order_columns, types or {}, patience
    )
    return database, PostgresWriter(database, incoming, types, history, allow_gaps, clock)
