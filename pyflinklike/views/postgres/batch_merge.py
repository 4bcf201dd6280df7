# SPDX-License-Identifier: Apache-2.0
"""Applies a staged batch to the tables of a view, in the writer's one transaction.

The effect of a batch on a key is that of `final_row`, here as SQL over all keys at once:

* Changes of a key: the last of them that puts or removes a row decides, or else the row that is
  there; a later retraction of exactly that row removes it.
* Plain rows of a key, in an ordered view: the first of the greatest order, if it is greater than
  the order of the row that is there.
* A key that has both is rare, and is left to `final_row` itself.

Rows are in the order of `place`: that of Spark's partitions, and within a partition that of
arrival.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import attrs
import psycopg
from psycopg import sql

from pyflinklike.errors import StateStoreError, StateValueError
from pyflinklike.types.row_kind import DELETE, INSERT, UPDATE_BEFORE
from pyflinklike.views.core.arrivals import Arrival, final_row
from pyflinklike.views.postgres import statements
from pyflinklike.views.postgres.names import Names
from pyflinklike.views.postgres.snapshot import Batch
from pyflinklike.views.postgres.staging import PLAIN, PUT, REMOVE, RETRACT, Receipt

__all__ = ["Merge"]

_KINDS = {
    name: sql.Literal(kind)
    for name, kind in {"PLAIN": PLAIN, "PUT": PUT, "REMOVE": REMOVE, "RETRACT": RETRACT}.items()
}
_OPS = {PLAIN: None, PUT: INSERT, REMOVE: DELETE, RETRACT: UPDATE_BEFORE}
_OrderOf = Callable[[bytes], "tuple[Any, ...] | None"]


@attrs.frozen
class Merge:
    """A staged batch on its way into a view.

    Args:
        connection: The writer's connection, in a transaction.
        names: The names of the view's tables.
        table: The name of the staging table.
        receipts: The receipts of the attempts that count, in the order of their partitions.
    """

    connection: psycopg.Connection[Any]
    names: Names
    table: str
    receipts: Sequence[Receipt]

    def outcome(self, order_columns: Sequence[str], order_of: _OrderOf) -> None:
        """Find out what changes, and write it to the temporary table `outcome`.

        Raises:
            StateStoreError: Rows that were staged are gone.
            StateValueError: The orders of a key's rows do not compare.
        """
        self._run("ANALYZE {staging}")
        self._check_staged()
        self._run(statements.OUTCOME)
        self._run(statements.OF_CHANGES)
        if order_columns:
            self._check_orders(order_columns)
            self._run(statements.OF_PLAIN_ROWS)
            self._fold(order_of)

    def write(
        self, batch: Batch, latest: Batch | None, history: int, columns: Iterable[str]
    ) -> None:
        """Write the outcome, the rows that it replaces and the batch.

        Args:
            batch: The batch, with its fields up to `watermark`.
            latest: The batch before; None for the first.
            history: The length of the history in batches.
            columns: The columns of the view.
        """
        count, size, rows_sum = self._run(statements.GROWTH)[0]
        self._run(
            "DELETE FROM {rows} USING pg_temp.outcome o WHERE _key = o.key AND o.after IS NULL"
        )
        ours = ["_key", "_row", "_order", "_checksum", "_error"]
        self._run(statements.PUT_ROWS, **_lists([*ours, *columns]))
        self._run(statements.LOG, seq=batch.seq)
        oldest = max(latest.oldest if latest else 1, batch.seq - history + 1)
        batch = batch._replace(
            size=(latest.size if latest else 0) + size,
            rows_sum=(latest.rows_sum if latest else 0) + int(rows_sum),
            changes=count,
            oldest=oldest,
        )
        self._run(statements.BATCH, **batch._asdict())
        self._run("DELETE FROM {batches} WHERE seq < %(oldest)s", oldest=oldest)
        self._run("DELETE FROM {changes} WHERE seq < %(oldest)s", oldest=oldest)
        self._see(batch.source, batch.batch_id)

    def _run(self, statement: str, **values: Any) -> list[tuple[Any, ...]]:
        parts = {name: each for name, each in values.items() if isinstance(each, sql.Composable)}
        plain = {name: each for name, each in values.items() if name not in parts}
        staging = sql.Identifier(self.names.schema, self.table)
        staged = self.names.sql(statements.STAGED, staging=staging)
        keys = self.names.sql(statements.KEYS, staged=staged, **_KINDS)
        query = self.names.sql(
            statement, staging=staging, staged=staged, keys=keys, **_KINDS, **parts
        )
        plain["tokens"] = [receipt.token for receipt in self.receipts]
        with self.connection.cursor(binary=True) as cursor:
            cursor.execute(query, plain)
            return cursor.fetchall() if cursor.description else []

    def _check_staged(self) -> None:
        """Check that every row is there: a server that crashed has emptied unlogged tables."""
        found = dict(self._run(statements.COUNTS))
        for receipt in self.receipts:
            if found.get(receipt.token, 0) != receipt.rows:
                msg = (
                    f"view {self.names.view!r}: a batch must have the rows that were staged, got "
                    f"{found.get(receipt.token, 0)} of {receipt.rows}"
                )
                raise StateStoreError(f"{msg}; send the batch again")

    def _check_orders(self, order_columns: Sequence[str]) -> None:
        ((text,),) = self._run("SELECT order_kinds FROM {about} FOR UPDATE")
        known: dict[str, list[str]] = json.loads(text)
        for receipt in self.receipts:
            for at, kinds in json.loads(receipt.kinds).items():
                known[at] = sorted({*known.get(at, []), *kinds})
                if len(known[at]) > 1:
                    msg = (
                        f"view {self.names.view!r}: rows must be ordered by values of one type, got "
                        f"{' and '.join(known[at])} in {order_columns[int(at)]!r}"
                    )
                    raise StateValueError(f"{msg}; cast the column")
        if json.dumps(known) != text:
            self._run("UPDATE {about} SET order_kinds = %(text)s", text=json.dumps(known))

    def _fold(self, order_of: _OrderOf) -> None:
        """Find the outcome of keys with changes and plain rows, one arrival after the other."""
        for key, found in itertools.groupby(self._run(statements.MIXED), key=lambda line: line[0]):
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
            self._run(statements.FOLDED, **dict(zip("abcdefg", values)))

    def _see(self, source: str, batch_id: int) -> None:
        """Add an id to the runs of ids, and join runs that are now adjacent."""
        near = self._run(statements.NEAR, source=source, id=batch_id)
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

    def arrival(self, order_of: _OrderOf) -> Arrival:
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
