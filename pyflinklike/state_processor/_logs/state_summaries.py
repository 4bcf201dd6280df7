# SPDX-License-Identifier: Apache-2.0
"""Sums up a key group in few rows: its largest keys, when entries expire, when timers fire.

All state of a key is in one key group, so a task finds the largest keys of its groups alone, and the
driver gets only these.  So a report needs one job, however many states there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segments import Segment
from pyflinklike._changelog.stored_table import codes_of
from pyflinklike._clock import MAX_WATERMARK
from pyflinklike.state_processor._logs.column_values import BatchClock, are_alive, expires_at
from pyflinklike.state_processor._logs.group_reader import TimersReader
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_infos import StateInfo, describe_states
from pyflinklike.state_processor._logs.state_rows import GroupTables, StateRows

_HOUR = 3_600_000
_AHEAD = {"next hour": _HOUR, "next day": 24 * _HOUR, "next 30 days": 30 * 24 * _HOUR}
BUCKETS = (*_AHEAD, "later", "unknown")
"""Labels for how far ahead a time is; times in the past have another label, before these."""
_MICROS = 1000
_SUMMARY = pa.schema(
    [
        pa.field("what", pa.string()),
        pa.field("of", pa.string()),
        pa.field("label", pa.string()),
        pa.field("entries", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)


@attrs.frozen
class SummaryReader:
    """Sums up key groups.

    A row counts `what` ("keys", "key", "expiry" or "timers").  The column `of` is the state or the
    time domain, and `label` is a key or a bucket of time.  One row, "keys", counts all keys.

    Args:
        record: The record of the operator.
        clock: The clock of the micro-batch.
        keys: How many of the largest keys to report.
    """

    record: OperatorRecord
    clock: BatchClock
    keys: int

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return _SUMMARY

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the summary of one key group."""
        tables = GroupTables.of(log, where)
        owners, sizes = [], []
        rows: list[dict[str, Any]] = []
        for info in describe_states(self.record, 0):
            if info.name not in tables:
                continue
            state = StateRows.of(self.record, info)
            entries = tables.entries(state.table)
            if not state.declaration.per_group:
                owners.append(entries.column("key").combine_chunks())
                sizes.append(_bytes_of(entries))
            rows += self._expiry(info, entries)
        if owners:
            rows += self._largest(pa.concat_arrays(owners), pa.concat_arrays(sizes))
        rows += self._timers(index, log, where)
        yield pa.Table.from_pylist(rows, _SUMMARY)

    def _expiry(self, info: StateInfo, entries: pa.Table) -> Iterator[dict[str, Any]]:
        if info.ttl is None:
            return
        stamps = entries.column("stamp").combine_chunks()
        ends = pc.divide(expires_at(stamps, info.ttl).cast(pa.int64()), pa.scalar(_MICROS))
        is_past = pc.invert(are_alive(stamps, info.ttl, self.clock))
        counts = _buckets(ends, self.clock.now(info.ttl), is_past, "expired")
        for label, number in counts.items():
            yield {"what": "expiry", "of": info.name, "label": label, "entries": number}

    def _timers(self, index: int, log: list[Segment], where: str) -> Iterator[dict[str, Any]]:
        times = {"event_time": self.clock.watermark, "processing_time": self.clock.processing_time}
        for timers in TimersReader(self.record, self.clock).read(index, log, where):
            for domain in pc.unique(timers.column("domain")).to_pylist():
                mine = timers.filter(pc.equal(timers.column("domain"), domain))
                at, due = (mine.column(each).combine_chunks() for each in ("timestamp", "due"))
                for label, number in _buckets(at, times[domain], due, "due").items():
                    yield {"what": "timers", "of": domain, "label": label, "entries": number}

    def _largest(self, keys: Any, sizes: Any) -> Iterator[dict[str, Any]]:
        codes = codes_of([keys], len(keys))
        found = pa.table(
            {"code": codes, "entries": pa.repeat(pa.scalar(1), len(keys)), "bytes": sizes}
        )
        found = found.group_by("code", use_threads=False).aggregate(
            [("entries", "sum"), ("bytes", "sum")]
        )
        yield {"what": "keys", "entries": found.num_rows}
        chosen = set()
        for each in ("entries_sum", "bytes_sum"):
            places = pc.sort_indices(found, [(each, "descending"), ("code", "ascending")])
            chosen |= set(places.slice(0, self.keys).to_pylist())
        found = found.take(sorted(chosen))
        first = pc.index_in(found.column("code"), codes)
        names = _texts(KeyColumns.of(self.record), keys.take(first.combine_chunks()))
        for name, row in zip(names, found.to_pylist()):
            yield {
                "what": "key",
                "label": name,
                "entries": row["entries_sum"],
                "bytes": row["bytes_sum"],
            }


@attrs.frozen
class WrittenKeys:
    """Yields the keys that micro-batches wrote to, in any state of an operator: `key`, `batch_id`."""

    record: OperatorRecord

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return pa.schema([pa.field("key", pa.string()), pa.field("batch_id", pa.int64())])

    def of_batch(
        self,
        changes: Iterable[Segment],
        batch_id: int,
        index: int,  # noqa: ARG002 - of the protocol
        where: str,
    ) -> Iterator[pa.Table]:
        """Return each key that was written to, once.

        Args:
            changes: The segments, each with all tables that it names.
            batch_id: The number of the micro-batch.
            index: The index of the key group.
            where: The name of both, for messages.
        """
        tables = GroupTables.of(changes, where)
        written = [
            tables.changes(rows.table).column("key").combine_chunks()
            for info in describe_states(self.record, 0)
            if info.name in tables
            and not (rows := StateRows.of(self.record, info)).declaration.per_group
        ]
        if not written:
            return
        keys = pa.concat_arrays(written)
        codes = codes_of([keys], len(keys))
        names = _texts(KeyColumns.of(self.record), keys.take(pc.index_in(pc.unique(codes), codes)))
        batches = pa.repeat(pa.scalar(batch_id, pa.int64()), len(names))
        yield pa.table([pa.array(names, pa.string()), batches], schema=self.schema)


def _texts(columns: KeyColumns, keys: Any) -> list[str]:
    """Return the names of keys in a report."""
    return [
        ", ".join(map(str, key)) for key in zip(*(each.to_pylist() for each in columns.show(keys)))
    ]


def _bytes_of(entries: pa.Table) -> Any:
    """Return the bytes of each entry without offsets and masks; nested values count as the mean."""
    rows = entries.num_rows
    total = pa.repeat(pa.scalar(0, pa.int64()), rows)
    for column in map(pa.ChunkedArray.combine_chunks, entries.columns):
        kind = column.type
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            size = pc.binary_length(column).cast(pa.int64()).fill_null(0)
        elif pa.types.is_primitive(kind):
            width = pa.scalar(-(-kind.bit_width // 8), pa.int64())
            size = pc.if_else(column.is_valid(), width, pa.scalar(0, pa.int64()))
        else:
            size = pa.repeat(pa.scalar(-(-column.nbytes // rows) if rows else 0, pa.int64()), rows)
        total = pc.add(total, size)
    return total


def _buckets(times: Any, now: int, is_past: Any, past: str) -> dict[str, int]:
    """Count times by how far they are ahead; all times are in ms."""
    bucket: Any = pa.scalar("later")
    for name, limit in reversed(_AHEAD.items()):
        last = pa.scalar(min(now + limit, MAX_WATERMARK), pa.int64())
        bucket = pc.if_else(pc.less_equal(times, last), name, bucket)
    found = pc.if_else(is_past, past, bucket.fill_null("unknown"))
    counted = found.value_counts()
    return {each["values"]: each["counts"] for each in counted.to_pylist()}
