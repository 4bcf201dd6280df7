# SPDX-License-Identifier: Apache-2.0
"""Encodes the changes of a table as Debezium records, for other programs to read.

`to_debezium` is the inverse of `decode_debezium`: if you encode an event and decode the records, you
get the same event.  Values keep their JSON type.  Types that JSON does not have (dates, decimals,
bytes) are written as text, as msgspec does, and come back as text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from pyflinklike._messages import short_repr, shown_message
from pyflinklike.cdc.change_event import CREATE, READ, REMOVE, TRUNCATE, UPDATE, coordinates
from pyflinklike.cdc.envelope import DEFAULT_PLACEHOLDER
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.types import row as row_kind
from pyflinklike.types.row import field_of, names_of

_CODES = {
    row_kind.INSERT: CREATE,
    row_kind.UPDATE_AFTER: UPDATE,
    "update": UPDATE,
    row_kind.DELETE: REMOVE,
    **{code: code for code in (CREATE, UPDATE, REMOVE, READ, TRUNCATE)},
}


def to_debezium(
    change: Any,
    tombstone: bool = True,
    *,
    key: str | Sequence[str] | None = None,
    placeholder: str = DEFAULT_PLACEHOLDER,
) -> list[dict[str, Any]]:
    """Encode a change as the records that Debezium would write for it.

    Args:
        change: A `CdcEvent`; a `Change` of a materialized view; or a change row of
            `UpsertFunction`, with `key`, `op` and `value`.  It may be a mapping or a row.
        tombstone: Whether to add a record without a value after a delete, for Kafka's compaction.
        key: The names of the key columns, which make the record's key an object, as Debezium does.
            Without names, the record's key is the key's value, or the list of its values.
        placeholder: The value written for columns that are `unavailable`.

    Returns:
        The records, with `key` and `value` as JSON text, and `partition` and `offset` if the
        event's order key has them.  An `update_before` makes no record, because its `update_after`
        says the same.

    Raises:
        DeclarationTypeError: It is not a change, or has a value that JSON cannot hold.
        DeclarationValueError: Its op is unknown, it has an error, or `key` does not fit the change.
    """
    op = _field(change, "op")
    if _field(change, "error", None) is not None:
        msg = f"to_debezium takes events without an error, got {change!r}; filter such events out"
        raise DeclarationValueError(msg)
    if op == row_kind.UPDATE_BEFORE:
        return []
    code = _CODES.get(op)
    if code is None:
        msg = f"the op of a change must be one of {list(_CODES)}, got {op!r}"
        raise DeclarationValueError(msg)
    own_key = None if code == TRUNCATE else _json(_key_under_names(_field(change, "key"), key))
    record = {"key": own_key, **_coordinates(change)}
    if _is_tombstone(change, code):
        return [{**record, "value": None}]
    records = [{**record, "value": _json(_envelope(change, code, placeholder))}]
    if tombstone and code == REMOVE:
        # The tombstone comes right after the delete, at an offset that only Kafka knows.
        records.append({"key": own_key, "value": None, "partition": None, "offset": None})
    return records


def _envelope(change: Any, code: str, placeholder: str) -> dict[str, Any]:
    value = _field(change, "value", None)
    gone = code in (REMOVE, TRUNCATE)
    before = _field(change, "before", value if gone else None)
    after = _field(change, "after", None if gone else value)
    if after is not None:
        missing = _field(change, "unavailable", None) or ()
        after = {**_columns(after), **dict.fromkeys(missing, placeholder)}
    time = _field(change, "event_time", None)
    return {
        "before": None if before is None else _columns(before),
        "after": after,
        "source": _field(change, "source", None),
        "op": code,
        "ts_ms": _field(change, "ts", None) if time is None else time,
        "transaction": None,
    }


def _is_tombstone(change: Any, code: str) -> bool:
    """Return whether an event was decoded from a tombstone; no other event has only a key."""
    names = ("before", "event_time", "source")
    decoded = all(_field(change, name, _ABSENT) is None for name in names)
    return code == REMOVE and decoded


def _coordinates(change: Any) -> dict[str, Any]:
    """Return partition and offset, if they are in the order key."""
    order_key, source = _field(change, "order_key", None), _field(change, "source", None)
    place = tuple(order_key) if isinstance(order_key, (tuple, list)) else ()
    partition, offset = coordinates(place, source if isinstance(source, Mapping) else {})
    return {"partition": partition, "offset": offset}


def _key_under_names(own_key: Any, names: str | Sequence[str] | None) -> Any:
    if names is None:
        return own_key
    columns = (names,) if isinstance(names, str) else tuple(names)
    values = tuple(own_key) if isinstance(own_key, tuple) else (own_key,)
    if len(columns) != len(values):
        msg = f"key must name the columns of the key, got {list(columns)} for {own_key!r}"
        raise DeclarationValueError(msg)
    return dict(zip(columns, values))


_ABSENT, _REQUIRED = object(), object()


def _field(change: Any, name: str, default: Any = _REQUIRED) -> Any:
    """Return a field of a mapping, a row or an object."""
    found = field_of(change, name, default)
    if found is _REQUIRED:
        msg = f"a change must have an op, a key and rows, got {change!r} without {name!r}"
        raise DeclarationTypeError(msg)
    return found


def _columns(row: Any) -> dict[str, Any]:
    """Return a row's columns by name; any other value is a column `value`."""
    if isinstance(row, Mapping):
        return dict(row)
    names = names_of(row)
    return {"value": row} if names is None else dict(zip(names, row))


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(_plain(value)).decode()
    except (TypeError, ValueError) as error:
        msg = f"a change must have values that JSON can hold, got {short_repr(value)}: {shown_message(error)}"
        raise DeclarationTypeError(msg) from error


def _plain(value: Any) -> Any:
    """Return the value with rows as objects; refuse NaN and infinities (null in msgspec)."""
    if isinstance(value, float) and not math.isfinite(value):
        msg = f"JSON has no {value}"
        raise ValueError(msg)
    if names_of(value) is not None:
        return {name: _plain(each) for name, each in _columns(value).items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
