# SPDX-License-Identifier: Apache-2.0
"""Checks a checkpoint: the record, the registry, and each head, segment, key and timer.

A finding ends the check of its part only, so that one run names all damage.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._changelog.log_storage import WATERMARK_AT
from pyflinklike._changelog.operator_record import KeyGroupRegistry, OperatorRecord
from pyflinklike.errors import (
    CorruptStateError,
    IncompatibleStateError,
    PyflinklikeError,
    SparkSetupError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.spark._host.spark_failures import error_of
from pyflinklike.spark._host.wake_up import find_wanted_call
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._plan.session import prepare_workers
from pyflinklike.spark._wire.key_groups import REGISTRY_KEY, index_of, key_group
from pyflinklike.spark._wire.system_columns import KEY_GROUP
from pyflinklike.state_processor._checkpoints.checkpoint import (
    OperatorAt,
    is_ours,
    operators_of,
    refuse_errors,
)
from pyflinklike.state_processor._checkpoints.group_job import (
    GroupsJob,
    map_frame,
    spark_schema,
)
from pyflinklike.state_processor._logs.checkpoint_logs import (
    Checked,
    Finding,
    GroupChecker,
    StoredKeys,
    check_groups,
    record_and_registry,
)
from pyflinklike.state_processor._logs.key_columns import KeyColumns


def check_checkpoint(
    spark: SparkSession,
    location: str,
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    all_batches: bool = False,
) -> tuple[list[Finding], Checked]:
    """Find the damage in a checkpoint, and count the parts that were checked.

    Args:
        spark: Any session that reaches the checkpoint.
        location: The path of the checkpoint.
        batch_id: The micro-batch to check; None checks the last committed one.
        operator: Spark's number of an operator, or its uid; None checks all that `process` made.
        all_batches: Whether to check every batch that Spark retains.

    Raises:
        SparkSetupError: This is not a checkpoint of a query that `process` made, or no batch is
            committed.
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
    """
    where = f"checkpoint {location!r}"
    rows = [row for row in operators_of(spark, location, where) if is_ours(row)]
    if isinstance(operator, int):
        rows = [row for row in rows if row["operatorId"] == operator]
    if not rows or min(row["maxBatchId"] for row in rows) < 0:
        msg = f"{where}: must be of a query that process() made and that has committed a batch"
        raise SparkSetupError(f"{msg}, got no such query; give another checkpointLocation")
    found: list[Finding] = []
    checked = Checked()
    for row in rows:
        for batch in _batches(row, batch_id, where, all_batches=all_batches):
            at = OperatorAt(spark, location, row["operatorId"], batch)
            more, looked_at = OperatorCheck(at, operator).run()
            found += more
            checked += looked_at
    if not checked.batches:
        msg = f"{where}: operator must be one that process() made, got {operator!r}"
        raise UnknownStateError(f"{msg}; list_states() lists them")
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


_FINDINGS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        pa.field("part", pa.string()),
        pa.field("message", pa.string()),
        pa.field("segments", pa.int64()),
        pa.field("entries", pa.int64()),
        pa.field("has_head", pa.bool_()),
        pa.field("wake_at", pa.int64()),
    ]
)
_Found = tuple[list[Finding], Checked]


@attrs.frozen
class OperatorCheck:
    """Checks an operator after a batch.

    Args:
        at: The operator and the batch.
        wanted: The operator to check, as a number or a uid; None checks all.
    """

    at: OperatorAt
    wanted: int | str | None

    @property
    def where(self) -> str:
        """The operator's name in messages."""
        return self.at.where

    def run(self) -> _Found:
        """Find the damage, and count the parts that were checked; skip an operator if not wanted."""
        try:
            blobs = self.at.blobs()
            record, registry = record_and_registry(self._read_registries(blobs), self.where)
            if isinstance(self.wanted, str) and record.identity.name != self.wanted:
                return [], Checked()
            return self._run(blobs, record, registry)
        except CorruptStateError as error:
            return [Finding("record", str(error))], Checked(batches=1)
        except SparkSetupError as error:  # Spark itself finds its files damaged
            return [Finding("batch", str(error))], Checked(batches=1)

    def _run(self, blobs: DataFrame, record: OperatorRecord, registry: KeyGroupRegistry) -> _Found:
        prepare_workers(self.at.spark)
        mode, clock = TimeMode(record.time_mode), self.at.clock()
        wanted = None
        if not self._has_reassigned_watermarks(blobs):
            wanted = functools.partial(find_wanted_call, mode, clock)
        checker = GroupChecker(record, dict(registry.served_at), wanted)
        parallelism = record.identity.max_parallelism
        job = GroupsJob(functools.partial(_check_group, checker), parallelism, self.where)
        table = self._answer(
            map_frame(blobs.where(f"{KEY_GROUP} >= 0"), job, spark_schema(_FINDINGS)).toArrow
        ).to_pylist()
        marks = [row for row in table if not row["part"]]
        found = [Finding(row["part"], row["message"]) for row in table if row["part"]]
        found += self._groups([row["key_group"] for row in marks], registry)
        unread = self._unread_keys(record)
        if unread is None:
            found += self._find_misplaced(blobs, record)
        if mode is not TimeMode.NONE:
            asked = {row["key_group"]: row["wake_at"] for row in marks if row["has_head"]}
            found += self._find_unregistered(asked, parallelism)
        checked = Checked(
            len(marks),
            sum(row["segments"] for row in marks),
            sum(row["entries"] for row in marks),
            batches=1,
            left_out=() if unread is None else (unread,),
        )
        return found, checked

    def _has_reassigned_watermarks(self, blobs: DataFrame) -> bool:
        """Return whether there are partition watermarks, by which tasks call key groups themselves."""
        marks = blobs.where(f"{KEY_GROUP} < {REGISTRY_KEY} and sequence < {WATERMARK_AT}")
        return bool(self._answer(marks.limit(1).toArrow).num_rows)

    def _read_registries(self, blobs: DataFrame) -> dict[int, bytes]:
        rows = self._answer(blobs.where(f"{KEY_GROUP} = {REGISTRY_KEY}").toArrow).to_pylist()
        return {row["sequence"]: row["blob"] for row in rows}

    def _groups(self, groups: list[int], registry: KeyGroupRegistry) -> Iterator[Finding]:
        for each, times in Counter(groups).items():
            if times > 1:
                msg = f"{self.where}: a key group must be stored once, got group {each} twice"
                yield Finding("registry", msg)
        try:
            check_groups(registry, set(groups), self.where)
        except CorruptStateError as error:
            yield Finding("registry", str(error))

    def _unread_keys(self, record: OperatorRecord) -> str | None:
        """Return the reason why keys cannot be compared with their key groups, or None."""
        try:
            _ = StoredKeys(record).schema
        except IncompatibleStateError as error:
            return f"{self.where}: whether keys are in their key groups ({error})"
        return None

    def _find_misplaced(self, blobs: DataFrame, record: OperatorRecord) -> Iterator[Finding]:
        """Find keys in another key group than the one that they hash to; the stream misses them."""
        keys = StoredKeys(record)
        job = GroupsJob(keys.read, record.identity.max_parallelism, self.where)
        schema = spark_schema(keys.schema)
        names = KeyColumns.of(record).names if record.identity.key_columns else ()
        right = key_group(names, record.identity.max_parallelism)
        rows = map_frame(blobs.where(f"{KEY_GROUP} >= 0"), job, schema)
        wrong = rows.where(F.col("key_group") != right).groupBy("state", "key_group")
        counted = self._answer(wrong.agg(F.count("*").alias("keys")).toArrow).to_pylist()
        for row in sorted(counted, key=lambda row: (row["state"], row["key_group"])):
            msg = (
                f"{self.where}, key group {row['key_group']}, {row['state']}: keys must be in the "
                f"key group that they hash to, got {row['keys']} of others"
            )
            yield Finding("keys", msg)

    def _find_unregistered(
        self, wanted: dict[int, int | None], parallelism: int
    ) -> Iterator[Finding]:
        """Compare the calls that the heads of key groups ask for with Spark's own timers."""
        timers = self.at.registered_timers()
        registered: dict[int, list[int]] = {index: [] for index in wanted}
        for row in self._answer(timers.where(f"{KEY_GROUP} >= 0").toArrow).to_pylist():
            registered.get(index_of(row[KEY_GROUP], parallelism), []).append(row["time"])
        for index, times in sorted(registered.items()):
            asked = wanted[index]
            if times != ([] if asked is None else [asked]):
                msg = (
                    f"{self.where}, key group {index}: Spark must have the timer that the head asks "
                    f"for, {asked}, and no other, got {times}"
                )
                yield Finding("timers", msg)

    def _answer(self, ask: Callable[[], pa.Table]) -> pa.Table:
        try:
            with refuse_errors(self.where):
                return ask()
        except SparkSetupError as error:
            ours = error_of(error.__cause__ or error)
            if isinstance(ours, PyflinklikeError):
                raise ours from error
            raise


def _check_group(
    checker: GroupChecker, index: int, blobs: Mapping[int, bytes], where: str
) -> Iterator[pa.RecordBatch]:
    """Check a key group; yield a row for each finding, and one without a part for the group."""
    found, checked, head = checker.check(index, blobs, where)
    rows: list[dict[str, Any]] = [
        {"key_group": index, "part": each.part, "message": each.message} for each in found
    ]
    counts = {"segments": checked.segments, "entries": checked.entries}
    asked = {} if head is None else {"has_head": True, "wake_at": head.wake_at}
    rows.append({"key_group": index, **counts, **asked})
    yield from pa.Table.from_pylist(rows, _FINDINGS).to_batches()
