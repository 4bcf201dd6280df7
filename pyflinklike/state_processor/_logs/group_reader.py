# SPDX-License-Identifier: Apache-2.0
"""Readers of a checkpoint, one key group at a time, from any host's log.

They give the entries of a state, the timers, or one row for each key with a column for each state,
as the SQL connector of Flink's State Processor API does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Segment
from pyflinklike._changelog.stored_table import (
    StoredTable,
    codes_of,
    last_of_each,
    numbers,
)
from pyflinklike._clock import TimeDomain
from pyflinklike.state_processor._logs.column_values import (
    TIMESTAMP,
    BatchClock,
    are_alive,
    show_column,
    timestamps,
    type_to_show,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import describe_states, timers_of
from pyflinklike.state_processor._logs.state_rows import (
    EXPIRING,
    STREAM_TIME,
    GroupTables,
    StateRows,
    find_retained,
    stream_times,
)
from pyflinklike.types.catalog import type_of


class GroupReader(Protocol):
    """Makes rows from the logs of key groups; it is pickled for the workers that run it."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the rows of one key group.

        Args:
            index: The index of the group.
            log: The segments of the group, checked and in order.
            where: The name of the group, for messages.
        """


def with_keys(entries: pa.Table, wanted: Any) -> pa.Table:
    """Return the entries of some keys only.

    Args:
        entries: Entries in the columns of `StoredTable.schema`.
        wanted: Stored keys, each once.
    """
    keys = entries.column("key").combine_chunks()
    # The wanted keys come first, so their codes are the lowest.
    codes = codes_of([pa.concat_arrays([wanted, keys])], len(wanted) + len(keys))
    return entries.filter(pc.less(codes.slice(len(wanted)), len(wanted)))


@attrs.frozen
class GroupStateReader:
    """Reads the entries of a state.

    Args:
        rows: The description of the rows.
        clock: The time that decides which entries are expired; None if the state does not expire.
        expired: Whether expired entries are included.
        wanted: The stored keys to read; None reads all.
        only: The only key group to read, if all have the same entries; None reads all groups.
    """

    rows: StateRows
    clock: BatchClock | None
    expired: bool = True
    wanted: Any = attrs.field(default=None, eq=False)
    only: int | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self.rows.schema

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the entries of one key group."""
        if self.only is not None and index != self.only:
            return
        tables, name = GroupTables.of(log, where), self.rows.info.name
        if name not in tables:
            return
        entries = tables.entries(self.rows.table)
        with tables.guard(f"state {name!r}"):
            rows = self._rows_of(entries, index, tables)
        yield rows

    def _rows_of(self, entries: pa.Table, index: int, tables: GroupTables) -> pa.Table:
        if self.wanted is not None and not self.rows.declaration.per_group:
            entries = with_keys(entries, self.wanted)
        if not self.expired and self.clock is not None:
            entries = alive_of(self.rows, entries, tables, self.clock)
        if self.rows.saved and self.rows.info.kind in EXPIRING:
            clock = self.clock or BatchClock(0)
            times = stream_times(self.rows, entries, tables, clock)
            entries = entries.append_column(STREAM_TIME, times)
        return self.rows.of_entries(entries, index, self.clock)


def alive_of(
    rows: StateRows, entries: pa.Table, tables: GroupTables, clock: BatchClock
) -> pa.Table:
    """Return the entries that a function would see at a time.

    Args:
        rows: The description of the state's rows.
        entries: The entries of one key group.
        tables: All tables of the group.
        clock: The time at which a function would read them.
    """
    if rows.info.ttl is not None:
        stamps = entries.column("stamp").combine_chunks()
        return entries.filter(are_alive(stamps, rows.info.ttl, clock))
    if rows.info.kind in EXPIRING:
        return entries.filter(find_retained(rows, entries, tables, clock))
    return entries


@attrs.frozen
class TimersReader:
    """Reads timers.

    Args:
        record: The record of the operator.
        clock: The time that decides which timers are due; None if the rows are for a savepoint.
    """

    record: OperatorRecord
    clock: BatchClock | None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        fields = [*KeyColumns.of(self.record).fields]
        namespace = timers_of(self.record, TimeDomain.EVENT_TIME).namespace
        if namespace:
            kind = type_to_show(type_of(namespace), saved=self.clock is None)
            fields.append(pa.field("namespace", kind))
        fields += [pa.field("domain", pa.string()), pa.field("timestamp", pa.int64())]
        if self.clock is not None:
            fields += [pa.field("time", TIMESTAMP), pa.field("due", pa.bool_())]
        return pa.schema([*fields, pa.field("key_group", pa.int32())])

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the timers of one key group."""
        tables = GroupTables.of(log, where)
        for domain in TimeDomain:
            declaration = timers_of(self.record, domain)
            if declaration.name in tables:
                timers = tables.entries(StoredTable(declaration))
                with tables.guard("timers", "must hold timers as a function registers them"):
                    of_domain = self._of(timers, domain, declaration.namespace, index)
                yield of_domain

    def _of(self, timers: pa.Table, domain: TimeDomain, namespace: str, index: int) -> pa.Table:
        stored = {name: timers.column(name).combine_chunks() for name in timers.column_names}
        columns = KeyColumns.of(self.record).show(stored["key"])
        if namespace:
            saved = self.clock is None
            columns.append(show_column(stored["namespace"], type_of(namespace), saved=saved))
        times, rows = stored["user_key"], timers.num_rows
        columns += [pa.repeat(pa.scalar(domain.name.lower()), rows), times]
        if self.clock is not None:
            is_event = domain is TimeDomain.EVENT_TIME
            now = self.clock.watermark if is_event else self.clock.processing_time
            columns += [timestamps(times), pc.less_equal(times, pa.scalar(now, pa.int64()))]
        columns.append(pa.repeat(pa.scalar(index, pa.int32()), rows))
        return pa.table(columns, schema=self.schema)


def savepoint_readers(
    record: OperatorRecord, first: int | None
) -> Iterator[tuple[str | None, GroupStateReader | TimersReader]]:
    """Yield a reader of each state of a savepoint, behind its name, and last of the timers.

    Args:
        record: The record of the operator.
        first: The key group whose broadcast state is read, since all key groups have the same.
    """
    for info in describe_states(record, 0):
        rows = StateRows.of(record, info, saved=True)
        only = first if info.kind == "broadcast" else None
        yield info.name, GroupStateReader(rows, None, only=only)
    yield None, TimersReader(record, None)


_JUDGED = ("stamp", "expires_at", "alive", "key_group")


@attrs.frozen
class KeyedReader:
    """Reads all states of each key.

    Args:
        states: The descriptions of the rows of each state; all of them belong to keys.
        keys: The key columns of the stream.
        clock: The time that decides which entries are expired and left out.
        wanted: The stored keys to read; None reads all.
    """

    states: tuple[StateRows, ...]
    keys: KeyColumns
    clock: BatchClock
    wanted: Any = attrs.field(default=None, eq=False)

    @property
    def schema(self) -> pa.Schema:
        """The schema: key columns, a column for each state, key group.

        A state's column has its value, an array, a map or an array of structs.
        """
        fields = [pa.field(_column(each), _type_of(each)) for each in self.states]
        return pa.schema([*self.keys.fields, *fields, pa.field("key_group", pa.int32())])

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Read the keys of one key group."""
        tables = GroupTables.of(log, where)
        found = []
        for rows in self.states:
            entries = tables.entries(rows.table)
            if self.wanted is not None:
                entries = with_keys(entries, self.wanted)
            with tables.guard(f"state {rows.info.name!r}"):
                found.append(alive_of(rows, entries, tables, self.clock))
        keys = pa.concat_arrays([each.column("key").combine_chunks() for each in found])
        codes = codes_of([keys], len(keys))
        count = len(pc.unique(codes))
        if not count:
            return
        any_row = last_of_each(codes, numbers(len(codes)))
        columns, start = self.keys.show(keys.take(any_row)), 0
        for rows, entries in zip(self.states, found):
            mine = codes.slice(start, entries.num_rows)
            start += entries.num_rows
            with tables.guard(f"state {rows.info.name!r}"):
                shown = rows.of_entries(entries, index, self.clock).combine_chunks()
            columns.append(_by_key(rows, shown, mine, count))
        columns.append(pa.repeat(pa.scalar(index, pa.int32()), count))
        yield pa.table(columns, schema=self.schema)


def _column(rows: StateRows) -> str:
    taken = {name.lower() for name in (*rows.keys.names, "key_group")}
    name = rows.info.name
    return f"state_{name}" if name.lower() in taken else name


def _is_single(rows: StateRows) -> bool:
    return rows.table.spec.shape.value == "single" and not rows.declaration.namespace


def _struct_fields(rows: StateRows) -> list[Any]:
    whose = {each.name for each in rows.key_fields}
    return [each for each in rows.schema if each.name not in whose and each.name not in _JUDGED]


def _type_of(rows: StateRows) -> Any:
    """Return the type of a state's column: a column without keys has it, too."""
    return _by_key(rows, rows.schema.empty_table(), pa.array([], pa.int64()), 0).type


def _by_key(rows: StateRows, shown: pa.Table, codes: Any, count: int) -> Any:
    """Return a state's rows as one value for each code below `count`, or null if there are no rows."""
    every = numbers(count)
    if _is_single(rows):
        return _array(shown, "value").take(pc.index_in(every, codes))
    order = pa.table({"code": codes})
    if rows.info.kind == "list":
        order = order.append_column("position", shown.column("position"))
    # Arrow's nested arrays are offsets into flat values, so the rows of a key must be neighbours.
    places = pc.sort_indices(order, [(name, "ascending") for name in order.column_names])
    sorted_rows = shown.take(places).combine_chunks()
    counted = codes.value_counts() if len(codes) else pa.array([], pa.struct([]))
    lengths = pa.repeat(pa.scalar(0, pa.int64()), count)
    if len(codes):
        at = pc.index_in(every, counted.field("values"))
        lengths = counted.field("counts").take(at).fill_null(0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    mask, offsets = pc.equal(lengths, 0), offsets.cast(pa.int32())
    plain = None if rows.declaration.namespace else rows.info.kind
    if plain == "map":
        keys, values = _array(sorted_rows, "user_key"), _array(sorted_rows, "value")
        return pa.MapArray.from_arrays(offsets, keys, values, mask=mask)
    if plain == "list":
        return pa.ListArray.from_arrays(offsets, _array(sorted_rows, "value"), mask=mask)
    fields = _struct_fields(rows)
    parts = [_array(sorted_rows, each.name) for each in fields]
    structs = pa.StructArray.from_arrays(parts, fields=fields)
    return pa.ListArray.from_arrays(offsets, structs, mask=mask)


def _array(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()
