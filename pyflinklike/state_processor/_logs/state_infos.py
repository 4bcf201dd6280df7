# SPDX-License-Identifier: Apache-2.0
"""Describes an operator's states by its record, also states without any entry."""

from __future__ import annotations

import difflib
import html
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import attrs

from pyflinklike._changelog.key_group_state import timers_table
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Declaration, settings_said
from pyflinklike._clock import TimeDomain
from pyflinklike.errors import IncompatibleStateError, UnknownStateError
from pyflinklike.state.table import REPLICATED, Shape
from pyflinklike.state_processor._logs.key_columns import KeyColumns, name_of
from pyflinklike.stores.key_value_store import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    TimestampedStoreDescriptor,
)
from pyflinklike.stores.session_store import SessionStoreDescriptor
from pyflinklike.stores.store_descriptors import StoreDescriptor
from pyflinklike.stores.versioned_store import VersionedStoreDescriptor
from pyflinklike.stores.window_store import WindowStoreDescriptor
from pyflinklike.types import Types
from pyflinklike.types.catalog import type_of

_SHAPES = {
    "value": Shape.SINGLE,
    "reducing": Shape.SINGLE,
    "aggregating": Shape.SINGLE,
    "list": Shape.LIST,
    "map": Shape.MAP,
    REPLICATED: Shape.MAP,
}
_OF_PROGRAMS = {
    **dict.fromkeys(("reduce", "sum", "min", "max", "min_by", "max_by"), "value"),
    "join": "map",
}
"""Kinds that only a fold or a join declares, by their first word, with the kind of their entries."""
_STORES: dict[str, type[StoreDescriptor]] = {
    each.noun: each
    for each in (
        KeyValueStoreDescriptor,
        LruStoreDescriptor,
        SessionStoreDescriptor,
        TimestampedStoreDescriptor,
        VersionedStoreDescriptor,
        WindowStoreDescriptor,
    )
}
_OF_DECLARATION = {"kind", "store", "key", "user_key", "value", "namespace", "settings", "ttl"}


@attrs.frozen
class StateInfo:
    """One state or store of an operator.

    Args:
        operator_id: Spark's number of the operator.
        uid: The operator's uid, by default the name of the function's class.
        name: The name of the state.
        kind: "value", "list", "map", "reducing", "aggregating" or "broadcast", or for a store
            "key-value", "timestamped", "lru", "window", "session" or "versioned".
        key_columns: The names and Spark types of the key columns, as `read_state` shows them.
        key_type: The signature of the stored keys' type; None if entries belong to no key.
        user_key_type: The signature of the type of a map's user keys or a store's keys, or None.
        value_type: The signature of the type of the values; None if entries are keys only.
        namespace_type: The signature of the type of the namespaces, such as windows, that entries
            belong to, or None.
        ttl: The time-to-live: `ms`, `update_type`, `visibility` and `time`, or None.
        options: The options of a store, such as `window_size` in ms, by name.
        entries: The number of rows in its part of the log, older writes included; None if the log
            was not read.
        bytes: The size of that part before it is compressed; None if the log was not read.
    """

    operator_id: int
    uid: str
    name: str
    kind: str
    key_columns: tuple[tuple[str, str], ...]
    key_type: str | None
    user_key_type: str | None
    value_type: str | None
    namespace_type: str | None = None
    ttl: Mapping[str, Any] | None = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    entries: int | None = None
    bytes: int | None = None

    @property
    def is_store(self) -> bool:
        """Whether it is a store."""
        return self.kind in _STORES


class StateInfos(list[StateInfo]):
    """The result of `list_states`: a list, which notebooks show as a table."""

    def _repr_html_(self) -> str:
        names = [each.name for each in attrs.fields(StateInfo)]
        rows = [attrs.asdict(each, recurse=False) for each in self]
        is_sized = any(each.bytes is not None for each in self)
        return html_table(names, rows, "bytes" if is_sized else None)


def describe_states(record: OperatorRecord, operator_id: int) -> StateInfos:
    """Describe the states and stores of an operator, by name."""
    key_columns = key_columns_of(record)
    return StateInfos(
        _info(record, name, said, operator_id, key_columns)
        for name, said in sorted(record.states.items())
    )


def key_columns_of(record: OperatorRecord) -> tuple[tuple[str, str], ...]:
    """Return names and Spark types of the key columns of an operator."""
    columns = KeyColumns.of(record)
    declared = record.identity.key_columns
    types = [kind for _, kind in declared] or [name_of(each) for each in columns.types]
    return tuple(zip(columns.names, types))


def _info(
    record: OperatorRecord,
    name: str,
    said: Mapping[str, Any],
    operator_id: int,
    key_columns: tuple[tuple[str, str], ...],
) -> StateInfo:
    kind = said["store"] if "store" in said else _kind_of(said["kind"])
    options = {key: each for key, each in said.items() if key not in _OF_DECLARATION}
    is_shared = kind == REPLICATED or options.get("scope") == "partition"
    return StateInfo(
        operator_id,
        record.identity.name,
        name,
        kind,
        () if is_shared else key_columns,
        None if is_shared else record.identity.key,
        said["key"] if "store" in said else said.get("user_key"),
        said.get("value"),
        said.get("namespace"),
        said.get("ttl"),
        options,
    )


def _kind_of(declared: str) -> str:
    """Return the kind of a state, such as "list", from the declared kind.

    Args:
        declared: For example "list of windows of event time", "sum('amount')" or "join buffer".
    """
    word = declared.partition(" ")[0].partition("(")[0]
    return _OF_PROGRAMS.get(word, word)


def state_of(infos: Iterable[StateInfo], name: str, where: str) -> StateInfo:
    """Return the state that has a name.

    Args:
        infos: All states of the operators to search.
        name: The name of the state.
        where: The name of the operator or checkpoint, for messages.

    Raises:
        UnknownStateError: There is no such state.
    """
    known = {info.name: info for info in infos}
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, 1)
    remedy = f"did you mean {near[0]!r}?" if near else "list_states() lists them"
    msg = f"{where}: its states are {sorted(known)}, got {name!r}; {remedy}"
    raise UnknownStateError(msg)


def declaration_of(record: OperatorRecord, name: str) -> Declaration:
    """Return the declaration of a state's table in the log, by the operator's record.

    Raises:
        IncompatibleStateError: The kind of the state is not known.
    """
    said, key = record.states[name], record.identity.key
    if "store" in said:
        return Declaration.of(descriptor_of(name, said).spec(), type_of(key))
    kind = said["kind"]
    shape = _SHAPES.get(_kind_of(kind))
    if shape is None:
        msg = f"state {name!r}: its kind must be one of {sorted(_SHAPES)}, got {kind!r}"
        raise IncompatibleStateError(
            f"{msg}; read it with the version of pyflinklike that wrote it"
        )
    return Declaration(
        name,
        kind,
        shape.value,
        "" if kind == REPLICATED else key,
        said.get("user_key", ""),
        said.get("value", ""),
        said.get("namespace", ""),
        settings_said(said),
    )


def owner_of(table: str, names: Container[str]) -> str:
    """Return the state or store that a table belongs to.

    Args:
        table: The name of the table; the further tables of a store are `store/part`.
        names: The names of the operator's states and stores; a name may contain a slash.
    """
    return table if table in names else table.partition("/")[0]


def descriptor_of(name: str, said: Mapping[str, Any]) -> StoreDescriptor:
    """Return the descriptor of a store by the record's description of it.

    Raises:
        IncompatibleStateError: There is no such kind of store.
    """
    made = _STORES.get(said["store"])
    if made is None:
        msg = f"store {name!r}: its kind must be one of {sorted(_STORES)}, got {said['store']!r}"
        raise IncompatibleStateError(
            f"{msg}; read it with the version of pyflinklike that wrote it"
        )
    options = {key: each for key, each in said.items() if key not in _OF_DECLARATION}
    return made(
        name=name, key_type=type_of(said["key"]), value_type=type_of(said["value"]), **options
    )


def timers_of(record: OperatorRecord, domain: TimeDomain) -> Declaration:
    """Return the declaration of the table of a domain's timers in the log."""
    namespaces = {said["namespace"] for said in record.states.values() if "namespace" in said}
    return Declaration(
        timers_table(domain),
        "timers",
        Shape.MAP.value,
        record.identity.key,
        Types.LONG().signature,
        "",
        min(namespaces, default=""),
    )


# Descriptions as an HTML table with bars, for notebooks and reports


_LONGEST = 200


def html_table(
    columns: Sequence[str], rows: Sequence[Mapping[str, Any]], bar: str | None = None
) -> str:
    """Return rows as a table.

    Args:
        columns: The names of the columns, in order.
        rows: Values by column; the cell of a missing value is empty.
        bar: The column of numbers that each row shows as a bar; None draws no bars.
    """
    numbers = {name for name in columns if all(_is_number(row.get(name)) for row in rows)}
    head = "".join(f"<th{_align(name in numbers)}>{html.escape(name)}</th>" for name in columns)
    most = max((row.get(bar) or 0 for row in rows), default=0) if bar is not None else 0
    body = "".join(_row(row, columns, numbers, bar, most) for row in rows)
    return f"<table><tr>{head}{'' if bar is None else '<th></th>'}</tr>{body}</table>"


def _row(
    row: Mapping[str, Any], columns: Sequence[str], numbers: set[str], bar: str | None, most: float
) -> str:
    cells = "".join(
        f"<td{_align(name in numbers)}>{html.escape(_text(row.get(name)))}</td>" for name in columns
    )
    return f"<tr>{cells}{'' if bar is None else _bar(row.get(bar) or 0, most)}</tr>"


def _bar(value: float, most: float) -> str:
    width = round(100 * value / most, 1) if most else 0
    return (
        '<td><svg width="100" height="10" role="img">'
        f'<rect width="{width}" height="10" fill="#3b7dd8"/></svg></td>'
    )


def _align(is_number: bool) -> str:
    return ' style="text-align:right"' if is_number else ' style="text-align:left"'


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def _text(value: Any) -> str:
    if value is None or value != value:  # only NaN differs from itself
        return ""
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    text = f"{value:,.1f}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
