# SPDX-License-Identifier: Apache-2.0
"""The records of Debezium as events that an upsert applies.

Its operations, and their events:

    c u r   the row is now `after`
    d       the row is gone, `after` is None
    t       the table was emptied: `truncate` decides what happens
    m       a message in PostgreSQL's log: there is no change
    (null)  a tombstone, by which Kafka's compaction drops the key: another delete

Rules:

1. A record is never lost silently.  If it cannot be decoded, the decoder raises an error, or makes
   an event with an `error`, or drops the record because the user has asked for that.
2. An update without the row after it is an error, not a delete.
3. A changed primary key comes as a delete of the old key and a create of the new one, each
   under its key.  An update that changes its key cannot be one event, so it is an error.
4. If the database did not log a column, its value is taken from `before`.  If `before` does not have
   it either, `after` lacks the column and `unavailable` names it, and the upsert takes its value from
   the stored row.
5. The key of an event is the record's own key, or columns of its row.
6. The declared columns give the types of rows and keys, or else the envelope's schema does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import attrs

from pyflinklike._checks import check_choice, is_int
from pyflinklike._messages import short_repr, shown_error
from pyflinklike.cdc.change_event import (
    CREATE,
    LOWEST,
    MESSAGE,
    READ,
    REMOVE,
    TRUNCATE,
    UPDATE,
    CdcEvent,
    is_position,
    is_snapshot,
    offset_order,
    source_order,
)
from pyflinklike.cdc.envelope import (
    DEFAULT_PLACEHOLDER,
    Envelope,
    Placeholder,
    parse_envelope,
    parse_fields,
    parse_key,
    parse_row,
    placeholder_of,
)
from pyflinklike.cdc.table_row import UNDECLARED, ConversionPlan, TableRow, row_of
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    KeyDecodeError,
    NullKeyError,
    UpsertError,
    ValueDecodeError,
)


def decode_debezium(
    record: Mapping[str, Any],
    *,
    schema: Any = None,
    key: str | Sequence[str] | None = None,
    order: str | Callable[[Mapping[str, Any]], Any] = "source",
    truncate: str = "error",
    unavailable: str = "keep",
    on_error: str = "raise",
    placeholder: str = DEFAULT_PLACEHOLDER,
) -> CdcEvent | None:
    """Decode a record of a Debezium topic.

    Args:
        record: A mapping with `key` and `value` (JSON text or bytes, or None), and with `partition`
            and `offset`, which `order="offset"` needs; with "source" they order events whose
            `source` is unknown.
        schema: The table's row, as DDL or a `StructType` of Spark: then the event is the same as in
            a DataFrame.  Without it a value has the type in the envelope's schema, or else JSON's
            own type.
        key: The name of the key column, or names of several.  None takes the columns of the
            record's own key, or the first column of `schema` if that is given.
        order: The order of the events of a key: by the position in the database's log ("source"),
            by Kafka's partition and offset ("offset"), or by a function of the record with its
            `key` and `value` parsed and the fields of the envelope beside them.
        truncate: The meaning of a truncation: an "error", nothing ("ignore"), or an event with the
            op `t` and no key ("apply"), which the caller filters out before `key_by`.
        unavailable: The treatment of a column whose value neither `after` nor `before` has: it is
            named in the event's `unavailable` ("keep"), it is None ("null"), or it is an "error".
        on_error: "raise", "inline" (an event whose `error` says why) or "drop".
        placeholder: The text of the connector's option `unavailable.value.placeholder`.

    Returns:
        The event, or None if there is no change to apply.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        KeyDecodeError, NullKeyError, ValueDecodeError: The record cannot be decoded, with
            `on_error="raise"`.
    """
    decoder = DebeziumDecoder(
        row=UNDECLARED if schema is None else row_of(schema),
        key=key,
        order=order,
        truncate=truncate,
        unavailable=unavailable,
        on_error=on_error,
        placeholder=placeholder,
    )
    if not isinstance(record, Mapping):
        msg = (
            "decode_debezium takes a mapping with key, value, partition and offset, "
            f"got {short_repr(record)}; give a Row as row.asDict(), and a DataFrame to "
            "pyflinklike.spark.decode_debezium"
        )
        raise DeclarationTypeError(msg)
    return decoder.record(record)


_ROWS: Final = frozenset({CREATE, UPDATE, READ})
_OPERATIONS: Final = (CREATE, UPDATE, REMOVE, READ, TRUNCATE, MESSAGE)


def _one_of(*choices: str, remedy: str = "choose one") -> Callable[[Any, Any, Any], None]:
    """Return a check of an option that is one of some words."""
    return lambda _, option, given: check_choice(given, choices, option.name, remedy)


def _check_order(decoder: Any, option: Any, given: Any) -> None:
    if not callable(given):
        remedy = "choose one, or give a function of the record"
        _one_of("source", "offset", remedy=remedy)(decoder, option, given)


def _key_columns(key: str | Sequence[str] | None) -> tuple[str, ...] | None:
    columns = None if key is None else ((key,) if isinstance(key, str) else tuple(key))
    if columns == () or not all(isinstance(each, str) for each in columns or ()):
        msg = f"key must be the name of a column or several, got {short_repr(key)}"
        raise DeclarationTypeError(msg)
    return columns


def _placeholder(text: str) -> Placeholder:
    if not isinstance(text, str) or not text:
        msg = f"placeholder must be the connector's unavailable.value.placeholder, got {text!r}"
        raise DeclarationTypeError(msg)
    return placeholder_of(text)


@attrs.frozen(kw_only=True)
class DebeziumDecoder:
    """Decodes single records, with the options of `decode_debezium`.

    Raises:
        DeclarationTypeError, DeclarationValueError: An option is wrong.
    """

    row: TableRow
    order: str | Callable[[Mapping[str, Any]], Any] = attrs.field(validator=_check_order)
    truncate: str = attrs.field(validator=_one_of("error", "ignore", "apply"))
    unavailable: str = attrs.field(validator=_one_of("keep", "null", "error"))
    on_error: str = attrs.field(
        validator=_one_of(
            "raise", "inline", "drop", remedy="choose one; only operators have side outputs"
        )
    )
    key: tuple[str, ...] | None = attrs.field(converter=_key_columns)
    placeholder: Placeholder = attrs.field(converter=_placeholder)
    own_key: tuple[str, ...] | None = attrs.field(init=False)
    """The columns of the records' keys, if `key` is None."""

    @key.validator
    def _check_key(self, _: Any, columns: tuple[str, ...] | None) -> None:
        names = self.row.names
        unknown = [name for name in columns or () if names and name not in names]
        if unknown:
            msg = f"the key must be columns of schema=, got {unknown} and {list(names)}"
            raise DeclarationValueError(msg)

    @own_key.default
    def _find_own_key(self) -> tuple[str, ...] | None:
        return self.row.names[:1] if self.row.names and self.key is None else None

    def record(self, record: Mapping[str, Any]) -> CdcEvent | None:
        """Return the event of a record, and handle an error as `on_error` says."""
        try:
            return self.decode(record)
        except UpsertError as error:
            return self.failed(record, error)

    def failed(self, record: Mapping[str, Any], error: UpsertError) -> CdcEvent | None:
        """Handle a record that cannot be decoded: raise, return None, or return an event.

        The event has the readable parts of the record, above all its key and its order key, so that
        the error replaces the row that it is about.  If the order key cannot be read, it is None: a
        key made of the offset would be below every position.
        """
        partition, offset = record.get("partition"), record.get("offset")
        text = str(error)
        if (partition, offset) != (None, None):
            text += f" (record at partition {short_repr(partition)}, offset {short_repr(offset)})"
        if self.on_error == "raise":
            raise type(error)(text) from error
        if self.on_error == "drop":
            return None
        try:
            event = self._about(record, parse_envelope(record.get("value")))
        except UpsertError:
            event = CdcEvent(None, None, None, None, self._order_of_unread(record))
        if self.order == "source" and event.order_key and not is_position(event.order_key):
            event = event._replace(order_key=None)
        with suppress(UpsertError):
            event = event._replace(key=self._own_key_of(record))
        return event._replace(error=f"{type(error).__name__}: {text}")

    def decode(self, record: Mapping[str, Any]) -> CdcEvent | None:
        """Return the event of a record, or None if there is no change to apply.

        Raises:
            KeyDecodeError, NullKeyError, ValueDecodeError: The record cannot be decoded.
        """
        envelope = parse_envelope(record.get("value"))
        event = self._about(record, envelope)
        if envelope is None:
            return self._tombstone(record, event)
        if event.op not in _OPERATIONS:
            msg = (
                f"the op of an envelope must be one of {list(_OPERATIONS)}, got {short_repr(envelope.op)}; "
                "do not flatten the records with ExtractNewRecordState"
            )
            raise ValueDecodeError(msg)
        if event.op == MESSAGE:
            return None
        if event.op == TRUNCATE:
            return self._truncation(event)
        before = parse_row(envelope.before, "before")
        after = parse_row(envelope.after, "after") if event.op in _ROWS else None
        if after is None and event.op in _ROWS:
            msg = (
                f"the op {event.op!r} must come with the row after it, got after=None; let the "
                "connector look up full documents"
            )
            raise ValueDecodeError(msg)
        missing = self._fill(before, after)
        plan = self.row.plan(bytes(envelope.schema))
        own, schema = parse_key(record.get("key"))
        # The key takes raw values of the rows, because `convert_key` goes by its own schema.
        key = self._key(own, before, after)
        if before is not None:
            before = plan.convert_row(before, "before")
        if after is not None:
            after = plan.convert_row(after, "after")
        key = plan.convert_key(key, self._columns_of(own), schema)
        return event._replace(key=key, before=before, after=after, unavailable=missing)

    def _about(self, record: Mapping[str, Any], envelope: Envelope | None) -> CdcEvent:
        """Return an event without key and rows."""
        if envelope is None:
            order = None if callable(self.order) else self._order(record, {}, snapshot=False)
            return CdcEvent(REMOVE, None, None, None, order or LOWEST)
        op = envelope.op and envelope.op.lower()
        source = envelope.source or {}
        snapshot = is_snapshot(source, op)
        order = self._order(record, source, snapshot=snapshot)
        committed = source.get("ts_ms")  # some connectors have 0 here for a snapshot
        time = committed if is_int(committed) and committed else envelope.ts_ms
        return CdcEvent(op, None, None, None, order, time, snapshot, envelope.source)

    def _truncation(self, event: CdcEvent) -> CdcEvent | None:
        if self.truncate == "error":
            msg = (
                "a record must change a single row, got a truncation of the table; "
                "decode with truncate='ignore' or truncate='apply'"
            )
            raise ValueDecodeError(msg)
        return None if self.truncate == "ignore" else event

    def _tombstone(self, record: Mapping[str, Any], event: CdcEvent) -> CdcEvent | None:
        columns, _ = parse_key(record.get("key"))
        if isinstance(columns, dict) and self.key and not columns.keys() >= set(self.key):
            return None  # the delete before it had the row with the columns of the key
        if callable(self.order):
            return None  # without an envelope the function cannot compute an order
        return event._replace(key=self._own_key_of(record))

    def _order(
        self, record: Mapping[str, Any], source: Mapping[str, Any], *, snapshot: bool
    ) -> Any:
        partition, offset = record.get("partition"), record.get("offset")
        if callable(self.order):
            return self._order_of(self.order, record)
        if self.order == "offset":
            if partition is None or offset is None:
                msg = f"order='offset' needs a partition and an offset, got {short_repr(partition)} and {short_repr(offset)}"
                raise ValueDecodeError(msg)
            return (partition, offset)
        try:
            position = source_order(source, snapshot=snapshot, offset=offset)
        except (TypeError, ValueError) as error:
            msg = (
                f"the position of a change must be of its connector's form, got {short_repr(source)}; "
                'decode with order="offset"'
            )
            raise ValueDecodeError(msg) from error
        return offset_order(partition, offset) if position is None else position

    def _order_of_unread(self, record: Mapping[str, Any]) -> Any:
        place = (record.get("partition"), record.get("offset"))
        return place if self.order == "offset" and None not in place else None

    def _order_of(
        self, order: Callable[[Mapping[str, Any]], Any], record: Mapping[str, Any]
    ) -> Any:
        fields = parse_fields(record.get("value"))
        parsed = {"key": parse_key(record.get("key"))[0], "value": fields}
        try:
            return order({**fields, **record, **parsed})
        except Exception as error:
            msg = f"order must return the order of a record, got {shown_error(error)} from {short_repr(order)}"
            raise ValueDecodeError(msg) from error

    def _fill(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> tuple[str, ...]:
        """Replace placeholders by values of `before`; return the columns that remain unknown.

        A null in `before` does not count: a value that the database keeps out of line is not null,
        and PostgreSQL logs the row before with nulls in all columns but its identity.
        """
        before = before or {}
        for column in self.placeholder.columns_of(before):
            del before[column]
        if after is None:
            return ()
        unknown = []
        for column in self.placeholder.columns_of(after):
            if before.get(column) is not None:
                after[column] = before[column]
            elif self.unavailable == "null":
                after[column] = None
            else:
                del after[column]
                unknown.append(column)
        if unknown and self.unavailable == "error":
            msg = (
                f"the columns {short_repr(unknown)} were not logged by the database; "
                "set REPLICA IDENTITY FULL, or decode with unavailable='keep'"
            )
            raise ValueDecodeError(msg)
        return tuple(unknown)

    def _key(self, own: Any, before: dict[str, Any] | None, after: dict[str, Any] | None) -> Any:
        return key_of(own, before, after, columns=self.key, own_columns=self.own_key)

    def _columns_of(self, own: Any) -> tuple[str, ...]:
        """Return the names of a key's columns; empty if they are unknown."""
        return self.key or self.own_key or (tuple(own) if isinstance(own, dict) else ())

    def _own_key_of(self, record: Mapping[str, Any]) -> Any:
        """Return the key of a record without a row."""
        own, schema = parse_key(record.get("key"))
        key = self._key(own, None, None)
        plan: ConversionPlan = self.row.plan(b"")
        return plan.convert_key(key, self._columns_of(own), schema)


def key_of(
    own: Any,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    columns: tuple[str, ...] | None,
    own_columns: tuple[str, ...] | None = None,
) -> Any:
    """Return the value of the key column, or a tuple for several columns.

    Args:
        own: The record's own key, parsed: an object of columns, or another JSON value.
        before: The row before, or None.
        after: The row after, or None.
        columns: The columns of the key; None takes the record's own key.
        own_columns: The columns that the record's own key must have; None allows any.

    Raises:
        KeyDecodeError: A column is missing, or the key differs before and after the change.
        NullKeyError: There is no key.
    """
    if columns is None:
        values = list(own.values()) if isinstance(own, dict) else own
        columns = tuple(own) if isinstance(own, dict) else ()
        if isinstance(own, dict) and own_columns not in (None, columns):
            msg = (
                f"the key of a record must have the columns {list(own_columns or ())}, "
                f"got {short_repr(list(columns))}; name them with key="
            )
            raise KeyDecodeError(msg)
    elif len(columns) == 1 and own is not None and not isinstance(own, dict):
        values = own  # a plain key, as ExtractField leaves it
    else:
        values = _values(columns, own if isinstance(own, dict) else {}, after, before)
    if columns and before and after:
        _check_unchanged(columns, before, after)
    if isinstance(values, list):
        values = values[0] if len(values) == 1 else tuple(values)
    if values is None or (isinstance(values, tuple) and all(each is None for each in values)):
        msg = f"a record must have a key, got {short_repr(own)}; name the key's columns with key="
        raise NullKeyError(msg)
    return values


def _values(columns: tuple[str, ...], *rows: Mapping[str, Any] | None) -> list[Any]:
    """Return the columns, each from the first row that has it."""
    found = []
    for column in columns:
        row = next((row for row in rows if row and column in row), None)
        if row is None:
            known = sorted({name for row in rows for name in row or ()})
            msg = f"the key column {column!r} must be in the record's key or its row, got {short_repr(known)}"
            raise KeyDecodeError(msg)
        found.append(row[column])
    return found


def _check_unchanged(
    columns: tuple[str, ...], before: Mapping[str, Any], after: Mapping[str, Any]
) -> None:
    known = all(column in row for column in columns for row in (before, after))
    old, new = ([row.get(column) for column in columns] for row in (before, after))
    if known and old != new:
        msg = (
            f"an update must keep its key, got {short_repr(old)} before and {short_repr(new)} after for {list(columns)}; "
            "make these columns the key of the connector's records (message.key.columns), so "
            "that it writes a delete and a create"
        )
        raise KeyDecodeError(msg)
