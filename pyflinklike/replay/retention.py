# SPDX-License-Identifier: Apache-2.0
"""Retention of windows, sessions and versions, as columns.

The rules are those of the stores themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import Section
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.codes import codes_of, last_of_each
from pyflinklike.replay.rows import StateRows
from pyflinklike.replay.store_keys import number_at
from pyflinklike.replay.table import StoredTable, replayed
from pyflinklike.replay.versions import valid_to
from pyflinklike.state.table import Shape
from pyflinklike.stores.codec import INT_SIZE
from pyflinklike.types import Types

__all__ = ["retained", "stream_times", "times_table"]


def retained(
    rows: StateRows,
    entries: pa.Table,
    tables: Mapping[str, list[Section]],
    clock: BatchClock,
    where: str,
) -> Any:
    """Return a mask of the entries that the store still shows.

    Args:
        rows: Description of the store's rows.
        entries: Entries of one key group.
        tables: All sections of the group, by table.
        clock: The time, for stores that go by the watermark.
        where: Name of the group, for messages.
    """
    options = rows.info.options
    stored = {name: entries.column(name).combine_chunks() for name in entries.column_names}
    if rows.info.kind == "versioned":
        times, retention = valid_to(stored), options["history_retention"]
    else:
        numbers = 2 if rows.info.kind == "session" else 1 + options["retain_duplicates"]
        times = number_at(stored["user_key"], -numbers * INT_SIZE)
        retention = options["retention"]
    now = stream_times(rows, entries, tables, clock, where)
    # Before any write nothing is expired: the stream time is null then, and so is the difference.
    expired = pc.subtract(now, pa.scalar(retention, pa.int64()))
    # The latest version, which has no end, is never forgotten.
    return pc.greater(times, expired).fill_null(True)


def stream_times(
    rows: StateRows,
    entries: pa.Table,
    tables: Mapping[str, list[Section]],
    clock: BatchClock,
    where: str,
) -> Any:
    """Return the stream time by which each entry is judged; null where none was seen."""
    mode, count = rows.info.options["stream_time"], entries.num_rows
    seen = _seen(rows, tables, mode, where)
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


def _seen(rows: StateRows, tables: Mapping[str, list[Section]], mode: str, where: str) -> pa.Table:
    declaration = times_table(rows, mode)
    return replayed(StoredTable(declaration), tables.get(declaration.name, []), where)


def times_table(rows: StateRows, mode: str) -> Declaration:
    """Return the declaration of the table in which a store keeps its stream time.

    Args:
        rows: Description of the store's rows.
        mode: The store's `stream_time`.
    """
    key = rows.declaration.key if mode == "key" else ""
    return Declaration(
        f"{rows.info.name}/time",
        f"stream time by {mode}",
        Shape.SINGLE.value,
        key,
        "",
        Types.LONG().signature,
    )
