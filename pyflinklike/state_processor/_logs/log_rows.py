# SPDX-License-Identifier: Apache-2.0
"""Makes rows from a log: the writes of each micro-batch to a state, and the segments themselves.

A host's change feed lists the writes.  A commit writes segments, and last the head.  A commit that
compacts writes its own segments first, then removes all segments, then writes a snapshot.  Its own
segments have its changes; the snapshot repeats what was there before.

A query never reads the feed, so the feed may be damaged while the state is whole.  So each commit
must follow the one before, and the last one must lead to the head.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike._changelog.entry_codec import rows_in
from pyflinklike._changelog.log_storage import Head
from pyflinklike._changelog.segment_chain import sections_of
from pyflinklike._changelog.segments import Declaration, Segment, read_segment
from pyflinklike.errors import CorruptStateError, UnknownBatchError
from pyflinklike.state.table import CLEAR, DELETE
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.state_rows import GroupTables, StateRows

_LEFT_OUT = ("alive", "valid_to")
"""Columns of `read_state` that follow from other entries or a clock, so a single write lacks them."""


@attrs.define
class Commit:
    """The writes of a host's feed between two writes of a head.

    Args:
        segments: The segments that were written, in order.
        removed: Whether a segment was removed.
    """

    segments: list[bytes] = attrs.field(factory=list)
    removed: bool = False


@attrs.define
class GroupChanges:
    """Follows the commits of one key group.

    Args:
        declared: The tables that the log has declared before, by id.
        batch_id: The number of the micro-batch that is followed.
        nonce: The nonce of the last commit; empty if the group had no state.
        changes: The segments that the batch has written so far, with the tables that they name.
    """

    declared: dict[int, Declaration]
    batch_id: int
    nonce: bytes = b""
    changes: list[Segment] = attrs.field(factory=list)

    def take(self, commit: Commit, head: bytes, where: str) -> None:
        """Take in the next commit.

        Args:
            commit: The writes of the commit.
            head: The head that was written after them.
            where: The name of the key group and batch, for messages.

        Raises:
            CorruptStateError: A segment or the head is damaged, or does not follow.
            UnknownBatchError: The commit compacted, and the feed lacks its own changes.
        """
        segments = [read_segment(blob, where) for blob in commit.segments]
        noted = Head.from_bytes(head, where)
        # The first segment without a parent begins the snapshot.
        at = next((at for at, each in enumerate(segments) if not each.parent), len(segments))
        own, snapshot = segments[:at], segments[at:]
        is_compaction = bool(noted.snapshot_bytes) and bool(snapshot)
        if (is_compaction or commit.removed) and not own:
            msg = (
                f"{where}: the feed lacks the changes of this batch, which compacted its log; use "
                "diff_state() of the state before and after"
            )
            raise UnknownBatchError(msg)
        if not is_compaction:
            own = segments
        is_anew = is_compaction or commit.removed
        self._follow(own, where)
        if is_anew:
            self.nonce = b""
        if is_compaction:
            self._follow(snapshot, where)
        self.check(noted, where)
        for each in own:
            self.declared = {**self.declared, **each.declarations}
            self.changes.append(attrs.evolve(each, declarations=dict(self.declared)))
        if is_compaction:
            self.declared = {}
            for each in snapshot:
                self.declared |= each.declarations
        elif not noted.nonce:
            # The log was erased, so the next commit declares its tables itself.
            self.declared = {}

    def _follow(self, segments: Iterable[Segment], where: str) -> None:
        for each in segments:
            if each.parent != self.nonce:
                raise _unlike(f"{where}: a segment must follow the one before it, got another one")
            self.nonce = each.nonce

    def check(self, head: Head | None, where: str) -> None:
        """Check that the commits have led to a head.

        Args:
            head: The head of the state that they must have led to; None if the key group lacks it.
            where: The name of the key group, for messages.

        Raises:
            CorruptStateError: They lead to another state.
        """
        if head is None or self.nonce != head.nonce:
            raise _unlike(
                f"{where}: the writes of the feed must lead to the head, got another state"
            )


def _unlike(what: str) -> CorruptStateError:
    return CorruptStateError(f"{what}; use diff_state() of the state before and after")


@attrs.frozen
class StateChanges:
    """Makes rows from the changes of a state."""

    rows: StateRows

    @property
    def schema(self) -> pa.Schema:
        """The columns `batch_id`, `change_type`, and the columns of an entry in `read_state`."""
        fields = [each for each in self.rows.schema if each.name not in _LEFT_OUT]
        added = [pa.field("batch_id", pa.int64()), pa.field("change_type", pa.string())]
        return pa.schema([*added, *fields])

    def of_batch(
        self, changes: Iterable[Segment], batch_id: int, index: int, where: str
    ) -> Iterator[pa.Table]:
        """Return the rows of one key group and micro-batch; keys that were cleared come first.

        Args:
            changes: The segments, each with all tables that it names.
            batch_id: The number of the micro-batch.
            index: The index of the key group.
            where: The name of both, for messages.
        """
        tables, name = GroupTables.of(changes, where), self.rows.info.name
        if name not in tables:
            return
        table = tables.changes(self.rows.table)
        operations = table.column("operation")
        clears = table.filter(pc.equal(operations, CLEAR))
        if clears.num_rows:
            yield self._of_clears(clears, batch_id, index)
        written = table.filter(pc.not_equal(operations, CLEAR))
        is_delete = pc.equal(written.column("operation"), DELETE)
        kinds = pc.if_else(is_delete, "delete", "update")
        entries = written.drop_columns(["operation"])
        with tables.guard(f"state {name!r}"):
            shown = self.rows.of_entries(entries, index, BatchClock(0))
        yield self._with(shown, batch_id, kinds)

    def _of_clears(self, clears: pa.Table, batch_id: int, index: int) -> pa.Table:
        """Return rows with a key, and null in all other columns."""
        rows, known = clears.num_rows, {}
        if not self.rows.declaration.per_group:
            keys = self.rows.keys.show(clears.column("key").combine_chunks())
            known = dict(zip(self.rows.keys.names, keys))
        known["key_group"] = pa.repeat(pa.scalar(index, pa.int32()), rows)
        columns = [known.get(each.name, pa.nulls(rows, each.type)) for each in self.rows.schema]
        table = pa.table(columns, schema=self.rows.schema)
        return self._with(table, batch_id, pa.repeat(pa.scalar("clear"), rows))

    def _with(self, table: pa.Table, batch_id: int, kinds: pa.Array) -> pa.Table:
        batches = pa.repeat(pa.scalar(batch_id, pa.int64()), table.num_rows)
        names = self.schema.names[2:]
        return pa.table(
            [batches, kinds, *(table.column(name) for name in names)], schema=self.schema
        )


# The segments themselves; their entries are not decoded


SEGMENTS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("place", pa.int32()),
        pa.field("nonce", pa.string()),
        pa.field("parent", pa.string()),
        pa.field("is_snapshot", pa.bool_()),
        pa.field("bytes", pa.int64()),
        pa.field("entries", pa.map_(pa.string(), pa.int64())),
        pa.field("entry_bytes", pa.map_(pa.string(), pa.int64())),
    ]
)


class SegmentsReader:
    """Reads the sizes, nonces and kinds of segments."""

    schema = SEGMENTS

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:
        """Return the segments of one key group that count, oldest first."""
        declared: dict[int, Declaration] = {}
        rows = []
        for at, segment in enumerate(log):
            declared |= segment.declarations
            rows.append(_row(index, at, attrs.evolve(segment, declarations=declared), where))
        yield pa.Table.from_pylist(rows, SEGMENTS)


def _row(index: int, at: int, segment: Segment, where: str) -> dict[str, object]:
    """Describe a segment.

    Args:
        index: The index of the key group.
        at: The position of the segment in the log, from 0.
        segment: The segment, with the declarations of all segments up to it.
        where: The name of the key group, for messages.
    """
    entries: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for section in sections_of([segment], where):
        name = section.declaration.name
        entries[name] = entries.get(name, 0) + rows_in(section, where)
        sizes[name] = sizes.get(name, 0) + len(section.payload)
    return {
        "key_group": index,
        "place": at,
        "nonce": segment.nonce.hex(),
        "parent": segment.parent.hex() or None,
        "is_snapshot": not segment.parent,
        "bytes": sum(sizes.values()),
        "entries": list(entries.items()),
        "entry_bytes": list(sizes.items()),
    }
