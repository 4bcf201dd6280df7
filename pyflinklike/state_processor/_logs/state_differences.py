# SPDX-License-Identifier: Apache-2.0
"""Finds the differences between the entries of a state at two times, or of two states."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.stored_table import codes_of

_ENTRY = (
    *("namespace", "user_key", "position", "store_key", "window_start", "number"),
    *("session_start", "session_end", "valid_from", "domain", "timestamp"),
)


def entry_columns(names: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the columns that identify an entry.

    Args:
        names: The names of all columns.
        keys: The names of the key columns.
    """
    # In a timestamped store the timestamp belongs to the value; a timer is identified by its time.
    own = [name for name in _ENTRY if name != "timestamp" or "domain" in names]
    return [name for name in (*keys, *own) if name in names]


def schema_of_differences(schema: pa.Schema, on: Sequence[str]) -> pa.Schema:
    """Return the schema of `differences` for entries of a schema, identified by the columns `on`."""
    fields = [pa.field("change", pa.string()), *(schema.field(name) for name in on)]
    if "value" in schema.names:
        kind = schema.field("value").type
        fields += [pa.field("before", kind), pa.field("after", kind)]
    return pa.schema(fields)


def differences(before: pa.Table, after: pa.Table, on: Sequence[str]) -> pa.Table:
    """Return the entries that are not the same: `change` is "insert", "update" or "delete".

    Equal entries are left out, nulls are equal, and stamps do not count.

    Args:
        before: The former entries, each in one row.
        after: The later entries, each in one row, in the same columns.
        on: The columns that identify an entry.
    """
    # Both sides get codes together, so that equal entries have equal codes.
    count = before.num_rows
    codes = _codes(before, after, on)
    mine, theirs = codes.slice(0, count), codes.slice(count)
    former = pc.index_in(theirs, value_set=mine)  # for each entry after: where it was before
    deleted = _places(pc.invert(pc.is_in(mine, value_set=theirs)))
    inserted = _places(pc.is_null(former))
    updated = pa.array([], pa.int64())
    if "value" in before.schema.names:
        values = _codes(before, after, ["value"])
        now, was = values.slice(count), values.slice(0, count).take(former)
        updated = _places(pc.not_equal(now, was).fill_null(False))
    parts = [
        _part("delete", before.take(deleted), on, before=before.take(deleted)),
        _part("insert", after.take(inserted), on, after=after.take(inserted)),
        _part(
            "update",
            after.take(updated),
            on,
            before=before.take(former.take(updated)),
            after=after.take(updated),
        ),
    ]
    schema = schema_of_differences(before.schema, on)
    return pa.concat_tables(each.select(schema.names).cast(schema) for each in parts)


def _part(
    change: str,
    rows: pa.Table,
    on: Sequence[str],
    *,
    before: pa.Table | None = None,
    after: pa.Table | None = None,
) -> pa.Table:
    columns = {"change": pa.repeat(pa.scalar(change), rows.num_rows)}
    columns |= {name: rows.column(name) for name in on}
    if "value" in rows.schema.names:
        nothing = pa.nulls(rows.num_rows, rows.schema.field("value").type)
        columns["before"] = nothing if before is None else before.column("value")
        columns["after"] = nothing if after is None else after.column("value")
    return pa.table(columns)


def _codes(before: pa.Table, after: pa.Table, names: Sequence[str]) -> Any:
    columns = [
        pa.concat_arrays([_whole(each.column(name)) for each in (before, after)]) for name in names
    ]
    return codes_of(columns, before.num_rows + after.num_rows)


def _whole(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _places(mask: Any) -> Any:
    return pc.indices_nonzero(mask).cast(pa.int64())
