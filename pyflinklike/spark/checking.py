# SPDX-License-Identifier: Apache-2.0
"""Verifies a checkpoint: everything that is stored, against all that says something of it."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.errors import (
    CorruptStateError,
    HostError,
    PyflinklikeError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.log.checkpoint_logs import check_groups, record_and_roll
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.log.roll import Roll
from pyflinklike.replay.checking import Checked, Finding, GroupChecker
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.described import described
from pyflinklike.replay.group import StateReader, TimersReader
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.rows import StateRows
from pyflinklike.spark.failures import error_of
from pyflinklike.spark.hosts.log_storage import HEAD_AT
from pyflinklike.spark.reading.checkpoint import CheckpointState
from pyflinklike.spark.reading.jobs import (
    Batches,
    blobs_by_group,
    frame_of_groups,
    running,
    spark_schema,
)
from pyflinklike.spark.reading.sources import is_ours, operators_of, refusing, stored
from pyflinklike.spark.setup.shipping import put_wheels_on_path
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.key_hash import key_group
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.roll_call import ROLL_CALL

__all__ = ["check_checkpoint"]

_FINDINGS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("part", pa.string()),
        pa.field("message", pa.string()),
        pa.field("segments", pa.int64()),
        pa.field("entries", pa.int64()),
    ]
)
_FOUND = tuple[list[Finding], Checked]


def check_checkpoint(
    spark: SparkSession,
    location: str,
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    all_batches: bool = False,
) -> _FOUND:
    """What is wrong with a checkpoint, and how much was looked at.

    Args:
        spark: Any session that reaches the checkpoint.
        location: Of the checkpoint.
        batch_id: After which micro-batch; None for the last that was committed.
        operator: Spark's number of an operator, or its uid; None for all that `process` made.
        all_batches: Whether every batch that Spark retains is checked.

    Raises:
        HostError: This is no checkpoint of a query that `process` made, or no batch is committed.
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
    """
    where = f"checkpoint {location!r}"
    rows = [row for row in operators_of(spark, location, where) if is_ours(row)]
    if isinstance(operator, int):
        rows = [row for row in rows if row["operatorId"] == operator]
    if not rows or min(row["maxBatchId"] for row in rows) < 0:
        msg = f"{where}: what is checked is the state of a query that process() made"
        raise HostError(f"{msg}, got none, or none whose first batch is committed; give another")
    found: list[Finding] = []
    checked = Checked()
    for row in rows:
        for batch in _batches(row, batch_id, where, all_batches=all_batches):
            one = _Operator(spark, location, row["operatorId"], batch, operator)
            more, looked_at = one.check()
            found += more
            checked += looked_at
    if not checked.batches:
        msg = f"{where}: operator must be one that process() made, got {operator!r}"
        raise UnknownStateError(f"{msg}; list_states() tells which there are")
    return found, checked


def _batches(row: Any, batch_id: int | None, where: str, *, all_batches: bool) -> range:
    first, last = row["minBatchId"], row["maxBatchId"]
    if all_batches:
        return range(first, last + 1)
    if batch_id is None:
        return range(last, last + 1)
    if not first <= batch_id <= last:
        msg = f"{where}: its batches are {first} to {last}, got {batch_id}; give one of these"
        raise UnknownBatchError(msg)
    return range(batch_id, batch_id + 1)


@attrs.frozen
class _Operator:
    """An operator after a batch."""

    spark: SparkSession
    location: str
    number: int
    batch_id: int
    wanted: int | str | None

    @property
    def where(self) -> str:
        return f"checkpoint {self.location!r}, operator {self.number}, batch {self.batch_id}"

    def check(self) -> _FOUND:
        """What is wrong with it; nothing if it is not the one that is wanted."""
        try:
            blobs = stored(self.spark, self.location, self.number, self.batch_id, self.where)
            record, roll = record_and_roll(self._called(blobs), self.where)
            if isinstance(self.wanted, str) and record.identity.name != self.wanted:
                return [], Checked()
            found, checked, groups = self._groups(blobs, record, roll)
        except CorruptStateError as error:
            return [Finding("record", str(error))], Checked(batches=1)
        except HostError as error:  # Spark itself finds its files damaged
            return [Finding("batch", str(error))], Checked(batches=1)
        try:
            check_groups(roll, groups, self.where)
        except CorruptStateError as error:
            found.append(Finding("roll", str(error)))
        if not found:
            found += self._misplaced(record, roll)
        return found, checked

    def _called(self, blobs: DataFrame) -> dict[int, bytes]:
        rows = self._answer(blobs.where(f"{KEY_GROUP} = {ROLL_CALL}").toArrow).to_pylist()
        return {row["sequence"]: row["blob"] for row in rows}

    def _groups(
        self, blobs: DataFrame, record: OperatorRecord, roll: Roll
    ) -> tuple[list[Finding], Checked, list[int]]:
        put_wheels_on_path(self.spark)
        parallelism = record.identity.max_parallelism
        job = _CheckJob(GroupChecker(record, dict(roll.served_at)), parallelism, self.where)
        rows = blobs.where(f"{KEY_GROUP} >= 0").mapInArrow(running(job), spark_schema(_FINDINGS))
        table = self._answer(rows.toArrow).to_pylist()
        found = [Finding(row["part"], row["message"]) for row in table if row["part"]]
        marks = [row for row in table if not row["part"]]
        groups = Counter(row["key_group"] for row in marks)
        found += [
            Finding(
                "roll", f"{self.where}: a key group must be stored once, got group {each} twice"
            )
            for each, times in groups.items()
            if times > 1
        ]
        checked = Checked(
            len(marks),
            sum(row["segments"] for row in marks),
            sum(row["entries"] for row in marks),
            batches=1,
        )
        return found, checked, list(groups)

    def _misplaced(self, record: OperatorRecord, roll: Roll) -> Iterator[Finding]:
        """Keys in another group than the one that the stream looks for them in."""
        if any("collate" in kind for _, kind in record.identity.key_columns):
            return  # such texts are hashed by their collation, which is not read
        state = CheckpointState(
            self.spark, self.location, self.number, self.batch_id, record, roll, {}
        )
        readers: dict[str, Any] = {
            f"state {info.name!r}": StateReader(StateRows.of(record, info), BatchClock(0))
            for info in described(record, self.number)
            if info.key_columns
        }
        readers["timers"] = TimersReader(record, BatchClock(0))
        names = KeyColumns.of(record).names if record.identity.key_columns else ()
        right = key_group(names, state.max_parallelism)
        wrong = functools.reduce(
            DataFrame.union,
            [
                frame_of_groups(state, reader)
                .select(F.lit(what).alias("what"), "key_group", right.alias("right"))
                .where("key_group != right")
                for what, reader in readers.items()
            ],
        )
        counted = wrong.groupBy("what", "key_group").agg(F.count("*").alias("rows"))
        for row in self._answer(counted.toArrow).to_pylist():
            msg = (
                f"{self.where}, {row['what']}: keys must be in the key group they hash to, got "
                f"{row['rows']} entries of others in group {row['key_group']}"
            )
            yield Finding("keys", msg)

    def _answer(self, ask: Callable[[], pa.Table]) -> pa.Table:
        try:
            with refusing(self.where):
                return ask()
        except HostError as error:
            ours = error_of(error.__cause__ or error)
            if isinstance(ours, PyflinklikeError):
                raise ours from error
            raise


@attrs.frozen
class _CheckJob:
    """Checks the key groups of one partition; gives a row without a part for each group."""

    checker: GroupChecker
    max_parallelism: int
    where: str

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for group_id, blobs in blobs_by_group(batches):
            index = index_of(group_id, self.max_parallelism)
            where = f"{self.where}, key group {index}"
            segments = {at: blob for at, blob in blobs.items() if at >= 0}
            found, checked = self.checker.check(index, blobs.get(HEAD_AT), segments, where)
            rows = [
                {"key_group": index, "part": each.part, "message": each.message} for each in found
            ]
            rows.append(
                {"key_group": index, "segments": checked.segments, "entries": checked.entries}
            )
            yield from pa.Table.from_pylist(rows, _FINDINGS).to_batches()
