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
import itertools
import json
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import attrs
import psycopg
from psycopg import sql

from pyflinklike.errors import StateStoreError, StateValueError
from pyflinklike.types.row import DELETE, INSERT, UPDATE_BEFORE
from pyflinklike.views.batch_frame import Feed
from pyflinklike.views.incoming_rows import Arrival, BatchReader, final_row, to_ms
from pyflinklike.views.postgres_database import PostgresDatabase
from pyflinklike.views.postgres_follower import Follower
from pyflinklike.views.postgres_staging import (
    PLAIN,
    PUT,
    RECEIPT,
    REMOVE,
    RETRACT,
    Receipt,
    Stager,
    StagingTask,
    drain,
    types_of,
)
from pyflinklike.views.postgres_tables import Names, PostgresSnapshot, columns_of
from pyflinklike.views.subscription import RowFilter
from pyflinklike.views.view_storage import NO_BATCH, AppliedBatch


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
    _followers: weakref.WeakSet[Follower] = attrs.field(init=False, factory=weakref.WeakSet)

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

    def apply_frame(self, feed: Feed, batch_id: int) -> None:
        """Apply a DataFrame, whose partitions the executors copy."""
        with self.database.lend_writer() as connection:
            if self._is_seen(connection, feed.source, batch_id):
                # A stateful stream cannot commit a batch that is not read.
                feed.df.mapInArrow(drain, RECEIPT).collect()
                return
            self._check_gap(connection, feed.source, batch_id)
            self.database.drop_staging(connection)
            columns = self.columns
            if columns is None:
                schema = feed.df.schema.jsonValue()
                columns = types_of(self.incoming.view, schema, self.incoming.key_columns)
            stager = self._stager(connection, columns)
            task = StagingTask(stager, self.database.conninfo, feed.time_zone)
            receipts = self._stage(feed.df, task)
            reached = None if feed.watermark is None else to_ms(feed.watermark, feed.zone)
            batch = self._batch(feed.source, batch_id, reached, receipts)
            with connection.transaction():
                self._merge(connection, stager, receipts, batch)
            self.database.drop_staging(connection)

    def subscribe(self, wanted: RowFilter, is_latest: bool) -> tuple[Follower, None]:
        """Return a new source of changes; they wait in the database, however slow the subscriber is."""
        follower = Follower(self.database, wanted, is_latest=is_latest)
        self._followers.add(follower)
        return follower, None

    def close(self) -> None:
        """End all subscriptions, and close the connections; changes that were read can still be taken."""
        for follower in list(self._followers):
            follower.end()
        self.database.close()

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
        return NO_BATCH._replace(source=source, batch_id=batch_id, watermark=watermark)

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
        merge = Merge(connection, names, stager.table, receipts, self.incoming)
        merge.outcome()
        merge.write(batch, latest, self.history, columns_of(connection, names))
        connection.execute(
            "SELECT pg_notify(%s, %s)", (self.database.about.channel, str(batch.seq))
        )


_DURABLE = (
    """SELECT set_config('synchronous_commit', 'on', true)
        WHERE current_setting('synchronous_commit') = 'off'""",
    "SET LOCAL client_min_messages = warning",
)


# The merge of a staged batch into the tables of a view, in the writer's one transaction
#
# A batch has the same effect on a key as `final_row`, here in SQL over all keys at once:
#
# * Changes of a key: the last one that puts or removes a row decides.  If there is none, the stored row
#   stays.  A later retraction of exactly the resulting row removes it.
# * Plain rows of a key, in an ordered view: the first row of the greatest order replaces the stored row,
#   if its order is greater.
# * Both for one key: this is rare, and is left to `final_row` itself.
#
# Rows are in the order of `place`: by Spark's partitions, and within a partition by arrival.


_KINDS = {
    name: sql.Literal(kind)
    for name, kind in {"PLAIN": PLAIN, "PUT": PUT, "REMOVE": REMOVE, "RETRACT": RETRACT}.items()
}
_OPS = {PLAIN: None, PUT: INSERT, REMOVE: DELETE, RETRACT: UPDATE_BEFORE}


@attrs.frozen
class Merge:
    """A staged batch on its way into a view.

    Args:
        connection: The writer's connection, in a transaction.
        names: The names of the view's tables.
        table: The name of the staging table.
        receipts: The receipts of the attempts that count, in the order of their partitions.
        incoming: Reads the orders of the view's rows.
    """

    connection: psycopg.Connection[Any]
    names: Names
    table: str
    receipts: Sequence[Receipt]
    incoming: BatchReader

    def outcome(self) -> None:
        """Find the keys that change, and write them to the temporary table `outcome`.

        Raises:
            StateStoreError: Rows that were staged are gone.
            StateValueError: The orders of a key's rows do not compare.
        """
        self._run("ANALYZE {staging}")
        self._check_staged()
        self._run(OUTCOME)
        self._run(OF_CHANGES)
        if self.incoming.order_columns:
            self._check_orders()
            self._run(OF_PLAIN_ROWS)
            self._fold()

    def write(
        self,
        batch: AppliedBatch,
        latest: AppliedBatch | None,
        history: int,
        columns: Iterable[str],
    ) -> None:
        """Write the outcome, the rows that it replaces and the batch.

        Args:
            batch: The batch, with its fields up to `watermark`.
            latest: The batch before; None for the first.
            history: The length of the history in batches.
            columns: The columns of the view.
        """
        count, size, rows_sum = self._run(GROWTH)[0]
        self._run(
            "DELETE FROM {rows} USING pg_temp.outcome o WHERE _key = o.key AND o.after IS NULL"
        )
        ours = ["_key", "_row", "_order", "_checksum", "_error"]
        self._run(PUT_ROWS, **_lists([*ours, *columns]))
        self._run(LOG, seq=batch.seq)
        before = latest or NO_BATCH
        oldest = max(before.oldest, batch.seq - history + 1)
        batch = batch._replace(
            size=before.size + size,
            rows_sum=before.rows_sum + int(rows_sum),
            changes=count,
            oldest=oldest,
        )
        self._run(BATCH, **batch._asdict())
        self._run("DELETE FROM {batches} WHERE seq < %(oldest)s", oldest=oldest)
        self._run("DELETE FROM {changes} WHERE seq < %(oldest)s", oldest=oldest)
        self._see(batch.source, batch.batch_id)

    def _run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        parts = {name: each for name, each in values.items() if isinstance(each, sql.Composable)}
        plain = {name: each for name, each in values.items() if name not in parts}
        staging = sql.Identifier(self.names.schema, self.table)
        staged = self.names.sql(STAGED, staging=staging)
        keys = self.names.sql(KEYS, staged=staged, **_KINDS)
        query = self.names.sql(
            statement, staging=staging, staged=staged, keys=keys, **_KINDS, **parts
        )
        plain["tokens"] = [receipt.token for receipt in self.receipts]
        with self.connection.cursor(binary=True) as cursor:
            cursor.execute(query, plain)
            return cursor.fetchall() if cursor.description else []

    def _check_staged(self) -> None:
        """Check that all staged rows exist: a server that has crashed empties unlogged tables."""
        found = dict(self._run(COUNTS))
        for receipt in self.receipts:
            if found.get(receipt.token, 0) != receipt.rows:
                msg = (
                    f"view {self.names.view!r}: a batch must have the rows that were staged, got "
                    f"{found.get(receipt.token, 0)} of {receipt.rows}"
                )
                raise StateStoreError(f"{msg}; send the batch again")

    def _check_orders(self) -> None:
        ((text,),) = self._run("SELECT order_kinds FROM {about} FOR UPDATE")
        known: dict[str, list[str]] = json.loads(text)
        for receipt in self.receipts:
            for at, kinds in json.loads(receipt.kinds).items():
                known[at] = sorted({*known.get(at, []), *kinds})
                if len(known[at]) > 1:
                    msg = (
                        f"view {self.names.view!r}: rows must be ordered by values of one type, got "
                        f"{' and '.join(known[at])} in {self.incoming.order_columns[int(at)]!r}"
                    )
                    raise StateValueError(f"{msg}; cast the column")
        if json.dumps(known) != text:
            self._run("UPDATE {about} SET order_kinds = %(text)s", text=json.dumps(known))

    def _fold(self) -> None:
        """Find the outcome of keys with changes and plain rows, one arrival after the other."""
        order_of = self.incoming.order_of_stored
        for key, found in itertools.groupby(self._run(MIXED), key=lambda line: line[0]):
            lines = [_Mixed(*line) for line in found]
            before, before_sum = lines[0].before, lines[0].before_sum
            arrivals = [line.arrival(order_of) for line in lines]
            after = final_row(before, arrivals, order_of)
            if after == before:
                continue
            winner = next(
                (line for line in lines if line.row == after and line.kind in (PLAIN, PUT)), None
            )
            place, after_sum = (winner.place, winner.checksum) if winner else (None, None)
            values = (key, lines[0].place, place, before, after, before_sum, after_sum)
            self._run(FOLDED, **dict(zip("abcdefg", values)))

    def _see(self, source: str, batch_id: int) -> None:
        """Add an id to the runs of ids, and join runs that are now adjacent."""
        near = self._run(NEAR, source=source, id=batch_id)
        first = min([batch_id, *(run[0] for run in near)])
        last = max([batch_id, *(run[1] for run in near)])
        for run in near:
            self._run(
                "DELETE FROM {seen} WHERE source = %(s)s AND first = %(f)s", s=source, f=run[0]
            )
        self._run("INSERT INTO {seen} VALUES (%(s)s, %(f)s, %(l)s)", s=source, f=first, l=last)


class _Mixed(NamedTuple):
    """A staged row of a key that has changes and plain rows."""

    key: bytes
    place: int
    kind: int
    checksum: int
    row: bytes | None
    before: bytes | None
    before_sum: int | None

    def arrival(self, order_of: Callable[[bytes], Any]) -> Arrival:
        order = order_of(self.row) if self.kind == PLAIN and self.row is not None else None
        return Arrival(self.key, _OPS[self.kind], self.row, order, None)


def _lists(columns: Sequence[str]) -> dict[str, sql.Composable]:
    """Return the columns in the three forms that the statement for rows needs."""
    names = [sql.Identifier(name) for name in columns]
    put = [sql.SQL("{0} = EXCLUDED.{0}").format(name) for name in names[1:]]
    return {
        "columns": sql.SQL(", ").join(names),
        "of_staged": sql.SQL(", ").join(sql.SQL("s.{}").format(name) for name in names),
        "put": sql.SQL(", ").join(put),
    }


# The SQL of a merge; `Merge` runs it, and fills in the braces

# Room for 2**40 rows in a partition; `tokens` are in the order of the partitions.
STAGED: Final = """SELECT (t.n << 40) + s._position AS _place, s.* FROM {staging} s
    JOIN unnest(%(tokens)s::bigint[]) WITH ORDINALITY t(token, n) ON s._token = t.token"""

COUNTS: Final = """SELECT _token, count(*) FROM {staging}
    WHERE _token = ANY(%(tokens)s::bigint[]) GROUP BY _token"""

OUTCOME: Final = """CREATE TEMP TABLE outcome (key bytea, first bigint, winner bigint, before bytea,
    after bytea, before_sum bigint, after_sum bigint) ON COMMIT DROP"""

KEYS: Final = """staged AS MATERIALIZED (
        SELECT _place AS place, _key AS key, _kind AS kind, _row AS row, _order AS "order",
            _checksum AS checksum
        FROM ({staged}) s),
    keys AS (SELECT key, min(place) AS first, bool_or(kind = {RETRACT}) AS retracts,
        bool_or(kind = {PLAIN}) AS plain, bool_or(kind <> {PLAIN}) AS changes
        FROM staged GROUP BY key)"""

OF_CHANGES: Final = """INSERT INTO pg_temp.outcome WITH {keys},
    decided AS (SELECT DISTINCT ON (key) key, place, row, checksum FROM staged
        WHERE kind IN ({PUT}, {REMOVE}) ORDER BY key, place DESC),
    result AS (SELECT k.key, k.first, k.retracts, d.place, r._row AS before,
            r._checksum AS before_sum, d.checksum AS after_sum,
            CASE WHEN d.key IS NULL THEN r._row ELSE d.row END AS after
        FROM keys k LEFT JOIN decided d ON d.key = k.key LEFT JOIN {rows} r ON r._key = k.key
        WHERE NOT k.plain),
    retracted AS (SELECT DISTINCT s.key FROM staged s JOIN result f ON f.key = s.key
        WHERE f.retracts AND s.kind = {RETRACT} AND s.row = f.after
            AND (f.place IS NULL OR s.place > f.place)),
    final AS (SELECT f.key, f.first, f.place, f.before, f.before_sum, f.after_sum,
            CASE WHEN t.key IS NULL THEN f.after END AS after
        FROM result f LEFT JOIN retracted t ON t.key = f.key)
    SELECT key, first, CASE WHEN after IS NOT NULL THEN place END, before, after, before_sum,
        CASE WHEN after IS NOT NULL THEN after_sum END
    FROM final WHERE after IS DISTINCT FROM before"""

OF_PLAIN_ROWS: Final = """INSERT INTO pg_temp.outcome WITH {keys},
    best AS (SELECT DISTINCT ON (key) * FROM staged WHERE kind = {PLAIN}
        ORDER BY key, "order" DESC, place)
    SELECT k.key, k.first, b.place, r._row, b.row, r._checksum, b.checksum
    FROM keys k JOIN best b ON b.key = k.key LEFT JOIN {rows} r ON r._key = k.key
    WHERE NOT k.changes AND b.row IS DISTINCT FROM r._row
        AND (r._key IS NULL OR r._order IS NULL OR b."order" > r._order)"""

MIXED: Final = """WITH {keys}
    SELECT s.key, s.place, s.kind, s.checksum, s.row, r._row, r._checksum
    FROM keys k JOIN staged s ON s.key = k.key LEFT JOIN {rows} r ON r._key = k.key
    WHERE k.plain AND k.changes ORDER BY s.key, s.place"""

GROWTH: Final = """SELECT count(*), count(after) - count(before),
    coalesce(sum(after_sum), 0) - coalesce(sum(before_sum), 0) FROM pg_temp.outcome"""

PUT_ROWS: Final = """INSERT INTO {rows} ({columns}) SELECT {of_staged}
    FROM pg_temp.outcome o JOIN ({staged}) s ON s._place = o.winner
    ON CONFLICT (_key) DO UPDATE SET {put}"""

LOG: Final = """INSERT INTO {changes} SELECT %(seq)s, row_number() OVER (ORDER BY first), key, before
    FROM pg_temp.outcome"""

# As numeric: the id before the least bigint, or after the greatest, would overflow.
NEAR: Final = """SELECT first, last FROM {seen} WHERE source = %(source)s
    AND (last = %(id)s::numeric - 1 OR first = %(id)s::numeric + 1)"""

BATCH: Final = """INSERT INTO {batches} VALUES (%(seq)s, %(source)s, %(batch_id)s, %(applied_at)s,
    %(watermark)s, %(size)s, %(rows_sum)s, %(changes)s, %(oldest)s)"""

FOLDED: Final = """INSERT INTO pg_temp.outcome
    VALUES (%(a)s, %(b)s, %(c)s, %(d)s, %(e)s, %(f)s, %(g)s)"""
