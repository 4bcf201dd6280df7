# SPDX-License-Identifier: Apache-2.0
"""Makes the rows of a state: key columns, the columns of its kind, value, age and key group.

A user key of a store is the key with numbers before and behind it.  Numbers have a fixed size, so
they are cut out as columns; so are strings and bytes.  Keys of other types are decoded one by one,
each distinct key once.

The rules of the stores decide which entries a store still shows and when a version ends.  They are
written here once more, for columns; tests compare the results with the stores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.damage import decoding
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import Declaration, Section, Segment
from pyflinklike._changelog.stored_table import (
    StoredTable,
    codes_of,
    last_of_each,
    replay,
    replay_changes,
)
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.state.table import Shape, stream_time_kind
from pyflinklike.state_processor._logs.column_values import (
    TIMESTAMP,
    BatchClock,
    are_alive,
    expires_at,
    show_column,
    timestamps,
    type_to_show,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import (
    StateInfo,
    declaration_of,
    describe_states,
    descriptor_of,
    state_of,
)
from pyflinklike.stores.store_codec import INT_SIZE, KeyCodec
from pyflinklike.stores.store_descriptors import StoreDescriptor
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.catalog import type_of

_NUMBERS = {
    "window": ("window_start", "number"),
    "session": ("session_end", "session_start"),
    "versioned": ("valid_from",),
}
"""The numbers behind the key in a store's user keys, in their order."""
_IN_SEGMENTS = ("window", "session")
"""The stores with the number of a time segment before the key: the segment of the first number."""
EXPIRING = tuple(_NUMBERS)
"""The kinds of stores that keep a stream time."""
STREAM_TIME = "stream_time"
"""The column of a savepoint for the stream time, in ms."""
_ADDED: dict[str, tuple[tuple[str, Any, bool], ...]] = {
    "list": (("position", pa.int64(), True),),
    "timestamped": (("timestamp", TIMESTAMP, False),),
    "lru": (("last_use", pa.int64(), False),),
    "window": (
        *(("window_start", TIMESTAMP, True), ("window_end", TIMESTAMP, True)),
        ("number", pa.int64(), True),
    ),
    "session": (("session_start", TIMESTAMP, True), ("session_end", TIMESTAMP, True)),
    "versioned": (("valid_from", TIMESTAMP, True), ("valid_to", TIMESTAMP, False)),
}
"""The columns that a kind of state adds: name, type, and whether the column identifies an entry."""


@attrs.frozen
class GroupTables:
    """The tables of a key group's log; a reader decodes those that it needs to Arrow's columns.

    Args:
        sections: The sections of each table by its name, in the order of the log.
        where: The name of the group, for messages.
    """

    sections: Mapping[str, list[Section]]
    where: str

    @classmethod
    def of(cls, log: Iterable[Segment], where: str) -> GroupTables:
        """Find the tables of a log; nothing is decoded yet.

        Raises:
            CorruptStateError: A table is not declared.
        """
        tables: dict[str, list[Section]] = {}
        for section in sections_of(log, where):
            tables.setdefault(section.declaration.name, []).append(section)
        return cls(tables, where)

    def __contains__(self, name: str) -> bool:
        """Return whether the log has written to a table."""
        return name in self.sections

    def entries(self, table: StoredTable) -> pa.Table:
        """Return the entries of a table, as `replay` does."""
        return replay(table, self.sections.get(table.declaration.name, []), self.where)

    def changes(self, table: StoredTable) -> pa.Table:
        """Return the changes of a table by a commit, as `replay_changes` does."""
        return replay_changes(table, self.sections.get(table.declaration.name, []), self.where)

    def guard(
        self, what: str, rule: str = "must hold entries as a function writes them"
    ) -> decoding:
        """Turn errors within a block into one that names a part of the group."""
        return decoding(f"{self.where}, {what}", rule)


@attrs.frozen
class StateRows:
    """Describes the rows of a state, and makes rows from entries.

    Args:
        info: The description of the state.
        keys: The key columns of the stream.
        declaration: The declaration of the state's table.
        saved: Whether the rows are for a savepoint: no digit is lost, and no entry is left out.
    """

    info: StateInfo
    keys: KeyColumns
    declaration: Declaration
    saved: bool = False

    @classmethod
    def of(cls, record: OperatorRecord, info: StateInfo, *, saved: bool = False) -> StateRows:
        """Describe the rows of a state by the operator's record."""
        return cls(info, KeyColumns.of(record), declaration_of(record, info.name), saved)

    @classmethod
    def saved_of(cls, record: OperatorRecord, name: str, where: str) -> StateRows:
        """Describe the rows of a state in a savepoint.

        Args:
            record: The operator's record.
            name: The name of the state.
            where: The name of the operator or savepoint, for messages.

        Raises:
            UnknownStateError: There is no such state.
        """
        return cls.of(record, state_of(describe_states(record, 0), name, where), saved=True)

    @property
    def table(self) -> StoredTable:
        """The table of the state in the log."""
        return StoredTable(self.declaration)

    @property
    def key_fields(self) -> list[Any]:
        """The fields of the key columns; an empty list if entries belong to no key."""
        return [] if self.declaration.per_group else self.keys.fields

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        fields = [*self.key_fields, *_fields_to_add(self), *self._value_fields()]
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
        return [pa.field("value", type_to_show(type_of(self.declaration.value), saved=self.saved))]

    def of_entries(self, entries: pa.Table, key_group: int, clock: BatchClock | None) -> pa.Table:
        """Return entries as rows.

        Args:
            entries: Entries in the columns of `StoredTable.schema`; for a savepoint of a window,
                session or versioned store also with the stream time of each.
            key_group: The index of the key group that has the entries.
            clock: The time that decides which entries are alive; needed unless the rows are `saved`.
        """
        stored = {name: entries.column(name).combine_chunks() for name in entries.column_names}
        columns: dict[str, Any] = {}
        if not self.declaration.per_group:
            columns |= zip(self.keys.names, self.keys.show(stored["key"]))
        for name in ("namespace", "value"):
            if signature := getattr(self.declaration, name):
                columns[name] = show_column(stored[name], type_of(signature), saved=self.saved)
        columns |= self._show_user_keys(stored)
        if STREAM_TIME in stored:
            columns[STREAM_TIME] = stored[STREAM_TIME]
        if self.info.ttl is not None:
            columns["stamp"] = stored["stamp"]
            if not self.saved:
                assert clock is not None
                columns["expires_at"] = expires_at(stored["stamp"], self.info.ttl)
                columns["alive"] = are_alive(stored["stamp"], self.info.ttl, clock)
        columns["key_group"] = pa.repeat(pa.scalar(key_group, pa.int32()), entries.num_rows)
        schema = self.schema
        return pa.table([columns[name] for name in schema.names], schema=schema)

    def _show_user_keys(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns that the kind of the state adds."""
        kind, user_key = self.info.kind, self.info.user_key_type
        if kind == "list":
            return {"position": stored["user_key"]}
        if user_key is None:
            return {}
        user_keys, declared = stored["user_key"], type_of(user_key)
        if not self.info.is_store:
            return {"user_key": show_column(user_keys, declared, saved=self.saved)}
        names = self.numbers
        numbers = {
            name: number_at(user_keys, (at - len(names)) * INT_SIZE)
            for at, name in enumerate(names)
        }
        if kind == "window":
            size = pa.scalar(self.info.options["window_size"], pa.int64())
            numbers["window_end"] = pc.add(numbers["window_start"], size)
        elif kind == "versioned":
            numbers["valid_to"] = valid_to(stored)
        elif kind in ("timestamped", "lru"):
            numbers["timestamp"] = numbers["last_use"] = stored["stamp"]
        for name, type_shown, _ in _ADDED.get(kind, ()):
            if type_shown == TIMESTAMP:
                numbers[name] = timestamps(numbers[name])
        keys = store_keys(
            user_keys, declared, int(self.is_in_segments), len(names), saved=self.saved
        )
        return {"store_key": keys, **numbers}

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns of the numbers behind the key in the user keys of a store, in their order."""
        several = self.info.options.get("retain_duplicates")
        names = _NUMBERS.get(self.info.kind, ())
        return tuple(name for name in names if several or name != "number")

    @property
    def is_in_segments(self) -> bool:
        """Whether the number of a time segment is before the key in the user keys of a store."""
        return self.info.kind in _IN_SEGMENTS

    def descriptor(self) -> StoreDescriptor:
        """Return the descriptor of the store; the state must be one."""
        said = {"store": self.info.kind, "key": self.info.user_key_type, **self.info.options}
        return descriptor_of(self.info.name, {**said, "value": self.info.value_type})

    @property
    def entry_names(self) -> list[str]:
        """The columns that identify an entry."""
        return [field.name for field in (*self.key_fields, *_fields_to_add(self, key_only=True))]


def _fields_to_add(rows: StateRows, *, key_only: bool = False) -> list[Any]:
    """Return the fields that a state's kind adds; if `key_only`, only fields that identify entries."""
    user_key = "store_key" if rows.info.is_store else "user_key"
    typed = (("namespace", rows.declaration.namespace), (user_key, rows.info.user_key_type))
    fields = [
        pa.field(name, type_to_show(type_of(signature), saved=rows.saved))
        for name, signature in typed
        if signature
    ]
    several = rows.info.options.get("retain_duplicates")
    return fields + [
        pa.field(name, kind)
        for name, kind, identifies in _ADDED.get(rows.info.kind, ())
        if (identifies or not key_only) and (several or name != "number")
    ]


# The user keys of stores as columns


# A stored number has its sign bit flipped, so that bytes sort as numbers do.
_SIGN = -(2**63)
_NUMBER = 8


def number_at(user_keys: Any, at: int) -> Any:
    """Return the numbers at an offset of each user key, as int64.

    Args:
        user_keys: A binary array without nulls.
        at: The offset of the numbers in bytes; counted from the end if negative.
    """
    end = at + INT_SIZE
    parts = pc.binary_slice(user_keys, at + 1, end if end else None)
    if not len(parts):
        return pa.array([], pa.int64())
    data = b"".join(parts.to_pylist()) if parts.offset else _data(parts)
    # The bytes are big-endian: read backwards they are little-endian, the last number first.
    backwards = pa.Array.from_buffers(pa.int64(), len(parts), [None, pa.py_buffer(data[::-1])])
    numbers = backwards.take(pa.array(range(len(parts) - 1, -1, -1), pa.int64()))
    return pc.bit_wise_xor(numbers, pa.scalar(_SIGN, pa.int64()))


def _data(parts: Any) -> bytes:
    data = parts.buffers()[2].to_pybytes()[: _NUMBER * len(parts)]
    if len(data) != _NUMBER * len(parts):
        msg = "a number of a store's key that is cut short"
        raise ValueError(msg)
    return bytes(data)


def _without_ends(column: Any, before: int, behind: int) -> Any:
    """Cut bytes off the beginning and the end of each value."""
    if behind or not before:
        return pc.binary_slice(column, before, -behind) if behind else column
    # Arrow fails for a slice without an end that does not begin at the first byte.
    longest = pc.max(pc.binary_length(column)).as_py()
    return pc.binary_slice(column, before, longest or before)


def store_keys(
    user_keys: Any, key_type: TypeInformation, before: int, behind: int, *, saved: bool
) -> Any:
    """Return the keys of a store's entries, as they are shown.

    Args:
        user_keys: A binary array without nulls.
        key_type: The type of the store's keys.
        before: How many numbers are before the key.
        behind: How many numbers are behind it.
        saved: Whether the keys are for a savepoint.
    """
    encoded = _without_ends(user_keys, before * INT_SIZE, behind * INT_SIZE)
    if key_type == Types.STRING() or key_type == Types.PRIMITIVE_ARRAY(Types.BYTE()):
        plain = pc.binary_slice(encoded, 1, -1)  # between the type and the end
        # The codec escapes zero bytes, so keys with them are decoded one by one.
        if not pc.any(pc.greater_equal(pc.find_substring(plain, b"\x00"), 0)).as_py():
            return plain.cast(type_to_show(key_type, saved=saved))
    codec = KeyCodec("", key_type)
    each = encoded.dictionary_encode()
    thawed = [codec.decode(data)[0] for data in each.dictionary.to_pylist()]
    keys = key_type.to_arrow([key_type.freeze_key(key) for key in thawed])
    return show_column(keys.take(each.indices), key_type, saved=saved)


# Retention of versions, windows and sessions


def valid_from(stored: Mapping[str, Any]) -> Any:
    """Return the time of each version, in ms, from the columns of `StoredTable.schema`."""
    return number_at(stored["user_key"], -INT_SIZE)


def valid_to(stored: Mapping[str, Any]) -> Any:
    """Return the time of the next version of the same key, in ms; null for the latest."""
    user_keys, times = stored["user_key"], valid_from(stored)
    if not len(times):
        return times
    whose = [stored["key"]] if "key" in stored else []
    owners = codes_of([*whose, pc.binary_slice(user_keys, 0, -INT_SIZE)], len(user_keys))
    places = pc.sort_indices(
        pa.table({"owner": owners, "time": times}), [("owner", "ascending"), ("time", "ascending")]
    )
    owner, time = owners.take(places), times.take(places)
    none = pa.nulls(1, pa.int64())
    follower = pa.concat_arrays([time.slice(1), none])
    same = pc.equal(pa.concat_arrays([owner.slice(1), none]), owner).fill_null(False)
    nexts = pc.if_else(same, follower, none[0])
    return nexts.take(pc.sort_indices(places))


def find_retained(
    rows: StateRows, entries: pa.Table, tables: GroupTables, clock: BatchClock
) -> Any:
    """Return a mask of the entries that the store still shows.

    Args:
        rows: The description of the store's rows.
        entries: The entries of one key group.
        tables: All tables of the group.
        clock: The time, for stores that use the watermark.
    """
    options = rows.info.options
    stored = {name: entries.column(name).combine_chunks() for name in entries.column_names}
    if rows.info.kind == "versioned":
        times, retention = valid_to(stored), options["history_retention"]
    else:
        times = number_at(stored["user_key"], -len(rows.numbers) * INT_SIZE)
        retention = options["retention"]
    now = stream_times(rows, entries, tables, clock)
    # Before any write the stream time is null, and so is this difference: no entry has expired.
    expired = pc.subtract(now, pa.scalar(retention, pa.int64()))
    # The latest version, which has no end, is never forgotten.
    return pc.greater(times, expired).fill_null(True)


def stream_times(rows: StateRows, entries: pa.Table, tables: GroupTables, clock: BatchClock) -> Any:
    """Return the stream time that decides whether each entry has expired; null before any time."""
    mode, count = rows.info.options["stream_time"], entries.num_rows
    seen = tables.entries(StoredTable(times_table(rows, mode)))
    if mode == "key" and not rows.declaration.per_group:
        keys = pa.concat_arrays(
            [seen.column("key").combine_chunks(), entries.column("key").combine_chunks()]
        )
        codes = codes_of([keys], len(keys))
        known = pa.concat_arrays(
            [seen.column("value").combine_chunks(), pa.nulls(count, pa.int64())]
        )
        return last_of_each(codes, known).take(codes.slice(seen.num_rows))
    now = pc.max(seen.column("value")) if seen.num_rows else pa.scalar(None, pa.int64())
    if mode == "watermark" and MIN_WATERMARK < clock.watermark < MAX_WATERMARK:
        now = pa.scalar(max(now.as_py() or clock.watermark, clock.watermark), pa.int64())
    return pa.repeat(now, count)


def times_table(rows: StateRows, mode: str) -> Declaration:
    """Return the declaration of the table in which a store keeps its stream time.

    Args:
        rows: The description of the store's rows.
        mode: The store's option `stream_time`: "key", "partition" or "watermark".
    """
    key = rows.declaration.key if mode == "key" else ""
    return Declaration(
        f"{rows.info.name}/time",
        stream_time_kind(mode),
        Shape.SINGLE.value,
        key,
        "",
        Types.LONG().signature,
    )
