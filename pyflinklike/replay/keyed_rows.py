# SPDX-License-Identifier: Apache-2.0
"""One row for each key with a column for each state, as Flink's table of an operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.log.decoding import decoding
from pyflinklike.log.segments import Segment
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.codes import codes_of, last_of_each, numbers
from pyflinklike.replay.group import alive_of, sections_by_table, with_keys
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.rows import StateRows
from pyflinklike.replay.table import replayed

__all__ = ["KeyedReader"]

_JUDGED = ("stamp", "expires_at", "alive", "key_group")


@attrs.frozen
class KeyedReader:
    """Read all states of each key.

    Args:
        states: Descriptions of each state's rows; keyed state only.
        keys: The key columns.
        clock: The time by which expired entries are left out.
        wanted: The stored keys to read; None for all.
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
        tables = sections_by_table(log, where)
        found = []
        for rows in self.states:
            entries = replayed(rows.table, tables.get(rows.info.name, []), where)
            if self.wanted is not None:
                entries = with_keys(entries, self.wanted)
            with _decoding(rows, where):
                found.append(alive_of(rows, entries, tables, self.clock, where))
        keys = pa.concat_arrays([each.column("key").combine_chunks() for each in found])
        codes = codes_of([keys], len(keys))
        count = len(pc.unique(codes))
        if not count:
            return
        any_row = last_of_each(codes, numbers(len(codes)))
        columns, start = self.keys.shown(keys.take(any_row)), 0
        for rows, entries in zip(self.states, found):
            mine = codes.slice(start, entries.num_rows)
            start += entries.num_rows
            with _decoding(rows, where):
                shown = rows.of_entries(entries, index, self.clock).combine_chunks()
            columns.append(_by_key(rows, shown, mine, count))
        columns.append(pa.repeat(pa.scalar(index, pa.int32()), count))
        yield pa.table(columns, schema=self.schema)


def _decoding(rows: StateRows, where: str) -> decoding:
    rule = "must hold entries as a function writes them"
    return decoding(f"{where}, state {rows.info.name!r}", rule)


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
    if _is_single(rows):
        return rows.schema.field("value").type
    if rows.info.kind == "list" and not rows.declaration.namespace:
        return pa.list_(rows.schema.field("value").type)
    if rows.info.kind == "map" and not rows.declaration.namespace:
        return pa.map_(rows.schema.field("user_key").type, rows.schema.field("value").type)
    return pa.list_(pa.struct(_struct_fields(rows)))


def _by_key(rows: StateRows, shown: pa.Table, codes: Any, count: int) -> Any:
    """Return a state's rows as a value for each code below `count`; null for one without rows."""
    every = numbers(count)
    if _is_single(rows):
        return _array(shown, "value").take(pc.index_in(every, codes))
    order = pa.table({"code": codes})
    if rows.info.kind == "list":
        order = order.append_column("position", shown.column("position"))
    places = pc.sort_indices(order, [(name, "ascending") for name in order.column_names])
    sorted_rows = shown.take(places).combine_chunks()
    counted = codes.value_counts() if len(codes) else pa.array([], pa.struct([]))
    lengths = pa.repeat(pa.scalar(0, pa.int64()), count)
    if len(codes):
        at = pc.index_in(every, counted.field("values"))
        lengths = counted.field("counts").take(at).fill_null(0)
    offsets = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
    mask, offsets = pc.equal(lengths, 0), offsets.cast(pa.int32())
    kind = _type_of(rows)
    if pa.types.is_map(kind):
        keys, values = _array(sorted_rows, "user_key"), _array(sorted_rows, "value")
        return pa.MapArray.from_arrays(offsets, keys, values, type=kind, mask=mask)
    if rows.info.kind == "list" and not rows.declaration.namespace:
        return pa.ListArray.from_arrays(offsets, _array(sorted_rows, "value"), type=kind, mask=mask)
    fields = _struct_fields(rows)
    parts = [_array(sorted_rows, each.name) for each in fields]
    structs = pa.StructArray.from_arrays(parts, fields=fields)
    return pa.ListArray.from_arrays(offsets, structs, type=kind, mask=mask)


def _array(table: pa.Table, name: str) -> Any:
    return table.column(name).combine_chunks()
