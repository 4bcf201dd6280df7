# SPDX-License-Identifier: Apache-2.0
"""A checkpoint after one micro-batch, as commands ask it: through Spark."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.cli.asking import Asked, Timers, order_of
from pyflinklike.cli.shapes import as_json, rows_of
from pyflinklike.errors import DeclarationValueError, HostError, StateValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.clock import BatchClock
from pyflinklike.replay.described import StateInfo, StateInfos, described
from pyflinklike.replay.differences import entry_columns
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.savepoints.manifest import folder_of
from pyflinklike.spark import diff_state, error_of, take_savepoint
from pyflinklike.spark.reading.checkpoint import CheckpointState, checkpoint_states
from pyflinklike.spark.reading.jobs import Batches, running
from pyflinklike.spark.reading.sources import operators_of
from pyflinklike.spark.reading.states import entries_of, has_clock, registered_of, sized

__all__ = ["CheckpointSource", "answered", "compared"]

T = TypeVar("T")


@attrs.frozen
class CheckpointSource:
    """A checkpoint after a micro-batch.

    Args:
        spark: Reads it.
        path: Of the checkpoint.
        operators: Those that were asked for.
        batches: The first and the last batch that can be asked for.
    """

    spark: SparkSession
    path: str
    operators: list[CheckpointState]
    batches: tuple[int, int]
    _clocks: list[BatchClock] = attrs.field(factory=list, init=False, repr=False)

    def clock(self) -> BatchClock:
        """The times of the batch, which Spark is asked for once."""
        if not self._clocks:
            self._clocks.append(answered(self.operators[0].clock))
        return self._clocks[0]

    @classmethod
    def opened(
        cls, spark: SparkSession, path: str, operator: int | str | None, batch_id: int | None
    ) -> CheckpointSource:
        """A checkpoint.

        Raises:
            HostError: Spark cannot read it, it has no operator of ours, or no batch yet.
            UnknownBatchError, UnknownStateError: There is no such batch, or operator.
            CorruptStateError: What an operator says of itself is damaged.
        """
        found = checkpoint_states(spark, path, operator, batch_id)
        if any(each.batch_id != found[0].batch_id for each in found):
            # A batch was committed meanwhile: all shall be of one.
            found = checkpoint_states(spark, path, operator, found[0].batch_id)
        numbers = {each.operator_id for each in found}
        rows = [
            row
            for row in operators_of(spark, path, f"checkpoint {path!r}")
            if row["operatorId"] in numbers
        ]
        batches = max(row["minBatchId"] for row in rows), min(row["maxBatchId"] for row in rows)
        return cls(spark, path, found, batches)

    @property
    def batch_id(self) -> int:
        """After which micro-batch."""
        return self.operators[0].batch_id

    @property
    def where(self) -> str:
        """What messages call it."""
        return f"checkpoint {self.path!r}, batch {self.batch_id}"

    def facts(self) -> str:
        """The batch, and which there are."""
        first, last = self.batches
        return f"checkpoint {self.path}, batch {self.batch_id} (there are {first} to {last})"

    def states(self, *, sizes: bool = False) -> StateInfos:
        """The states."""
        if not sizes:
            return StateInfos(
                info for each in self.operators for info in described(each.record, each.operator_id)
            )
        return StateInfos(
            info for each in self.operators for info in answered(functools.partial(sized, each))
        )

    def operator_of(self, info: StateInfo) -> CheckpointState:
        """The operator that has a state."""
        return next(each for each in self.operators if each.operator_id == info.operator_id)

    def frame(self, info: StateInfo, asked: Asked) -> DataFrame:
        """Entries of a state as a DataFrame.

        Raises:
            StateValueError: The key is none of the state's.
            DeclarationValueError: Spark does not understand the condition.
        """
        frame = entries_of(
            self.operator_of(info),
            info,
            self.clock() if has_clock(info) else None,
            keys=[asked.key] if asked.has_key else None,
            expired=asked.alive is not True,
        )
        if asked.alive is False:
            if info.ttl is None:
                msg = f"--expired shows entries past their TTL, got state {info.name!r} without one"
                raise StateValueError(f"{msg}; leave it away")
            frame = frame.where("not alive")
        if asked.where is None:
            return frame
        try:
            with _unlogged():
                filtered = frame.where(asked.where)
                filtered.schema  # noqa: B018 - Spark Connect looks at a condition only when asked
        except PySparkException as error:
            said = str(error).splitlines()[0]
            msg = f"--where takes a condition of Spark's SQL, got {asked.where!r}: {said}"
            raise DeclarationValueError(f"{msg}; its columns are {frame.columns}") from error
        return filtered

    def rows(self, info: StateInfo, asked: Asked) -> pa.Table:
        """Entries of a state, sorted."""
        frame = self.frame(info, asked)
        return self._first(frame, [name for name, _ in info.key_columns], asked.limit)

    def _first(self, frame: DataFrame, keys: list[str], limit: int | None) -> pa.Table:
        types = [(field.name, _arrow_kind(field)) for field in frame.schema.fields]
        frame = frame.orderBy(*order_of(types, keys)) if order_of(types, keys) else frame
        limited = frame if limit is None else frame.limit(limit)
        return answered(limited.toArrow)

    def timers(self, domain: str | None, before: int | None, limit: int | None) -> list[Timers]:
        """The timers of each operator."""
        return [self._timers(each, domain, before, limit) for each in self.operators]

    def _timers(
        self, operator: CheckpointState, domain: str | None, before: int | None, limit: int | None
    ) -> Timers:
        frame = registered_of(operator, self.clock())
        if domain is not None:
            frame = frame.where(F.col("domain") == domain)
        if before is not None:
            frame = frame.where(F.col("timestamp") < before)
        counted = frame.groupBy("domain").agg(
            F.count("*").alias("timers"),
            F.sum(F.col("due").cast("int")).alias("due"),
            F.min("timestamp").alias("first"),
            F.max("timestamp").alias("last"),
        )
        counts = answered(counted.orderBy("domain").toArrow).to_pylist()
        keys = KeyColumns.of(operator.record).names
        types = [(field.name, _arrow_kind(field)) for field in frame.schema.fields]
        ordered = frame.orderBy("timestamp", *order_of(types, keys))
        rows = answered((ordered if limit is None else ordered.limit(limit)).toArrow)
        return Timers(operator.record.identity.name, counts, rows)

    def records(self) -> list[OperatorRecord]:
        """Of its operators."""
        return [each.record for each in self.operators]

    def count_stamped(self, info: StateInfo, after: int, until: int) -> int:
        """Of a state with a TTL."""
        stamp = F.col("stamp")
        frame = entries_of(self.operator_of(info), info, self.clock())
        return answered(frame.where((stamp > after) & (stamp <= until)).count)

    def export(self, out: str, kind: str) -> None:
        """Write all, distributed."""
        if kind == "savepoint":
            one = self.operators[0].operator_id if len(self.operators) == 1 else None
            answered(
                lambda: take_savepoint(
                    self.spark, self.path, out, batch_id=self.batch_id, operator=one
                )
            )
            return
        for each in self.operators:
            uid = each.record.identity.name
            for info in described(each.record, each.operator_id):
                _write(self.frame(info, Asked()), f"{out}/{folder_of(uid, info.name)}", kind)
            _write(registered_of(each, self.clock()), f"{out}/{folder_of(uid, None)}", kind)


@contextmanager
def _unlogged() -> Iterator[None]:
    """Within it, PySpark does not print what it raises."""
    from pyspark.logger import PySparkLogger  # PySpark 3.5 has none

    loggers = [
        PySparkLogger.getLogger(f"{each}QueryContextLogger") for each in ("SQL", "DataFrame")
    ]
    for logger in loggers:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loggers:
            logger.disabled = False


def _write(frame: DataFrame, folder: str, kind: str) -> None:
    if kind == "parquet":
        answered(lambda: frame.write.parquet(folder))
        return
    lines = frame.mapInArrow(running(_lines), "value string")
    answered(lambda: lines.write.text(folder))


def _lines(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = rows_of(pa.Table.from_batches([batch]))
        lines = [json.dumps(as_json(row), ensure_ascii=False) for row in rows]
        yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], ["value"])


def _arrow_kind(field: Any) -> Any:
    """Whether Spark can sort by a column, in Arrow's words."""
    nested = field.dataType.typeName() in ("struct", "array", "map")
    return pa.list_(pa.null()) if nested else pa.null()


def answered(ask: Callable[[], T]) -> T:
    """What Spark answers.

    Raises:
        PyflinklikeError: What a task of ours found.
        HostError: Spark refused.
    """
    try:
        return ask()
    except Exception as error:
        ours = error_of(error)
        if ours is not None:
            raise ours from error
        if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j"):
            first = next(iter(str(error).splitlines()), repr(error))
            msg = f"Spark must be able to read the checkpoint, got {first[:500]}"
            raise HostError(f"{msg}; --traceback shows all") from error
        raise


def compared(
    before: DataFrame | None, after: DataFrame | None, keys: list[str], limit: int | None
) -> tuple[dict[str, int], pa.Table]:
    """What differs between two states: how many entries by change, and the first of them.

    Args:
        before: Entries; None for none.
        after: The same; one of both is there.
        keys: The key columns.
        limit: Of the entries; None for all.
    """
    one = before if before is not None else after
    assert one is not None
    nothing = one.limit(0)
    on = entry_columns(one.columns, keys)
    found = diff_state(
        nothing if before is None else before, nothing if after is None else after, on=on
    ).cache()
    try:
        counted = answered(found.groupBy("change").count().orderBy("change").toArrow).to_pylist()
        types = [(field.name, _arrow_kind(field)) for field in found.schema.fields]
        ordered = found.orderBy(*order_of(types, keys), "change")
        rows = answered((ordered if limit is None else ordered.limit(limit)).toArrow)
    finally:
        found.unpersist()
    return {row["change"]: row["count"] for row in counted}, rows
