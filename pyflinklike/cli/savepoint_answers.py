# SPDX-License-Identifier: Apache-2.0
"""Answers questions about a savepoint with Arrow alone; neither Spark nor Java is started."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from operator import and_
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.stored_table import codes_of, sort_rows
from pyflinklike.cli.answers import EntryChoice, TimerCounts, order_of
from pyflinklike.cli.cells import iso, write_dataset
from pyflinklike.errors import DeclarationValueError, StateValueError
from pyflinklike.state_processor import SavepointDirectory, open_savepoint
from pyflinklike.state_processor._logs.column_values import (
    BatchClock,
    are_alive,
    expires_at,
    timestamps,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_differences import (
    differences,
    entry_columns,
    schema_of_differences,
)
from pyflinklike.state_processor._logs.state_infos import StateInfo, StateInfos
from pyflinklike.state_processor._savepoints.manifest import folder_of
from pyflinklike.state_processor._savepoints.savepoint_location import damage_error


@attrs.frozen
class SavepointAnswers:
    """The answers about an open savepoint.

    Args:
        saved: The directory of the savepoint.
        operator: The uid of the chosen operator; None chooses all.
    """

    saved: SavepointDirectory
    operator: str | None

    @classmethod
    def open(cls, path: str, operator: str | None) -> SavepointAnswers:
        """Open a savepoint.

        Raises:
            CorruptStateError: The manifest is damaged.
            UnknownStateError: There is no such operator.
        """
        saved = open_savepoint(path)
        if operator is not None:
            saved.manifest.operator(operator, saved.location.where)
        return cls(saved, operator)

    @property
    def where(self) -> str:
        """The name of the savepoint in messages."""
        return self.saved.location.where

    @property
    def batch_id(self) -> int | None:
        """The micro-batch of the savepoint, or None if no query made it."""
        return self.saved.manifest.batch_id

    def facts(self) -> str:
        """Describe the savepoint: its query, its batch, and when it was taken."""
        manifest = self.saved.manifest
        batch = "" if self.batch_id is None else f" of batch {self.batch_id}"
        batch += "" if manifest.query_id is None else f" of query {manifest.query_id}"
        batch += "" if manifest.job is None else f" of job {manifest.job.name!r}"
        taken = f"taken at {iso(manifest.taken_at)} by pyflinklike {manifest.library}"
        return f"savepoint {self.saved.location.address}{batch}, {taken}"

    def states(self, *, sizes: bool = False) -> StateInfos:  # noqa: ARG002 - the manifest has them
        """Return the states of the chosen operators."""
        return self.saved.states(self.operator)

    def count_keys(self) -> dict[str, int]:
        """Count the keys with entries, by the uid of the operator; this reads only the key columns."""
        counts = {}
        for uid in self._uids():
            found: list[Any] = []
            for info in self.saved.states(uid):
                names = [name for name, _ in info.key_columns]
                for batch in self._batches_of(uid, info.name, names) if names else ():
                    columns = batch.columns
                    if found:
                        columns = [pa.concat_arrays(pair) for pair in zip(found, columns)]
                    found = _distinct(columns)
            counts[uid] = len(found[0]) if found else 0
        return counts

    def _batches_of(self, uid: str, state: str, columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns of a state, without a dataset: Arrow would import pandas for it."""
        location = self.saved.location
        for file in self.saved.manifest.operator(uid, self.where).states[state].files:
            read = location.read_file(file)
            if isinstance(read, str):
                raise damage_error(location, read)
            yield from pq.ParquetFile(pa.BufferReader(read)).iter_batches(columns=columns)

    def count_timers(self) -> dict[str, dict[str, int]]:
        """Count the registered timers, by the uid of the operator and then by domain."""
        manifest = self.saved.manifest
        return {
            uid: {
                domain: n for domain, n in manifest.operator(uid, self.where).domains.items() if n
            }
            for uid in self._uids()
        }

    def rows(self, info: StateInfo, choice: EntryChoice) -> pa.Table:
        """Return the chosen entries of a state, sorted; memory holds these and one record batch."""
        if choice.where is not None:
            msg = f"--where is a condition of Spark's SQL, got {self.where}, read without Spark"
            raise DeclarationValueError(f"{msg}; open its Parquet files in DuckDB or with Spark")
        keys = [name for name, _ in info.key_columns]
        dataset = self.saved.dataset(info.name, info.uid)
        condition = _is_key(dataset.schema, keys, choice.key) if choice.has_key else None
        order = order_of([(field.name, field.type) for field in dataset.schema], keys)
        kept = dataset.schema.empty_table()
        # Cut after each batch, so that a state larger than memory can be shown.
        for batch in dataset.to_batches(filter=condition):
            kept = pa.concat_tables([kept, self._of(info, pa.Table.from_batches([batch]), choice)])
            kept = _first(kept, order, choice.limit)
        return self._add_expiry(info, kept)

    def _of(self, info: StateInfo, rows: pa.Table, choice: EntryChoice) -> pa.Table:
        if choice.alive is None:
            return rows
        clock = self.clock()
        if info.ttl is None or clock is None:
            if choice.alive and info.ttl is None:
                return rows
            lacks = "a TTL" if info.ttl is None else "the time of its batch"
            msg = f"{self.where}: cannot say what has expired, since state {info.name!r} lacks {lacks}"
            raise StateValueError(f"{msg}; leave --expired or --alive out")
        alive = are_alive(rows.column("stamp").combine_chunks(), info.ttl, clock)
        return rows.filter(alive if choice.alive else pc.invert(alive))

    def records(self) -> list[OperatorRecord]:
        """Return the operator records of the chosen operators."""
        manifest = self.saved.manifest
        return [manifest.operator(uid, self.where).record for uid in self._uids()]

    def count_stamped(self, info: StateInfo, after: int, until: int) -> int:
        """Count the entries of a state with a TTL by their stamps, in ms."""
        stamp = pc.field("stamp")
        dataset = self.saved.dataset(info.name, info.uid)
        return int(dataset.count_rows(filter=(stamp > after) & (stamp <= until)))

    def clock(self) -> BatchClock | None:
        """Return the times of the batch, if the manifest notes them."""
        manifest = self.saved.manifest
        if manifest.processing_time is None or manifest.watermark is None:
            return None
        return BatchClock(manifest.processing_time, manifest.watermark)

    def _add_expiry(self, info: StateInfo, rows: pa.Table) -> pa.Table:
        if info.ttl is None:
            return rows
        stamps = rows.column("stamp").combine_chunks()
        at = rows.schema.get_field_index("stamp") + 1
        clock = self.clock()
        if clock is not None:
            rows = rows.add_column(at, "alive", are_alive(stamps, info.ttl, clock))
        return rows.add_column(at, "expires_at", expires_at(stamps, info.ttl))

    def timers(
        self, domain: str | None, before: int | None, limit: int | None
    ) -> list[TimerCounts]:
        """Return the timers of each operator."""
        return [self._timers(uid, domain, before, limit) for uid in self._uids()]

    def _uids(self) -> list[str]:
        return self.saved.operators() if self.operator is None else [self.operator]

    def _timers(
        self, uid: str, domain: str | None, before: int | None, limit: int | None
    ) -> TimerCounts:
        dataset = self.saved.timers(uid)
        names = dataset.schema.names
        order = ["timestamp", *order_of([(f.name, f.type) for f in dataset.schema], names)]
        counts: dict[str, dict[str, Any]] = {}
        kept = self._add_times(dataset.schema.empty_table())
        for batch in dataset.to_batches(filter=_is_wanted(domain, before)):
            some = self._add_times(pa.Table.from_batches([batch]))
            _count(some, counts)
            kept = _first(pa.concat_tables([kept, some]), order, limit)
        return TimerCounts(uid, [counts[each] for each in sorted(counts)], kept)

    def _add_times(self, timers: pa.Table) -> pa.Table:
        at = timers.schema.get_field_index("timestamp") + 1
        times = timestamps(timers.column("timestamp").combine_chunks())
        timers = timers.add_column(at, "time", times)
        clock = self.clock()
        return timers if clock is None else timers.add_column(at + 1, "due", _due(timers, clock))

    def entries(self, info: StateInfo) -> pa.Table:
        """Return all entries of a state."""
        return self.rows(info, EntryChoice())

    def compare(
        self, before: pa.Table | None, after: pa.Table | None, keys: list[str], limit: int | None
    ) -> tuple[dict[str, int], pa.Table]:
        """Compare entries: return the number of differences by change, and the first of them."""
        some = before if before is not None else after
        assert some is not None
        nothing = some.slice(0, 0)
        one, other = (nothing if each is None else each for each in (before, after))
        on = entry_columns(some.schema.names, keys)
        found = differences(one, other, on)
        changes = found.column("change").to_pylist()
        order = order_of([(f.name, f.type) for f in schema_of_differences(some.schema, on)], keys)
        found = sort_rows(found, [*order, "change"])
        counts = {each: changes.count(each) for each in sorted(set(changes))}
        return counts, found if limit is None else found.slice(0, limit)

    def timer_entries(self, uid: str | None) -> tuple[pa.Table | None, list[str]]:
        """Return the timers of an operator, and its key columns."""
        if uid is None:
            return None, []
        record = self.saved.manifest.operator(uid, self.where).record
        return self.saved.timers(uid).to_table(), list(KeyColumns.of(record).names)

    def export(self, out: str, kind: str) -> None:
        """Write all states and timers as files.

        Raises:
            DeclarationValueError: `kind` is "savepoint", but this is one already.
        """
        if kind == "savepoint":
            msg = f"export makes a savepoint of a checkpoint, got {self.where}, which is one"
            raise DeclarationValueError(f"{msg}; copy the directory, or give another --format")
        for info in self.states():
            folder = f"{out}/{folder_of(info.uid, info.name)}"
            write_dataset(self.saved.dataset(info.name, info.uid), folder, kind)
        for uid in self._uids():
            write_dataset(self.saved.timers(uid), f"{out}/{folder_of(uid, None)}", kind)


def _distinct(columns: Sequence[Any]) -> list[Any]:
    """Return the distinct rows of columns."""
    codes = codes_of(list(columns), len(columns[0]))
    first = pc.index_in(pc.unique(codes), codes)  # group_by would import pandas
    return [each.take(first) for each in columns]


def _count(timers: pa.Table, counts: dict[str, dict[str, Any]]) -> None:
    """Add the numbers of some timers to earlier ones."""
    for domain in set(timers.column("domain").to_pylist()):
        some = timers.filter(pc.equal(timers.column("domain"), domain))
        times = pc.min_max(some.column("timestamp")).as_py()
        due = pc.sum(some.column("due")).as_py() if "due" in some.column_names else None
        was = counts.get(domain)
        if was is not None:
            times = {"min": min(times["min"], was["first"]), "max": max(times["max"], was["last"])}
            due = None if due is None else due + was["due"]
        counts[domain] = {
            "domain": domain,
            "timers": some.num_rows + (was["timers"] if was else 0),
            "due": due,
            "first": times["min"],
            "last": times["max"],
        }


def _due(timers: pa.Table, clock: BatchClock) -> Any:
    is_event = pc.equal(timers.column("domain"), "event_time")
    now = pc.if_else(is_event, pa.scalar(clock.watermark), pa.scalar(clock.processing_time))
    return pc.less_equal(timers.column("timestamp"), now)


def _is_wanted(domain: str | None, before: int | None) -> Any:
    wanted = pc.scalar(True)
    if domain is not None:
        wanted &= pc.field("domain") == domain
    if before is not None:
        wanted &= pc.field("timestamp") < before
    return wanted


def _is_key(schema: pa.Schema, names: Sequence[str], key: Any) -> Any:
    parts = zip(names, key if len(names) > 1 else (key,))
    conditions = (_equals((name,), schema.field(name).type, value) for name, value in parts)
    return functools.reduce(and_, conditions)


def _equals(path: tuple[str, ...], kind: Any, value: Any) -> Any:
    """Return the condition that a column has a value; Arrow compares structs only by their fields."""
    if value is None:
        return pc.field(*path).is_null()
    if not pa.types.is_struct(kind):
        return pc.field(*path) == pa.scalar(value, kind)
    found = pc.field(*path).is_valid()
    for at, part in enumerate(value):
        field = kind.field(at)
        found = found & _equals((*path, field.name), field.type, part)
    return found


def _first(rows: pa.Table, order: Sequence[str], limit: int | None) -> pa.Table:
    ordered = sort_rows(rows, order)
    return ordered if limit is None else ordered.slice(0, limit)
