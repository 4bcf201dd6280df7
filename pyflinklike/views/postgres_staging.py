# SPDX-License-Identifier: Apache-2.0
"""The staging table of a batch, into which the executors copy its rows with the columns that SQL sees.

A staging table belongs to one attempt at a batch.  Spark may run several attempts at a partition, one after the
other or at the same time.  Each attempt copies its rows under a random token, in a transaction of its own, and
returns the token to the driver in its receipt.  Spark passes on only one receipt per partition.  So the driver
never reads the rows of attempts that failed or lost a race: it does not know their tokens.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, NamedTuple

import attrs
import msgspec
import psycopg
import pyarrow as pa
from psycopg import sql

from pyflinklike import errors
from pyflinklike._messages import short_repr
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    PyflinklikeError,
    StateStoreError,
    StateValueError,
)
from pyflinklike.types.key_codec import encode_key
from pyflinklike.types.row import DELETE, UPDATE_BEFORE, names_of
from pyflinklike.types.type_information import plain
from pyflinklike.views.batch_frame import rows_of, zone_named
from pyflinklike.views.incoming_rows import Arrival, BatchReader, layout_of, to_ms
from pyflinklike.views.postgres_database import Conninfo
from pyflinklike.views.postgres_tables import Names, check_column, checksum_of
from pyflinklike.views.row_codec import Failure, decode_row, from_key_bytes

PLAIN, PUT, REMOVE, RETRACT = range(4)
"""The effects of staged rows; in a view without an order, a plain row counts as put."""

RECEIPT = "token long, rows long, reached long, kinds string, fault string, message string"
"""The columns of receipts, for Spark."""

_RECEIPT = pa.schema(
    [(name, pa.int64()) for name in ("token", "rows", "reached")]
    + [(name, pa.string()) for name in ("kinds", "fault", "message")]
)


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


# The columns that SQL sees: their types, and their values for a row
#
# A read through a view decodes `_row`, which holds the row bit by bit.  The columns are for queries
# by SQL.  If PostgreSQL cannot hold a value, the column has a similar one: U+FFFD for a NUL in a
# text, the text "NaN" for a NaN inside JSON.


_JSON = "jsonb"
_TYPES = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "bigint"),
    **dict.fromkeys(("float", "double"), "double precision"),
    "boolean": "boolean",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
"""PostgreSQL's types, by the names of Spark's."""

_TYPE = re.compile(r'[A-Za-z_][A-Za-z0-9_ ."]*(\(\d+(, *-?\d+)?\))?[A-Za-z ]*(\[\])*')


def check_types(view: str, columns: Any) -> dict[str, str]:
    """Check columns and their types, as a user declares them.

    Raises:
        DeclarationTypeError: The argument is not a mapping of names to types.
        DeclarationValueError: A type cannot be one of PostgreSQL's.
        StateValueError: A name cannot name a column.
    """
    texts = isinstance(columns, Mapping) and all(
        isinstance(each, str) for pair in columns.items() for each in pair
    )
    if not texts:
        msg = f"view {view!r}: columns must map names to PostgreSQL's types, got {short_repr(columns)}"
        raise DeclarationTypeError(f"{msg}; for example {{'total': 'bigint'}}")
    for name, kind in columns.items():
        check_column(view, name)
        if not _TYPE.fullmatch(kind):
            msg = f"view {view!r}: a column must have a type of PostgreSQL, got {short_repr(kind)} for {name!r}"
            raise DeclarationValueError(f"{msg}; for example 'numeric(10, 2)'")
    return dict(columns)


def types_of(view: str, schema: Mapping[str, Any], key_columns: tuple[str, ...]) -> dict[str, str]:
    """Return the view's columns, and their types, for a DataFrame's rows.

    Args:
        view: The name of the view, for messages.
        schema: Spark's schema, as its `jsonValue()`.
        key_columns: The key columns of the view.
    """
    fields = {field["name"]: field["type"] for field in schema["fields"]}
    layout = layout_of(tuple(fields), key_columns)
    if layout.value is not None:
        value = fields[layout.names[layout.value]]
        is_struct = isinstance(value, Mapping) and value.get("type") == "struct"
        of_row = _fields(value) if is_struct else {"value": value}
    else:
        of_row = {layout.names[at]: fields[layout.names[at]] for at in layout.content}
    columns = {**_of_key(fields, of_row, key_columns), **of_row}
    for name in columns:
        check_column(view, name)
    return {name: _type(kind) for name, kind in columns.items()}


def _of_key(
    fields: Mapping[str, Any], of_row: Mapping[str, Any], key_columns: tuple[str, ...]
) -> dict[str, Any]:
    """Return the types of the key columns, from the row, its field `key` or its value."""
    if set(key_columns) <= fields.keys():
        return {name: fields[name] for name in key_columns}
    whole = fields.get("key")
    if whole is None:
        return {name: of_row[name] for name in key_columns if name in of_row}
    if len(key_columns) == 1:
        return {key_columns[0]: whole}
    parts = list(_fields(whole).values()) if isinstance(whole, Mapping) else []
    return dict(zip(key_columns, parts))


def _fields(struct: Mapping[str, Any]) -> dict[str, Any]:
    return {field["name"]: field["type"] for field in struct.get("fields", ())}


def _type(kind: Any) -> str:
    if not isinstance(kind, str):
        return _JSON
    if kind.startswith("decimal"):
        return "numeric"
    if kind.startswith("interval day"):
        return "interval"
    if kind.startswith("time("):
        return "time without time zone"
    return _TYPES.get(kind, "text")


def project(
    row: Any, key: Any, columns: Mapping[str, str], key_columns: Sequence[str], zone: dt.tzinfo
) -> list[Any]:
    """Return the values of the columns for a row.

    Args:
        row: The row as it was put in.  For a `Failure`, or None for a deleted row, only the key columns
            have values.
        key: The key of the row, decoded.
        columns: The columns of the view, and their types.
        key_columns: The key columns of the view.
        zone: The time zone of naive datetimes.
    """
    names = None if isinstance(row, Failure) else names_of(row)
    values: Mapping[Any, Any]
    if names is None:
        values = {} if row is None or isinstance(row, Failure) else {"value": row}
    else:
        values = row if isinstance(row, Mapping) else dict(zip(names, row))
    parts = key if isinstance(key, tuple) and len(key_columns) > 1 else [key]
    keys = dict(zip(key_columns, parts))
    return [
        _to_column(values[name] if name in values else keys.get(name), kind, zone)
        for name, kind in columns.items()
    ]


def _to_column(value: Any, kind: str, zone: dt.tzinfo) -> Any:
    if value is None or type(value) in (int, float, bool, bytes, dt.date):
        return _json(value) if kind in (_JSON, "json") and value is not None else value
    if kind in (_JSON, "json") or isinstance(value, (tuple, list, Mapping)):
        return _json(value)
    if isinstance(value, str):
        return value.replace("\0", "\ufffd") if "\0" in value else value
    if isinstance(value, dt.datetime) and value.tzinfo is None and kind.endswith("with time zone"):
        return value.replace(tzinfo=zone)
    if isinstance(value, Decimal) and value.is_nan():
        return Decimal("NaN")  # PostgreSQL knows no signalling one
    return value


_encode = msgspec.json.Encoder(decimal_format="number").encode


def _json(value: Any) -> str:
    return _encode(_plain(value)).decode()


def _plain(value: Any) -> Any:
    """Return a value with only the types that JSON has."""
    if isinstance(value, Mapping):
        return {_name(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        names = names_of(value) if isinstance(value, tuple) else None
        if names:
            return {_name(name): _plain(each) for name, each in zip(names, value)}
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, (float, Decimal)) and not math.isfinite(value):
        return str(value)
    # msgspec encodes no int beyond 64 bits; as a Decimal it is written as a number.
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return Decimal(value)
    return value


def _name(key: Any) -> str:
    return (key if isinstance(key, str) else str(_plain(key))).replace("\0", "\ufffd")
