# SPDX-License-Identifier: Apache-2.0
"""Writes rows and timers of a savepoint as sections of a log.

A store keeps helper tables beside its entries: its layout, the stream time, the order and number of
uses.  They are computed from the entries here, so a user who edits a savepoint need not know them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.entry_codec import (
    MAX_POSITION,
    are_positions,
    divide_batch,
    encode_batch,
)
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike._changelog.stored_table import (
    codes_of,
    entry_codes,
    last_of_each,
    sort_rows,
)
from pyflinklike._clock import TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.state.table import LAYOUT, Shape
from pyflinklike.state_processor._logs.column_values import TIMESTAMP, store_column
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import timers_of
from pyflinklike.state_processor._logs.state_rows import (
    EXPIRING,
    STREAM_TIME,
    StateRows,
    times_table,
)
from pyflinklike.stores.store_codec import KeyCodec, encode_int
from pyflinklike.stores.store_descriptors import ExpiringStoreDescriptor
from pyflinklike.types import Types
from pyflinklike.types.catalog import type_of

SECTION_BYTES = 4 * 1024 * 1024
"""The largest section with more than one entry, in bytes.

Each section is a value in a row of Spark, which Spark copies and sorts before it stores it.  A task has
some of them in the JVM at a time, in buffers that Spark doubles when they are full.
"""


def sections_of_rows(rows: StateRows, saved: pa.Table) -> Iterator[Section]:
    """Write the rows of one key group as sections, helper tables included.

    Args:
        rows: The description of the state's rows.
        saved: All rows of the key group, in the columns of `rows.schema`.

    Raises:
        StateValueError: A value does not fit its type, or an entry has two rows.
    """
    if rows.info.kind == "list":
        saved = sort_rows(saved, ["position"])
    entries = entries_of_rows(rows, saved)
    if len(pc.unique(entry_codes(entries))) != entries.num_rows:
        msg = f"state {rows.info.name!r}: an entry must have one row, got several with the same"
        raise StateValueError(f"{msg} {rows.entry_names}; aggregate them first")
    yield from _stamp_sections(rows, entries)
    yield from _helpers(rows, entries, saved)


def _stamp_sections(rows: StateRows, entries: pa.Table) -> Iterator[Section]:
    """Write entries with a stamp and entries without a stamp as separate sections."""
    stamps = entries.column("stamp")
    if "stamp" in rows.schema.names or rows.info.kind in ("timestamped", "lru"):
        yield from section_of(rows.declaration, entries.filter(pc.is_valid(stamps)))
        entries = entries.filter(pc.is_null(stamps))
    yield from section_of(rows.declaration, entries.drop_columns(["stamp"]))


def section_of(declaration: Declaration, entries: pa.Table) -> Iterator[Section]:
    """Write entries as sections of the log; without entries there is no section."""
    for batch in entries.combine_chunks().to_batches():
        for part in divide_batch(batch, SECTION_BYTES):
            if part.num_rows:
                yield Section(declaration, encode_batch(part))


def entries_of_rows(rows: StateRows, saved: pa.Table) -> pa.Table:
    """Return rows in the columns of `StoredTable.schema`.

    Args:
        rows: The description of the state's rows.
        saved: The rows, in the columns of `rows.schema`.

    Raises:
        StateValueError: A value does not fit its type; the message names the entry.
        IncompatibleStateError: A key does not fit its type.
    """
    try:
        return _entries(rows, saved)
    except (StateValueError, IncompatibleStateError) as error:
        at = _misfit(rows, saved)
        if at is None:
            raise
        whose = {name: saved.column(name)[at].as_py() for name in rows.entry_names}
        raise type(error)(f"{error}; it is in the row {short_repr(whose)}") from error


def _misfit(rows: StateRows, saved: pa.Table) -> int | None:
    """Find a row that cannot be stored, by bisection, or None if each row can be stored alone."""
    first, count = 0, saved.num_rows
    while count > 1:
        half = count // 2
        if not _fits(rows, saved, first, half):
            count = half
        else:
            first, count = first + half, count - half
    return first if count and not _fits(rows, saved, first, 1) else None


def _fits(rows: StateRows, saved: pa.Table, first: int, count: int) -> bool:
    try:
        _entries(rows, saved.take(list(range(first, first + count))))
    except (StateValueError, IncompatibleStateError):
        return False
    return True


def _entries(rows: StateRows, saved: pa.Table) -> pa.Table:
    found = {name: saved.column(name).combine_chunks() for name in saved.column_names}
    what, schema = f"state {rows.info.name!r}", rows.table.schema
    columns: dict[str, Any] = {"stamp": found.get("stamp", pa.nulls(saved.num_rows, pa.int64()))}
    if not rows.declaration.per_group:
        columns["key"] = rows.keys.store([found[name] for name in rows.keys.names])
    if rows.declaration.namespace:
        namespace = type_of(rows.declaration.namespace)
        columns["namespace"] = store_column(found["namespace"], namespace, what, as_key=True)
    if rows.declaration.value:
        nullable = rows.info.kind == "versioned"
        columns["value"] = store_column(
            found["value"], type_of(rows.declaration.value), what, nullable=nullable
        )
    if rows.info.kind == "list":
        columns["user_key"] = _positions(rows, found["position"])
    elif rows.info.is_store:
        columns["user_key"] = _store_keys(rows, found)
    elif rows.info.user_key_type is not None:
        user_key = type_of(rows.info.user_key_type)
        columns["user_key"] = store_column(found["user_key"], user_key, what, as_key=True)
    if rows.info.kind == "timestamped":
        columns["stamp"] = _milliseconds(found["timestamp"])
    if rows.info.kind == "lru":
        columns["stamp"] = found["last_use"]
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _positions(rows: StateRows, positions: Any) -> Any:
    if positions.null_count:
        msg = f"state {rows.info.name!r}: an element has a position, got null; number them"
        raise StateValueError(msg)
    positions = positions.cast(pa.int64())
    if not are_positions(positions):
        ends = pc.min_max(positions).as_py()
        msg = (
            f"state {rows.info.name!r}: positions of elements must be from 0 to {MAX_POSITION:,}, "
            f"got {ends['min']} to {ends['max']}; number the elements of each key from 0"
        )
        raise StateValueError(msg)
    return positions


def _store_keys(rows: StateRows, found: dict[str, Any]) -> Any:
    """Return the user keys of a store: each key with the numbers before and behind it."""
    assert rows.info.user_key_type is not None
    kind, what = type_of(rows.info.user_key_type), f"store {rows.info.name!r}"
    codec = KeyCodec(rows.info.name, kind)
    frozen = kind.from_arrow(store_column(found["store_key"], kind, what, as_key=True))
    keys = [codec.encode(kind.thaw_key(key)) for key in frozen]
    numbers = [_milliseconds(found[name]).to_pylist() for name in rows.numbers]
    if rows.is_in_segments:
        width = width_of(rows)
        keys = [encode_int(time // width) + key for time, key in zip(numbers[0], keys)]
    for each in numbers:
        keys = [key + encode_int(number) for key, number in zip(keys, each)]
    return pa.array(keys, pa.binary())


def _milliseconds(times: Any) -> Any:
    """Return timestamps, or numbers, as numbers of ms."""
    if pa.types.is_integer(times.type):
        return times.cast(pa.int64())
    return times.cast(TIMESTAMP).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())


def width_of(rows: StateRows) -> int:
    """Return the length of a time segment of a window or session store, in ms."""
    descriptor = rows.descriptor()
    assert isinstance(descriptor, ExpiringStoreDescriptor)
    return descriptor.segment_width


def _helpers(rows: StateRows, entries: pa.Table, saved: pa.Table) -> Iterator[Section]:
    if not entries.num_rows:
        return
    if rows.is_in_segments:
        layout = attrs.evolve(
            rows.declaration,
            name=f"{rows.info.name}/layout",
            kind=LAYOUT,
            shape="single",
            key="",
            user_key="",
            value=Types.LONG().signature,
        )
        yield from section_of(layout, pa.table({"value": pa.array([width_of(rows)], pa.int64())}))
    if rows.info.kind in EXPIRING:
        yield from _stream_times(rows, entries, saved)
    if rows.info.kind == "lru":
        yield from lru_sections(rows, entries)


def _stream_times(rows: StateRows, entries: pa.Table, saved: pa.Table) -> Iterator[Section]:
    """Write the stream time of the savepoint, or the time of the latest entry if that is later.

    If the stream time is a watermark, it is written unchanged: it is behind the latest entry.
    """
    mode = rows.info.options["stream_time"]
    times = _milliseconds(saved.column(rows.numbers[0]).combine_chunks())
    if mode == "watermark":
        times = pa.nulls(len(times), pa.int64())
    if STREAM_TIME in saved.column_names:
        times = pc.max_element_wise(times, saved.column(STREAM_TIME).combine_chunks())
    if mode == "watermark" and times.null_count == len(times):
        return
    declaration = times_table(rows, mode)
    if not declaration.key:
        latest = pa.table({"value": pa.array([pc.max(times).as_py()], pa.int64())})
    else:
        keys = entries.column("key").combine_chunks()
        owners = codes_of([keys], len(keys))
        first = pc.index_in(pc.unique(owners), owners)
        latest = pa.table({"key": keys.take(first), "value": last_of_each(owners, times)})
    yield from section_of(declaration, latest)


# Timers


def sections_of_timers(record: OperatorRecord, saved: pa.Table) -> Iterator[Section]:
    """Write the timers of one key group as sections; two equal timers become one.

    Args:
        record: The record of the operator.
        saved: All timers of the key group, in the columns of a savepoint.

    Raises:
        StateValueError: A timer has no known domain, or no time.
    """
    keys, domains = KeyColumns.of(record), saved.column("domain")
    known = pa.array([each.name.lower() for each in TimeDomain])
    fits = not saved.column("timestamp").null_count and pc.all(pc.is_in(domains, known)).as_py()
    if saved.num_rows and not fits:
        msg = f"timers have one of the domains {known.to_pylist()} and a time in ms, got another"
        raise StateValueError(f"{msg}; mend or leave out such rows")
    for domain in TimeDomain:
        declaration = timers_of(record, domain)
        mine = saved.filter(pc.equal(domains, domain.name.lower()))
        found = {name: mine.column(name).combine_chunks() for name in mine.column_names}
        columns = {"key": keys.store([found[name] for name in keys.names])}
        if declaration.namespace:
            namespace = type_of(declaration.namespace)
            columns["namespace"] = store_column(
                found["namespace"], namespace, "timers", as_key=True
            )
        columns["user_key"] = found["timestamp"].cast(pa.int64())
        yield from section_of(declaration, pa.table(columns))


# The tables of an LRU store beside its entries: the order of their uses, and their number


_COUNT = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
_BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


def lru_sections(rows: StateRows, entries: pa.Table) -> Iterator[Section]:
    """Write the tables beside the entries, by the number of each entry's last use.

    Args:
        rows: Description of the store's rows.
        entries: Entries of one key group, in the columns of `StoredTable.schema`.
    """
    declared, name = rows.declaration, rows.info.name
    use = attrs.evolve(declared, name=f"{name}/use", kind="use of lru", value=_BYTES.signature)
    count = attrs.evolve(
        declared,
        name=f"{name}/count",
        kind="count of lru",
        shape=Shape.SINGLE.value,
        user_key="",
        value=_COUNT.signature,
    )
    keys = {} if declared.per_group else {"key": entries.column("key").combine_chunks()}
    numbers = entries.column("stamp").combine_chunks()
    uses = pa.array([encode_int(number) for number in numbers.to_pylist()], pa.binary())
    stored = {**keys, "user_key": uses, "value": entries.column("user_key")}
    yield from section_of(use, pa.table(stored))
    # For each owner: the number of the next use, the number of entries, and the first use.
    owners = codes_of(list(keys.values()), len(numbers))
    grouped = pa.table({"owner": owners, "use": numbers}).group_by("owner", use_threads=False)
    found = grouped.aggregate([("use", "max"), ("use", "count"), ("use", "min")]).to_pylist()
    counts = [(each["use_max"] + 1, each["use_count"], each["use_min"]) for each in found]
    rows_of_owners = pc.index_in(pc.unique(owners), owners)
    owned = {name: column.take(rows_of_owners) for name, column in keys.items()}
    yield from section_of(count, pa.table({**owned, "value": _COUNT.to_arrow(counts)}))
