# SPDX-License-Identifier: Apache-2.0
"""The staging table of a batch, into which the executors copy its rows.

A staging table belongs to one attempt at a batch.  Spark may run several attempts at a partition, one after the
other or at the same time.  Each attempt copies its rows under a random token, in a transaction of its own, and
returns the token to the driver in its receipt.  Spark passes on only one receipt per partition.  So the driver
never reads the rows of attempts that failed or lost a race: it does not know their tokens.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import secrets
from collections.abc import Callable, Iterable, Iterator
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, NamedTuple

import attrs
import psycopg
import pyarrow as pa
from psycopg import sql

from pyflinklike import errors
from pyflinklike._messages import short_repr
from pyflinklike.errors import PyflinklikeError, StateStoreError, StateValueError
from pyflinklike.types.key_codec import encode_key
from pyflinklike.types.row import DELETE, UPDATE_BEFORE
from pyflinklike.types.type_information import plain
from pyflinklike.views.arguments import to_ms
from pyflinklike.views.batch_frame import rows_of, zone_named
from pyflinklike.views.incoming_rows import Arrival, BatchReader
from pyflinklike.views.postgres.conninfo import Conninfo
from pyflinklike.views.postgres.postgres_tables import Names, checksum_of
from pyflinklike.views.postgres.sql_columns import project
from pyflinklike.views.row_codec import Failure, decode_row, from_key_bytes

__all__ = ["RECEIPT", "Receipt", "Stager", "StagingTask", "create_staging", "drain", "order_bytes"]


PLAIN, PUT, REMOVE, RETRACT = range(4)
"""The effects of staged rows; in a view without an order, a plain row counts as put."""

RECEIPT = "token long, rows long, reached long, kinds string, fault string, message string"
"""The columns of receipts, for Spark."""

_RECEIPT = pa.schema(
    [(name, pa.int64()) for name in ("token", "rows", "reached")]
    + [(name, pa.string()) for name in ("kinds", "fault", "message")]
)
# Not logged, which is faster: if a crash empties the table, the batch is sent again.
_STAGING = """CREATE UNLOGGED TABLE {staging} (_token bigint, _position bigint, _kind int,
    _key bytea, _row bytea, _order bytea, _checksum bigint, _error text{columns})"""


class Receipt(NamedTuple):
    """The result of an attempt at a partition.

    Args:
        token: The token of its rows.
        rows: How many rows it copied.
        reached: The greatest event time, in ms since the epoch; None if no row has one.
        kinds: The kinds of values in the parts of orders, as JSON; only values of one kind compare.
        fault: The class of the error that a row caused; None if there is none.
        message: The text of that error; None if there is none.
    """

    token: int
    rows: int
    reached: int | None
    kinds: str
    fault: str | None = None
    message: str | None = None

    def check(self) -> None:
        """Raise the error that a row caused, if there is one."""
        if self.fault is not None:
            raise getattr(errors, self.fault, StateValueError)(self.message)


def create_staging(
    connection: psycopg.Connection[Any], names: Names, table: str, columns: dict[str, str]
) -> None:
    """Make an empty staging table with the view's columns."""
    more = [sql.SQL(", {} " + kind).format(sql.Identifier(name)) for name, kind in columns.items()]
    connection.execute(
        names.sql(_STAGING, staging=sql.Identifier(names.schema, table), columns=sql.Composed(more))
    )


@attrs.frozen
class Stager:
    """Copies rows into one staging table.

    Args:
        names: The names of the view's tables.
        table: The staging table's name.
        incoming: Reads the rows of the view.
        columns: The columns that SQL sees, and their types.
        identity: The identity of the view's tables.
    """

    names: Names
    table: str
    incoming: BatchReader
    columns: dict[str, str]
    identity: int

    def copy(
        self, connection: psycopg.Connection[Any], batches: Iterable[Iterable[Any]], zone: dt.tzinfo
    ) -> Receipt:
        """Copy rows, in the caller's transaction.

        Args:
            connection: A connection to the database, in a transaction.
            batches: The rows, in any number of portions.
            zone: The time zone of naive datetimes.
        """
        token, count = secrets.randbits(62), 0
        reached: int | None = None
        kinds: dict[str, list[str]] = {}
        with connection.cursor() as cursor, cursor.copy(self._statement()) as copy:
            for rows in batches:
                for arrival in self.incoming.read(rows):
                    copy.write_row([token, count, *self._line(arrival, kinds, zone)])
                    count += 1
                    if arrival.event_time is not None:
                        at = to_ms(arrival.event_time, zone)
                        reached = at if reached is None else max(reached, at)
        return Receipt(token, count, reached, json.dumps(kinds))

    def _statement(self) -> sql.Composed:
        ours = ("_token", "_position", "_kind", "_key", "_row", "_order", "_checksum", "_error")
        names = sql.SQL(", ").join(map(sql.Identifier, (*ours, *self.columns)))
        return sql.SQL("COPY {} ({}) FROM STDIN").format(
            sql.Identifier(self.names.schema, self.table), names
        )

    def _line(self, arrival: Arrival, kinds: dict[str, list[str]], zone: dt.tzinfo) -> list[Any]:
        kind = self._kind(arrival)
        row = arrival.row
        content = decode_row(row) if row is not None and kind in (PLAIN, PUT) else None
        order = arrival.order
        if kind == PUT and self.incoming.order_columns:
            order = self.incoming.order_of(content)
        if order is not None:
            _note(order, kinds)
        return [
            kind,
            arrival.key,
            None if kind == REMOVE else row,
            None if order is None else order_bytes(order),
            0 if row is None else checksum_of(self.identity, arrival.key, row),
            short_repr(content.error).replace("\0", "\ufffd")
            if isinstance(content, Failure)
            else None,
            *self._project(content, arrival.key, zone, is_row=kind in (PLAIN, PUT)),
        ]

    def _project(self, content: Any, key: bytes, zone: dt.tzinfo, *, is_row: bool) -> list[Any]:
        if not is_row:
            return [None] * len(self.columns)
        columns = self.incoming.key_columns
        return project(content, from_key_bytes(key), self.columns, columns, zone)

    def _kind(self, arrival: Arrival) -> int:
        if arrival.op is None:
            return PLAIN if self.incoming.order_columns else PUT
        if arrival.op == DELETE or (arrival.op == UPDATE_BEFORE and arrival.row is None):
            return REMOVE
        return RETRACT if arrival.op == UPDATE_BEFORE else PUT


def _note(order: tuple[Any, ...], kinds: dict[str, list[str]]) -> None:
    """Note the kinds of values in the parts of an order, each kind once."""
    for at, kind in enumerate(kinds_of(order)):
        if kind is not None:
            known = kinds.setdefault(str(at), [])
            if kind not in known:
                known.append(kind)


@attrs.frozen
class StagingTask:
    """Copies the rows of a partition, in an executor; `DataFrame.mapInArrow` calls it.

    Args:
        stager: Copies into the staging table.
        conninfo: The address of the server, with the login.
        time_zone: The name of the session's time zone.
    """

    stager: Stager
    conninfo: Conninfo
    time_zone: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Copy the rows, and yield the receipt."""
        zone = zone_named(self.time_zone)
        rows = (rows_of(batch, self.time_zone) for batch in batches)
        yield _batch_of(self._attempt(lambda one: self.stager.copy(one, rows, zone)))

    def _attempt(self, copy: Callable[[psycopg.Connection[Any]], Receipt]) -> Receipt:
        """Return the receipt, even if a row is refused, since a second attempt would be refused, too."""
        with self.conninfo.connect("task") as connection:
            try:
                receipt = copy(connection)
                connection.commit()
            except psycopg.Error as error:
                failed = self.conninfo.make_error(error, writing=True)
                if isinstance(failed, StateStoreError):
                    raise failed from None
                return _make_refused_receipt(failed)
            except PyflinklikeError as error:
                return _make_refused_receipt(error)
        return receipt


def drain(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Read a partition and drop it: a stateful stream cannot commit a batch that is not read."""
    for _ in batches:
        pass
    yield from ()


def _make_refused_receipt(error: Exception) -> Receipt:
    return Receipt(0, 0, None, "{}", type(error).__name__, str(error))


def _batch_of(receipt: Receipt) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([receipt._asdict()], schema=_RECEIPT)


# The order of a row, as bytes that compare in PostgreSQL as `is_newer` compares in Python
#
# The key codec distinguishes 1 and 1.0, but orders compare by value.  So a number is written as its
# floor and the decimal digits of the rest, which are exact for every float.


_WIDE = Context(prec=2000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_NUMBERS = (int, float, Decimal)


def order_bytes(order: tuple[Any, ...]) -> bytes:
    """Return the bytes of an order.

    Args:
        order: One part for each order column; None is the least, and NaN is not allowed.

    Raises:
        StateValueError: A part has no order.
    """
    return encode_key(tuple(map(_form, order)))


def kinds_of(order: tuple[Any, ...]) -> list[str | None]:
    """Return for each part the kind of values that it compares with; None for a part that is None."""
    return [None if part is None else _kind(plain(part)) for part in order]


def _kind(part: Any) -> str:
    if isinstance(part, _NUMBERS):
        return "number"
    if isinstance(part, dt.datetime):
        return "datetime" if part.tzinfo is None else "datetime with zone"
    if isinstance(part, (tuple, list)):
        return f"({', '.join('None' if each is None else _kind(plain(each)) for each in part)})"
    return type(part).__name__


def _form(part: Any) -> Any:
    if part is None:
        return None
    part = plain(part)
    if isinstance(part, (tuple, list)):
        return tuple(map(_form, part))
    return _number(part) if isinstance(part, _NUMBERS) else part


def _number(value: int | float | Decimal) -> tuple[Any, ...]:
    if not isinstance(value, int) and math.isinf(value):
        return (1,) if value > 0 else (-1,)
    if isinstance(value, int):
        return (0, int(value), "")
    exact = Decimal(value)
    if abs(exact.adjusted()) > 600:  # an int of the key codec has at most 255 bytes
        msg = f"a row must be ordered by a number of at most 600 digits, got {short_repr(value)}; round it"
        raise StateValueError(msg)
    whole = math.floor(exact)
    digits = exact.as_tuple()
    places = max(0, -int(digits.exponent))
    # In ints, since arithmetic of Decimals rounds.
    scaled = int(exact.scaleb(places, _WIDE)) - whole * 10**places
    return (0, whole, f"{scaled:0{places}d}".rstrip("0") if places else "")
