# SPDX-License-Identifier: Apache-2.0
"""The rows of a state as users read them: key columns, those of its kind, value, age, key group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.log.declaration import Declaration
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.clock import BatchClock, are_alive, expires_at
from pyflinklike.replay.described import StateInfo, declaration_of, descriptor_of
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.store_keys import number_at, store_keys
from pyflinklike.replay.table import StoredTable
from pyflinklike.replay.values import TIMESTAMP, shown, shown_type, timestamps
from pyflinklike.replay.versions import valid_from, valid_to
from pyflinklike.stores.codec import INT_SIZE
from pyflinklike.stores.descriptors import StoreDescriptor
from pyflinklike.types.signature import type_of

__all__ = ["EXPIRING", "STREAM_TIME", "StateRows"]

EXPIRING = ("window", "session", "versioned")
"""The kinds of stores that keep a stream time."""
STREAM_TIME = "stream_time"
"""The column of a savepoint for the stream time, in ms."""

_Parts = dict[str, Any]


@attrs.frozen
class StateRows:
    """The description of a state's rows, and the way from entries to rows.

    Args:
        info: Description of the state.
        keys: The key columns.
        declaration: Declaration of its table.
        saved: Whether the rows are for a savepoint: nothing is lost, and no expiry is judged.
    """

    info: StateInfo
    keys: KeyColumns
    declaration: Declaration
    saved: bool = False

    @classmethod
    def of(cls, record: OperatorRecord, info: StateInfo, *, saved: bool = False) -> StateRows:
        """Describe the rows of a state by the operator's record."""
        return cls(info, KeyColumns.of(record), declaration_of(record, info.name), saved)

    @property
    def table(self) -> StoredTable:
        """The table of the state in the log."""
        return StoredTable(self.declaration)

    @property
    def key_fields(self) -> list[Any]:
        """The fields of the key columns; none where entries belong to no key."""
        return [] if self.declaration.per_group else self.keys.fields

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        fields = [*self.key_fields, *_added_fields(self), *self._value_fields()]
        if self.saved and self.info.kind in EXPIRING:
            fields.append(pa.field(STREAM_TIME, pa.int64()))
        if self.info.ttl is not None:
            fields.append(pa.field("stamp", pa.int64()))
            if not self.saved:
                fields += [pa.field("expires_at", TIMESTAMP), pa.field("alive", pa.bool_())]
        return pa.schema([*fields, pa.field("key_group", pa.int32())])

    def _value_fields(self) -> list[Any]:
        if not self.declaration.value:
            return []
        return [pa.field("value", shown_type(type_of(self.declaration.value), saved=self.saved))]

    def of_entries(self, entries: pa.Table, key_group: int, clock: BatchClock | None) -> pa.Table:
        """Return entries as rows.

        Args:
            entries: Entries in the columns of `StoredTable.schema`; for a savepoint with the stream
                time of each, where the store keeps one.
            key_group: Their key group.
            clock: The time by which expiry is judged; needed unless the rows are `saved`.
        """
        stored = {name: entries.column(name).combine_chunks() for name in entries.column_names}
        columns = [] if self.declaration.per_group else self.keys.shown(stored["key"])
        columns += _ADDED[self.info.kind](self, stored) if self.info.kind in _ADDED else []
        if self.declaration.namespace:
            kind = type_of(self.declaration.namespace)
            columns.insert(len(self.key_fields), shown(stored["namespace"], kind, saved=self.saved))
        if self.declaration.value:
            columns.append(
                shown(stored["value"], type_of(self.declaration.value), saved=self.saved)
            )
        if STREAM_TIME in stored:
            columns.append(stored[STREAM_TIME])
        if self.info.ttl is not None:
            columns.append(stored["stamp"])
            if not self.saved:
                assert clock is not None
                columns.append(expires_at(stored["stamp"], self.info.ttl))
                columns.append(are_alive(stored["stamp"], self.info.ttl, clock))
        columns.append(pa.repeat(pa.scalar(key_group, pa.int32()), entries.num_rows))
        return pa.table(columns, schema=self.schema)

    def descriptor(self) -> StoreDescriptor:
        """Return the descriptor of the store; the state must be one."""
        said = {"store": self.info.kind, "key": self.info.user_key_type, **self.info.options}
        return descriptor_of(self.info.name, {**said, "value": self.info.value_type})

    @property
    def entry_names(self) -> list[str]:
        """The columns that tell an entry from all others."""
        return [field.name for field in (*self.key_fields, *_added_fields(self, key_only=True))]


def _added_fields(rows: StateRows, *, key_only: bool = False) -> list[Any]:
    """Return the fields that a state's kind adds; if `key_only`, those that tell entries apart."""
    kind, user_key = rows.info.kind, rows.info.user_key_type
    fields = []
    if rows.declaration.namespace:
        namespace = type_of(rows.declaration.namespace)
        fields.append(pa.field("namespace", shown_type(namespace, saved=rows.saved)))
    if rows.info.is_store:
        assert user_key is not None
        fields.append(pa.field("store_key", shown_type(type_of(user_key), saved=rows.saved)))
    elif user_key is not None:
        fields.append(pa.field("user_key", shown_type(type_of(user_key), saved=rows.saved)))
    times: dict[str, list[str]] = {
        "window": ["window_start", "window_end"],
        "session": ["session_start", "session_end"],
        "versioned": ["valid_from"] if key_only else ["valid_from", "valid_to"],
        "timestamped": [] if key_only else ["timestamp"],
    }
    fields += [pa.field(name, TIMESTAMP) for name in times.get(kind, [])]
    if kind == "list":
        fields.append(pa.field("position", pa.int64()))
    if kind == "window" and rows.info.options["retain_duplicates"]:
        fields.append(pa.field("number", pa.int64()))
    if kind == "lru" and not key_only:
        fields.append(pa.field("last_use", pa.int64()))
    return fields


def _store_keys(rows: StateRows, user_keys: Any, before: int, behind: int) -> Any:
    assert rows.info.user_key_type is not None
    kind = type_of(rows.info.user_key_type)
    return store_keys(user_keys, kind, before, behind, saved=rows.saved)


def _of_list(_: StateRows, stored: _Parts) -> list[Any]:
    return [stored["user_key"]]


def _of_map(rows: StateRows, stored: _Parts) -> list[Any]:
    assert rows.info.user_key_type is not None
    return [shown(stored["user_key"], type_of(rows.info.user_key_type), saved=rows.saved)]


def _of_key_value(rows: StateRows, stored: _Parts) -> list[Any]:
    return [_store_keys(rows, stored["user_key"], 0, 0)]


def _of_timestamped(rows: StateRows, stored: _Parts) -> list[Any]:
    return [*_of_key_value(rows, stored), timestamps(stored["stamp"])]


def _of_lru(rows: StateRows, stored: _Parts) -> list[Any]:
    return [*_of_key_value(rows, stored), stored["stamp"]]


def _of_window(rows: StateRows, stored: _Parts) -> list[Any]:
    user_keys, size = stored["user_key"], rows.info.options["window_size"]
    several = rows.info.options["retain_duplicates"]
    starts = number_at(user_keys, -(1 + several) * INT_SIZE)
    ends = pc.add(starts, pa.scalar(size, pa.int64()))
    times = [timestamps(starts), timestamps(ends)]
    numbers = [number_at(user_keys, -INT_SIZE)] if several else []
    return [_store_keys(rows, user_keys, 1, 1 + several), *times, *numbers]


def _of_session(rows: StateRows, stored: _Parts) -> list[Any]:
    user_keys = stored["user_key"]
    starts, ends = number_at(user_keys, -INT_SIZE), number_at(user_keys, -2 * INT_SIZE)
    return [_store_keys(rows, user_keys, 1, 2), timestamps(starts), timestamps(ends)]


def _of_versioned(rows: StateRows, stored: _Parts) -> list[Any]:
    return [
        _store_keys(rows, stored["user_key"], 0, 1),
        timestamps(valid_from(stored)),
        timestamps(valid_to(stored)),
    ]


_ADDED: dict[str, Callable[[StateRows, _Parts], list[Any]]] = {
    "list": _of_list,
    "map": _of_map,
    "broadcast": _of_map,
    "key-value": _of_key_value,
    "timestamped": _of_timestamped,
    "lru": _of_lru,
    "window": _of_window,
    "session": _of_session,
    "versioned": _of_versioned,
}
