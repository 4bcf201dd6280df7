# SPDX-License-Identifier: Apache-2.0
"""Reads the changes that micro-batches wrote to a state, from Spark's change feed of the log.

The feed has each write of a batch to the state store in order.  A job follows each key group from
head to head, so a missing or foreign segment is noticed by its nonce.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyflinklike._changelog.log_storage import HEAD_AT, Head
from pyflinklike._changelog.segments import Declaration, Segment
from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, SparkSetupError, UnknownBatchError
from pyflinklike.spark._wire.key_groups import index_of
from pyflinklike.state_processor._checkpoints.checkpoint import (
    CheckpointState,
    checkpoint_states,
    location_of,
    refuse_errors,
)
from pyflinklike.state_processor._checkpoints.group_job import (
    Batches,
    frame_of_groups,
    in_parts,
    map_frame,
    spark_schema,
)
from pyflinklike.state_processor._checkpoints.state_frames import Location, one_operator
from pyflinklike.state_processor._logs.log_rows import Commit, GroupChanges, StateChanges
from pyflinklike.state_processor._logs.state_infos import describe_states, state_of
from pyflinklike.state_processor._logs.state_rows import StateRows

_DELETE = "delete"
_DECLARED = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("id", pa.int32()),
        pa.field("declaration", pa.binary()),
    ]
)
Declared = Mapping[int, Mapping[int, Declaration]]


def read_state_changes(
    spark: SparkSession,
    checkpoint: Location,
    state: str,
    start_batch_id: int,
    end_batch_id: int | None = None,
    *,
    operator: int | str = 0,
) -> DataFrame:
    """Read the changes that each micro-batch of a range wrote to a state or store.

    The columns are `batch_id`, `change_type` and the columns of `read_state` except `alive` and
    `valid_to`.  `change_type` is "update", "delete" or "clear"; a clear removes all entries under
    a key, so only the key columns are set.  Several writes of an entry in one batch are one row.
    Entries that expire leave the log without a row.

    The cost follows the number of changes.  If the range does not begin with batch 0, the log
    before the range is read as well.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, which may be running.
        state: The name of the state or store.
        start_batch_id: The first micro-batch of the range.
        end_batch_id: The last micro-batch of the range; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.

    Raises:
        UnknownStateError: There is no such state or operator.
        UnknownBatchError: A batch of the range, or the batch before it, is not retained.
        CorruptStateError: The operator's record or heads are damaged.  If the changes do not lead
            from one state to the other, the message of Spark's error says so.
        SparkSetupError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    location, chosen = location_of(checkpoint, spark), one_operator(operator)
    if not is_int(start_batch_id):
        msg = f"start_batch_id takes the number of a batch, got {short_repr(start_batch_id)}; give an int"
        raise DeclarationTypeError(msg)
    (last,) = checkpoint_states(spark, location, chosen, end_batch_id)
    if not 0 <= start_batch_id <= last.batch_id:
        msg = f"{last.where}: changes are of the batches 0 to {last.batch_id}, got {start_batch_id}"
        raise UnknownBatchError(f"{msg}; give one of these")
    info = state_of(describe_states(last.record, last.operator_id), state, last.where)
    return changes_up_to(last, start_batch_id, StateChanges(StateRows.of(last.record, info)))


class BatchChanges(Protocol):
    """Makes rows from the changes of micro-batches; it is pickled for the workers."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""

    def of_batch(
        self, changes: Iterable[Segment], batch_id: int, index: int, where: str
    ) -> Iterator[pa.Table]:
        """Make the rows of one key group and micro-batch."""


def changes_up_to(last: CheckpointState, start_batch_id: int, changes: BatchChanges) -> DataFrame:
    """Make a DataFrame of the changes of micro-batches.

    Args:
        last: The operator after the last micro-batch.
        start_batch_id: The first micro-batch of the range.
        changes: Makes the rows of one key group and micro-batch.

    Raises:
        UnknownBatchError: The batch before the first one is not retained.
        SparkSetupError: Spark cannot read the checkpoint.
    """
    declared: Declared = {}
    before: Mapping[int, Head] = {}
    if start_batch_id:
        (state,) = checkpoint_states(
            last.spark, last.location, last.operator_id, start_batch_id - 1
        )
        declared, before = _read_declarations(state), state.heads
    job = _ChangesJob(changes, declared, before, last.heads, last.max_parallelism, last.where)
    return map_frame(last.changes(start_batch_id), job, spark_schema(changes.schema))


class _DeclaredReader:
    """Reads the declarations of tables from logs."""

    schema = _DECLARED

    def read(self, index: int, log: list[Segment], where: str) -> Iterator[pa.Table]:  # noqa: ARG002
        """Read the declarations of one key group, by the id of the table."""
        declared: dict[int, Declaration] = {}
        for segment in log:
            declared |= segment.declarations
        rows = [
            {"key_group": index, "id": at, "declaration": each.to_json()}
            for at, each in declared.items()
        ]
        yield pa.Table.from_pylist(rows, _DECLARED)


def _read_declarations(state: CheckpointState) -> Declared:
    found: dict[int, dict[int, Declaration]] = {}
    with refuse_errors(state.where):
        rows = frame_of_groups(state, _DeclaredReader()).toArrow().to_pylist()
    for row in rows:
        mine = found.setdefault(row["key_group"], {})
        mine[row["id"]] = Declaration.from_json(row["declaration"])
    return found


@attrs.frozen
class _ChangesJob:
    """Follows the key groups of one partition through batches, from head to head."""

    changes: BatchChanges
    declared: Declared
    before: Mapping[int, Head]
    after: Mapping[int, Head]
    max_parallelism: int
    where: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        groups: dict[int, GroupChanges] = {}
        commits: dict[int, Commit] = {}
        current = None
        for batch_id, kind, group_id, sequence, blob in _operations(batches):
            if batch_id != current:
                yield from self._flush(groups)
                if current is not None and batch_id < current:
                    msg = f"{self.where}: Spark must give the batches of its feed in order"
                    raise SparkSetupError(f"{msg}, got {batch_id} after {current}")
                current = batch_id
            # Grouping keys below 0 are partition watermarks and registries.  Sequence numbers below
            # the head's are no segments.
            if group_id < 0 or sequence < HEAD_AT:
                continue
            index = index_of(group_id, self.max_parallelism)
            group = groups.get(index)
            if group is None:
                group = groups[index] = self._begin(index)
            commit = commits.setdefault(index, Commit())
            # The head is written last, so it ends the commit of a key group.
            if kind == _DELETE:
                commit.removed = True
            elif sequence != HEAD_AT:
                commit.segments.append(blob)
            else:
                group.batch_id = batch_id
                group.take(commits.pop(index), blob, self._where(batch_id, index))
        yield from self._flush(groups)
        for index, group in groups.items():
            group.check(self.after.get(index), f"{self.where}, key group {index}")

    def _begin(self, index: int) -> GroupChanges:
        nonce = self.before[index].nonce if index in self.before else b""
        return GroupChanges(dict(self.declared.get(index, {})), 0, nonce)

    def _where(self, batch_id: int, index: int) -> str:
        return f"{self.where}, batch {batch_id}, key group {index}"

    def _flush(self, groups: dict[int, GroupChanges]) -> Iterator[pa.RecordBatch]:
        for index, group in groups.items():
            segments, group.changes = group.changes, []
            where = self._where(group.batch_id, index)
            rows = self.changes.of_batch(segments, group.batch_id, index, where)
            yield from in_parts(rows)


def _operations(batches: Batches) -> Iterator[tuple[int, str, int, int, Any]]:
    """Yield Spark's feed row by row: batch, kind of change, grouping key, sequence number, blob."""
    for batch in batches:
        ids, kinds, groups, sequences = (batch.column(at).to_pylist() for at in range(4))
        for at, row in enumerate(zip(ids, kinds, groups, sequences)):
            yield (*row, batch.column(4)[at].as_py())
