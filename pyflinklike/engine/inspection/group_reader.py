# SPDX-License-Identifier: Apache-2.0
"""Readers of a checkpoint, one key group at a time, wherever its log comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import TimeDomain
from pyflinklike.log.decoding import decoding
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.savepoint import sections_of
from pyflinklike.log.segments import Section, Segment
from pyflinklike.replay.clock import BatchClock, are_alive
from pyflinklike.replay.codes import codes_of
from pyflinklike.replay.described import timers_of
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.retention import retained, stream_times
from pyflinklike.replay.rows import EXPIRING, STREAM_TIME, StateRows
from pyflinklike.replay.table import StoredTable, replayed
from pyflinklike.replay.values import TIMESTAMP, shown, shown_type, timestamps
from pyflinklike.types.signature import type_of

__all__ = ["GroupReader", "StateReader", "TimersReader", "sections_by_table", "with_keys"]


class GroupReader(Protocol):
    """A reader that makes rows of key groups; it is pickled for the workers that do so."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the rows of one key group.

        Args:
            index: Index of the group.
            log: Its segments, checked and in order.
            where: Name of the group, for messages.
        """


def sections_by_table(log: Iterable[Segment], where: str) -> dict[str, list[Section]]:
    """Return the sections of a log by the names of their tables, in order."""
    tables: dict[str, list[Section]] = {}
    for section in sections_of(log, where):
        tables.setdefault(section.declaration.name, []).append(section)
    return tables


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
class StateReader:
    """Read the entries of a state.

    Args:
        rows: Description of the rows.
        clock: The time by which expiry is judged; None for state that does not expire.
        expired: Whether expired entries are included.
        wanted: The stored keys to read; None for all.
        only: The key group to read of state that is the same in every group; None for all groups.
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
        tables = sections_by_table(log, where)
        name = self.rows.info.name
        if name not in tables:
            return
        entries = replayed(self.rows.table, tables[name], where)
        with decoding(f"{where}, state {name!r}", "must hold entries as a function writes them"):
            rows = self._rows_of(entries, index, tables, where)
        yield rows

    def _rows_of(
        self, entries: pa.Table, index: int, tables: Mapping[str, list[Section]], where: str
    ) -> pa.Table:
        if self.wanted is not None and not self.rows.declaration.per_group:
            entries = with_keys(entries, self.wanted)
        if not self.expired and self.clock is not None:
            entries = alive_of(self.rows, entries, tables, self.clock, where)
        if self.rows.saved and self.rows.info.kind in EXPIRING:
            clock = self.clock or BatchClock(0)
            times = stream_times(self.rows, entries, tables, clock, where)
            entries = entries.append_column(STREAM_TIME, times)
        return self.rows.of_entries(entries, index, self.clock)


def alive_of(
    rows: StateRows,
    entries: pa.Table,
    tables: Mapping[str, list[Section]],
    clock: BatchClock,
    where: str,
) -> pa.Table:
    """Return the entries that a function would be shown at a time.

    Args:
        rows: Description of the state's rows.
        entries: Entries of one key group.
        tables: All sections of the group, by table.
        clock: The time.
        where: Name of the group, for messages.
    """
    if rows.info.ttl is not None:
        stamps = entries.column("stamp").combine_chunks()
        return entries.filter(are_alive(stamps, rows.info.ttl, clock))
    if rows.info.kind in EXPIRING:
        return entries.filter(retained(rows, entries, tables, clock, where))
    return entries


@attrs.frozen
class TimersReader:
    """Read timers.

    Args:
        record: Record of the operator.
        clock: The time by which a timer is due; None where the rows are for a savepoint.
    """

    record: OperatorRecord
    clock: BatchClock | None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        fields = [*KeyColumns.of(self.record).fields]
        namespace = timers_of(self.record, TimeDomain.EVENT_TIME).namespace
        if namespace:
            kind = shown_type(type_of(namespace), saved=self.clock is None)
            fields.append(pa.field("namespace", kind))
        fields += [pa.field("domain", pa.string()), pa.field("timestamp", pa.int64())]
        if self.clock is not None:
            fields += [pa.field("time", TIMESTAMP), pa.field("due", pa.bool_())]
        return pa.schema([*fields, pa.field("key_group", pa.int32())])

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the timers of one key group."""
        tables = sections_by_table(log, where)
        for domain in TimeDomain:
            declaration = timers_of(self.record, domain)
            if declaration.name in tables:
                timers = replayed(StoredTable(declaration), tables[declaration.name], where)
                with decoding(f"{where}, timers", "must hold timers as a function registers them"):
                    of_domain = self._of(timers, domain, declaration.namespace, index)
                yield of_domain

    def _of(self, timers: pa.Table, domain: TimeDomain, namespace: str, index: int) -> pa.Table:
        stored = {name: timers.column(name).combine_chunks() for name in timers.column_names}
        columns = KeyColumns.of(self.record).shown(stored["key"])
        if namespace:
            saved = self.clock is None
            columns.append(shown(stored["namespace"], type_of(namespace), saved=saved))
        times, rows = stored["user_key"], timers.num_rows
        columns += [pa.repeat(pa.scalar(domain.name.lower()), rows), times]
        if self.clock is not None:
            is_event = domain is TimeDomain.EVENT_TIME
            now = self.clock.watermark if is_event else self.clock.processing_time
            columns += [timestamps(times), pc.less_equal(times, pa.scalar(now, pa.int64()))]
        columns.append(pa.repeat(pa.scalar(index, pa.int32()), rows))
        return pa.table(columns, schema=self.schema)
