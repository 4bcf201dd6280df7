# SPDX-License-Identifier: Apache-2.0
"""The initial state of a stream from a savepoint: executors make a snapshot of each key group.

    rows of a state -> key group by the stream's own hash -> sections -> segments of a key group

The rows of each state are shuffled by key group and become sections.  The sections of all states
are shuffled again and become segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from itertools import groupby
from operator import itemgetter
from typing import Any

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike.clock import TimeDomain
from pyflinklike.errors import HostError, IncompatibleStateError
from pyflinklike.log.chain import snapshots
from pyflinklike.log.declaration import Declaration
from pyflinklike.log.segments import Section
from pyflinklike.replay.described import described, state_of
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.rows import StateRows
from pyflinklike.savepoints.stored_rows import SECTION_BYTES, sections_of_rows
from pyflinklike.savepoints.stored_timers import sections_of_timers
from pyflinklike.shown import shown
from pyflinklike.spark.reading.jobs import mapped
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.balanced_ids import group_ids
from pyflinklike.spark.wire.key_hash import key_group
from pyflinklike.spark.wire.names import KEY_GROUP, quoted
from pyflinklike.spark.wire.roll_call import ROLL_CALL, roll_payload
from pyflinklike.spark.writing.saving import Frames

__all__ = ["initial_frame", "refuse_timers"]

_SECTIONS = f"{KEY_GROUP} int, declaration binary, payload binary"
_PAYLOADS = f"{KEY_GROUP} int, payload binary"
Batches = Iterable[pa.RecordBatch]


def refuse_timers(domains: Mapping[str, int], plan: Plan) -> None:
    """Refuse timers that a query could not fire.

    Args:
        domains: The number of timers in the savepoint by time domain.
        plan: The plan of the query, whose time mode decides.

    Raises:
        HostError: The savepoint holds such timers.
    """
    refused = plan.time_mode.refused_timers()
    for domain in TimeDomain:
        if domains.get(domain.name.lower()) and domain in refused:
            msg = f"the savepoint holds timers that would never fire: {refused[domain]}"
            raise HostError(msg) from refused[domain]


def initial_frame(df: DataFrame, plan: Plan, frames: Frames) -> DataFrame:
    """Make the rows with which a query begins: grouping keys, and a payload in each row.

    Args:
        df: The stream.
        plan: The plan of the query.
        frames: The operator's part of the savepoint.

    Raises:
        IncompatibleStateError: The savepoint's key columns are not the stream's, a key would
            change in the stream's columns, or the state of a key group would have to be divided.
    """
    keys = _Keys.of(df, plan, frames.record)
    parts = [_sections(keys, frames, name, frame) for name, frame in frames.states.items()]
    timers = keys.with_group(frames.timers, by_key=True)
    parts.append(_by_group(timers, _TimersJob(frames.record, keys.columns)))
    every = reduce(DataFrame.unionAll, parts)
    ids = group_ids(plan.task.max_parallelism)
    grouped = every.repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP)
    return mapped(grouped, _SegmentsJob(ids), _PAYLOADS)


@attrs.frozen
class _Keys:
    """The key columns of a savepoint, and those of the stream that take their place.

    Args:
        columns: The key columns of the savepoint.
        names: The names of the stream's key columns.
        types: The types of the stream's key columns.
        former_max_parallelism: The number of key groups of the savepoint.
        max_parallelism: The number of key groups of the stream.
    """

    columns: KeyColumns
    names: tuple[str, ...]
    types: tuple[st.DataType, ...]
    former_max_parallelism: int
    max_parallelism: int

    @classmethod
    def of(cls, df: DataFrame, plan: Plan, record: Any) -> _Keys:
        columns, names = KeyColumns.of(record), plan.reader.key_columns
        declared = [name.partition(" = ")[0] for name, _ in record.identity.key_columns]
        # The key of a harness has no name, so it fits any single key column.
        fits = len(names) == 1 if not declared else _lower(declared) == _lower(names)
        if not fits:
            msg = (
                f"operator {plan.task.name!r}: a savepoint has the key columns of the stream, "
                f"{list(names)}, got {declared or list(columns.names)}; rename them before key_by, "
                "or make a savepoint of these with Savepoint.new() and with_state()"
            )
            raise IncompatibleStateError(msg)
        types = tuple(df.schema[name].dataType for name in names)
        former = record.identity.max_parallelism
        return cls(columns, tuple(names), types, former, plan.task.max_parallelism)

    def with_group(self, frame: DataFrame, *, by_key: bool) -> DataFrame:
        """Add to rows the key group in which the stream looks for them.

        Args:
            frame: The rows of a state, or of timers.
            by_key: Whether the rows belong to keys; otherwise they stay in their key group.
        """
        if not by_key:
            return frame.withColumn(KEY_GROUP, F.col("key_group").cast("int"))
        self._check_same(frame)
        cast = [self._cast(at).alias(f"__key_{at}") for at in range(len(self.names))]
        keyed = frame.select("*", *cast)
        names = [f"__key_{at}" for at in range(len(self.names))]
        found = keyed.withColumn(KEY_GROUP, key_group(names, self.max_parallelism))
        return found.drop(*names)

    def _cast(self, at: int) -> Column:
        return F.col(quoted(self.columns.names[at])).cast(self.types[at])

    def _check_same(self, frame: DataFrame) -> None:
        """Check that records of the stream bring the same keys."""
        for at, name in enumerate(self.columns.names):
            former = frame.schema[name].dataType
            if former == self.types[at]:
                continue
            column = F.col(quoted(name))
            back = column.try_cast(self.types[at]).try_cast(former)
            try:
                row = frame.where(~column.eqNullSafe(back)).select(column).first()
            except PySparkException:  # there is no cast between these types
                row = frame.select(column).first()
            if row is not None:
                msg = (
                    f"savepoint: its keys must be values of the key column {self.names[at]!r} of "
                    f"type {self.types[at].simpleString()}, got {shown(row[0])} of "
                    f"{former.simpleString()}; key the stream as the savepoint's state was keyed"
                )
                raise IncompatibleStateError(msg)


def _lower(names: Iterable[str]) -> list[str]:
    return [name.lower() for name in names]


def _sections(keys: _Keys, frames: Frames, name: str, frame: DataFrame) -> DataFrame:
    record = frames.record
    rows = StateRows.of(record, state_of(described(record, 0), name, "savepoint"), saved=True)
    # A savepoint holds one copy of broadcast state; every key group begins with its own.
    if rows.info.kind == "broadcast":
        everywhere = F.explode(F.sequence(F.lit(0), F.lit(keys.max_parallelism - 1)))
        placed = frame.withColumn(KEY_GROUP, everywhere.cast("int"))
    else:
        shared = rows.declaration.per_group
        if shared and keys.former_max_parallelism != keys.max_parallelism:
            msg = (
                f'savepoint: a store of scope "partition" stays in its key group, so '
                f"max_parallelism is {keys.former_max_parallelism}, got {keys.max_parallelism} "
                f"with the store {name!r}; pass the former, or leave the store out"
            )
            raise IncompatibleStateError(msg)
        placed = keys.with_group(frame, by_key=not shared)
    return _by_group(placed, _StateJob(rows))


Job = Callable[[Batches], Iterator[pa.RecordBatch]]


def _by_group(frame: DataFrame, job: Job) -> DataFrame:
    columns = [
        F.col(KEY_GROUP),
        *(F.col(quoted(each)) for each in frame.columns if each != KEY_GROUP),
    ]
    sorted_ = frame.select(*columns).repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP)
    return mapped(sorted_, job, _SECTIONS)


@attrs.frozen
class _StateJob:
    """Makes sections from the rows of a state, one key group after another."""

    rows: StateRows

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for index, table in _tables(batches):
            yield from _payloads(index, sections_of_rows(self.rows, table))


@attrs.frozen
class _TimersJob:
    """Makes sections from timers, one key group after another."""

    record: Any
    columns: KeyColumns

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for index, table in _tables(batches):
            yield from _payloads(index, sections_of_timers(self.record, table))


def _tables(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """Gather the rows of each key group, which come one group after another."""
    current: int | None = None
    parts: list[pa.RecordBatch] = []
    for batch in batches:
        groups = batch.column(0).to_pylist()
        start = 0
        for at in range(1, len(groups) + 1):
            if at < len(groups) and groups[at] == groups[start]:
                continue
            if groups[start] != current:
                if current is not None:
                    yield current, pa.Table.from_batches(parts).combine_chunks()
                current, parts = groups[start], []
            parts.append(batch.slice(start, at - start))
            start = at
    if current is not None:
        yield current, pa.Table.from_batches(parts).combine_chunks()


def _payloads(index: int, sections: Iterable[Section]) -> Iterator[pa.RecordBatch]:
    for section in sections:
        columns = [
            pa.array([index], pa.int32()),
            pa.array([section.declaration.to_json()], pa.binary()),
            pa.array([section.payload], pa.binary()),
        ]
        yield pa.RecordBatch.from_arrays(columns, [KEY_GROUP, "declaration", "payload"])


@attrs.frozen
class _SegmentsJob:
    """Makes segments from the sections of a key group, and calls the roll."""

    group_ids: tuple[int, ...]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        groups = []
        for index, sections in groupby(_sections_of(batches), itemgetter(0)):
            groups.append(index)
            # Segments stay small, for each is a row, of which the JVM holds several copies.
            for segment in snapshots((each for _, each in sections), SECTION_BYTES):
                yield _row(self.group_ids[index], segment.to_bytes())
        if groups:
            yield _row(ROLL_CALL, roll_payload(groups))


def _sections_of(batches: Batches) -> Iterator[tuple[int, Section]]:
    for batch in batches:
        for at, index in enumerate(batch.column(0).to_pylist()):
            declaration = Declaration.from_json(batch.column(1)[at].as_py())
            yield index, Section(declaration, batch.column(2)[at].as_py())


def _row(number: int, payload: bytes) -> pa.RecordBatch:
    columns = [pa.array([number], pa.int32()), pa.array([payload], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, [KEY_GROUP, "payload"])
