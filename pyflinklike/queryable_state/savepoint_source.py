# SPDX-License-Identifier: Apache-2.0
"""Makes a savepoint the only image of a replica.

The rows of keys in a savepoint do not say a key group, since Spark's hash decides it.  So here all
keys are in key group 0, and a read needs no Spark to hash its key.  State that belongs to a key
group stays divided as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.key_group_state import KeyGroupState
from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike._changelog.segment_chain import divide
from pyflinklike._changelog.segments import SEGMENT_BYTES, Section
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import StateValueError
from pyflinklike.queryable_state.image import GroupLog, Image, Position, Route
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.state_rows import StateRows
from pyflinklike.state_processor._savepoints.savepoint_directory import SavepointDirectory
from pyflinklike.state_processor._savepoints.stored_sections import (
    sections_of_rows,
    sections_of_timers,
)
from pyflinklike.types import TypeInformation
from pyflinklike.types.catalog import type_of


@attrs.frozen
class SavepointSource:
    """Reads an operator of a savepoint.

    Args:
        directory: The open savepoint.
        operator: The uid of the operator; None if the savepoint has one operator.
        states: Names of the states to read; None reads all of them, and the timers.
    """

    directory: SavepointDirectory
    operator: str | None
    states: frozenset[str] | None

    def latest(self) -> Image:
        """Read the image of the operator.

        Raises:
            UnknownStateError: The savepoint has no such operator.
            StateValueError, IncompatibleStateError: A value or key does not fit its type.
        """
        location, manifest = self.directory.location, self.directory.manifest
        operator = manifest.operator(self.operator, location.where)
        record = operator.record
        sections: dict[int, list[Section]] = {0: []}
        for name in operator.states:
            if self.states is None or name in self.states:
                rows = self.directory.rows_of(operator, name)
                saved = self.directory.dataset(name, operator.uid).to_table()
                for index, each in _sections(rows, saved):
                    sections.setdefault(index, []).append(each)
        if self.states is None:
            saved = self.directory.timers(operator.uid).to_table()
            sections[0] += sections_of_timers(record, saved)
        groups = {index: _log(record, some) for index, some in sections.items()}
        watermark = MIN_WATERMARK if manifest.watermark is None else manifest.watermark
        position = Position(
            -1 if manifest.batch_id is None else manifest.batch_id,
            None if watermark in (MIN_WATERMARK, MAX_WATERMARK) else watermark,
            manifest.taken_at,
        )
        # At time 0 and the lowest watermark no TTL has passed: nothing is hidden by mistake.
        clock = BatchClock(manifest.processing_time or 0, watermark)
        return Image(position, record, clock, groups, {}, location.where)

    def after(self, image: Image) -> None:
        """Return None: a savepoint has no later image."""

    def key_type(self, record: OperatorRecord) -> TypeInformation:
        """Return the type of the operator's keys; instants in keys are aware datetimes here."""
        return type_of(record.identity.key)

    def route(self, record: OperatorRecord) -> Route:
        """Return a function that places every key in key group 0."""
        key_type = self.key_type(record)

        def route(key: Any) -> tuple[Any, int]:
            if key is None:
                msg = "a key must not be None, got None; give a value of the key columns"
                raise StateValueError(msg)
            return key_type.freeze_key(key), 0

        return route


def _sections(rows: StateRows, saved: pa.Table) -> Iterator[tuple[int, Section]]:
    """Yield the sections of a state, each with its key group."""
    if not rows.declaration.per_group or rows.info.kind == "broadcast":
        yield from ((0, each) for each in sections_of_rows(rows, saved))
        return
    indexes = saved.column("key_group").fill_null(0)
    for index in pc.unique(indexes).to_pylist():
        mine = saved.filter(pc.equal(indexes, index))
        yield from ((index, each) for each in sections_of_rows(rows, mine))


def _log(record: OperatorRecord, sections: Iterable[Section]) -> GroupLog:
    segments = list(divide(sections, KeyGroupState(0), b"", SEGMENT_BYTES))
    blobs = {sequence: each.to_bytes() for sequence, each in enumerate(segments)}
    size = sum(map(len, blobs.values()))
    head = Head(
        segments[-1].nonce,  # `divide` gives at least one segment
        next_sequence=len(segments),
        first_sequence=0,
        log_bytes=size,
        log_entries=0,
        snapshot_bytes=size,
        snapshot_entries=0,
        max_parallelism=record.identity.max_parallelism,
        identity=record.identity.text,
    )
    return GroupLog(head, blobs)
