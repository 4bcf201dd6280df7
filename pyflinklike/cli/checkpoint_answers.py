# SPDX-License-Identifier: Apache-2.0
"""Answers questions about a checkpoint after one micro-batch, with Spark.

Every call that makes Spark work goes through `_ask`, so that a command fails with our errors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike._changelog.operator_record import OperatorRecord
from pyflinklike.cli.answers import EntryChoice, TimerCounts, order_of
from pyflinklike.cli.cells import cells_of, lines_of
from pyflinklike.errors import DeclarationValueError, SparkSetupError, StateValueError
from pyflinklike.spark import error_of
from pyflinklike.spark._wire.system_columns import quote
from pyflinklike.state_processor import diff_state, take_savepoint
from pyflinklike.state_processor._checkpoints.checkpoint import (
    CheckpointState,
    checkpoint_states,
    operators_of,
    query_id_of,
)
from pyflinklike.state_processor._checkpoints.group_job import Batches, frame_of_groups, map_frame
from pyflinklike.state_processor._checkpoints.state_frames import (
    entries_of,
    list_sized_states,
    timers_of,
)
from pyflinklike.state_processor._logs.column_values import BatchClock
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._logs.state_differences import entry_columns
from pyflinklike.state_processor._logs.state_infos import StateInfo, StateInfos, describe_states
from pyflinklike.state_processor._logs.state_summaries import SummaryReader
from pyflinklike.state_processor._savepoints.manifest import folder_of

T = TypeVar("T")


@attrs.frozen
class CheckpointAnswers:
    """The answers about a checkpoint after a micro-batch.

    Args:
        spark: The session that reads the checkpoint.
        path: The path of the checkpoint.
        operators: The chosen operators, all of one micro-batch.
        batches: The first and the last batch whose state Spark still keeps.
    """

    spark: SparkSession
    path: str
    operators: list[CheckpointState]
    batches: tuple[int, int]
    _clocks: list[BatchClock] = attrs.field(factory=list, init=False, repr=False)

    @classmethod
    def open(
        cls, spark: SparkSession, path: str, operator: int | str | None, batch_id: int | None
    ) -> CheckpointAnswers:
        """Open a checkpoint.

        Raises:
            SparkSetupError: Spark cannot read the checkpoint, or it has no operator of ours, or no
                batch yet.
            UnknownBatchError, UnknownStateError: There is no such batch, or no such operator.
            CorruptStateError: An operator record is damaged.
        """
        found = checkpoint_states(spark, path, operator, batch_id)
        if any(each.batch_id != found[0].batch_id for each in found):
            # A batch was committed while Spark read, but all answers must be of one batch.
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
        """The micro-batch of all answers."""
        return self.operators[0].batch_id

    @property
    def where(self) -> str:
        """The name of the checkpoint in messages."""
        return f"checkpoint {self.path!r}, batch {self.batch_id}"

    def facts(self) -> str:
        """Describe the batch, the range of batches, the query, and the version of the writer."""
        first, last = self.batches
        query = _ask(functools.partial(query_id_of, self.spark, self.path))
        libraries = ", ".join(sorted({each.record.library for each in self.operators}))
        batches = f"batch {self.batch_id} (there are {first} to {last})"
        written = f"of query {query}, written by pyflinklike {libraries}"
        return f"checkpoint {self.path}, {batches}, {written}"

    def states(self, *, sizes: bool = False) -> StateInfos:
        """Return the states of the chosen operators."""
        if not sizes:
            return StateInfos(
                info
                for each in self.operators
                for info in describe_states(each.record, each.operator_id)
            )
        return StateInfos(
            info
            for each in self.operators
            for info in _ask(functools.partial(list_sized_states, each))
        )

    def count_keys(self) -> dict[str, int]:
        """Count the keys with entries, by the uid of the operator; this reads the whole log."""
        counts = {}
        for each in self.operators:
            frame = frame_of_groups(each, SummaryReader(each.record, self.clock(), 1))
            some = _ask(frame.where("what = 'keys'").select("entries").toArrow)
            counts[each.record.identity.name] = pc.sum(some.column("entries")).as_py() or 0
        return counts

    def count_timers(self) -> dict[str, dict[str, int]]:
        """Count the registered timers, by the uid of the operator and then by domain."""
        return {
            some.uid: {each["domain"]: each["timers"] for each in some.counts}
            for some in self.timers(None, None, 0)
        }

    def operator_of(self, info: StateInfo) -> CheckpointState:
        """Return the operator that has a state."""
        return next(each for each in self.operators if each.operator_id == info.operator_id)

    def frame(self, info: StateInfo, choice: EntryChoice) -> DataFrame:
        """Return the chosen entries of a state as a DataFrame.

        Raises:
            StateValueError: The key does not fit, or expired entries are chosen of a state without
                a TTL.
            DeclarationValueError: Spark does not understand the condition.
        """
        frame = entries_of(
            self.operator_of(info),
            info,
            None,
            keys=[choice.key] if choice.has_key else None,
            expired=choice.alive is not True,
        )
        if choice.alive is False:
            if info.ttl is None:
                msg = f"--expired shows entries past their TTL, got state {info.name!r} without one"
                raise StateValueError(f"{msg}; leave it out")
            frame = frame.where("not alive")
        if choice.where is None:
            return frame
        try:
            with _silence_pyspark():
                filtered = frame.where(choice.where)
                filtered.schema  # noqa: B018 - Spark Connect looks at a condition only when asked
        except PySparkException as error:
            said = str(error).splitlines()[0]
            msg = f"--where takes a condition of Spark's SQL, got {choice.where!r}: {said}"
            raise DeclarationValueError(f"{msg}; its columns are {frame.columns}") from error
        return filtered

    def rows(self, info: StateInfo, choice: EntryChoice) -> pa.Table:
        """Return the chosen entries of a state, sorted."""
        keys = [name for name, _ in info.key_columns]
        return _first_rows(self.frame(info, choice), [], keys, choice.limit)

    def entries(self, info: StateInfo) -> DataFrame:
        """Return all entries of a state."""
        return self.frame(info, EntryChoice())

    def compare(
        self, before: DataFrame | None, after: DataFrame | None, keys: list[str], limit: int | None
    ) -> tuple[dict[str, int], pa.Table]:
        """Compare entries: return the number of differences by change, and the first of them."""
        one = before if before is not None else after
        assert one is not None
        nothing = one.limit(0)
        on = entry_columns(one.columns, keys)
        # Cached, since both the count and the rows read it.
        found = diff_state(
            nothing if before is None else before, nothing if after is None else after, on=on
        ).cache()
        try:
            counted = _ask(found.groupBy("change").count().orderBy("change").toArrow).to_pylist()
            rows = _first_rows(found, [], keys, limit)
        finally:
            found.unpersist()
        return {row["change"]: row["count"] for row in counted}, rows

    def timer_entries(self, uid: str | None) -> tuple[DataFrame | None, list[str]]:
        """Return the timers of an operator, and its key columns."""
        for each in self.operators:
            if each.record.identity.name == uid:
                return timers_of(each, self.clock()), list(KeyColumns.of(each.record).names)
        return None, []

    def timers(
        self, domain: str | None, before: int | None, limit: int | None
    ) -> list[TimerCounts]:
        """Return the timers of each operator."""
        return [self._timers(each, domain, before, limit) for each in self.operators]

    def _timers(
        self, operator: CheckpointState, domain: str | None, before: int | None, limit: int | None
    ) -> TimerCounts:
        frame = timers_of(operator, self.clock())
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
        counts = _ask(counted.orderBy("domain").toArrow).to_pylist()
        keys = KeyColumns.of(operator.record).names
        rows = _first_rows(frame, ["timestamp"], list(keys), limit)
        return TimerCounts(operator.record.identity.name, counts, rows)

    def records(self) -> list[OperatorRecord]:
        """Return the operator records of the chosen operators."""
        return [each.record for each in self.operators]

    def clock(self) -> BatchClock:
        """Return the times of the batch; Spark is asked once for them."""
        if not self._clocks:
            self._clocks.append(_ask(self.operators[0].clock))
        return self._clocks[0]

    def count_stamped(self, info: StateInfo, after: int, until: int) -> int:
        """Count the entries of a state with a TTL by their stamps, in ms."""
        stamp = F.col("stamp")
        frame = entries_of(self.operator_of(info), info, self.clock())
        return _ask(frame.where((stamp > after) & (stamp <= until)).count)

    def export(self, out: str, kind: str) -> None:
        """Write all states and timers, in Spark's tasks."""
        # One operator may be chosen out of several; a savepoint of all needs no choice.
        if kind == "savepoint":
            one = self.operators[0].operator_id if len(self.operators) == 1 else None
            _ask(
                lambda: take_savepoint(
                    self.spark, self.path, out, batch_id=self.batch_id, operator=one
                )
            )
            return
        for each in self.operators:
            uid = each.record.identity.name
            for info in describe_states(each.record, each.operator_id):
                _write_frame(
                    self.frame(info, EntryChoice()), f"{out}/{folder_of(uid, info.name)}", kind
                )
            _write_frame(timers_of(each, self.clock()), f"{out}/{folder_of(uid, None)}", kind)


@contextmanager
def _silence_pyspark() -> Iterator[None]:
    """Keep PySpark from printing the errors that it raises within the context."""
    # PySpark 3.5 lacks this module, but it reads no state, either.
    from pyspark.logger import PySparkLogger

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


def _first_rows(frame: DataFrame, first: list[str], keys: list[str], limit: int | None) -> pa.Table:
    """Return the first rows, sorted.

    Args:
        frame: The rows to sort.
        first: The columns to sort by before all others.
        keys: The names of the key columns.
        limit: The most rows to return; None returns all.
    """
    types = [(field.name, _arrow_kind(field)) for field in frame.schema.fields]
    order = [*first, *(quote(each) for each in order_of(types, keys) if each not in first)]
    ordered = frame.orderBy(*order) if order else frame
    return _ask((ordered if limit is None else ordered.limit(limit)).toArrow)


def _arrow_kind(field: Any) -> Any:
    """Return an Arrow type that is nested if the column is: `order_of` looks at nothing else."""
    nested = field.dataType.typeName() in ("struct", "array", "map")
    return pa.list_(pa.null()) if nested else pa.null()


def _ask(ask: Callable[[], T]) -> T:
    """Ask Spark, and return its answer.

    Raises:
        PyflinklikeError: Our code in a task raised it.
        SparkSetupError: Spark failed.
    """
    try:
        return ask()
    except Exception as error:
        ours = error_of(error)
        if ours is not None:
            raise ours from error
        if isinstance(error, PySparkException) or type(error).__module__.startswith("py4j"):
            first = next(iter(str(error).splitlines()), repr(error))
            msg = f"Spark cannot read the checkpoint, got {first[:500]}"
            raise SparkSetupError(f"{msg}; --traceback shows all") from error
        raise


def _write_frame(frame: DataFrame, folder: str, kind: str) -> None:
    """Write rows to a new folder in Spark's tasks, in one of `FORMATS`."""
    if kind == "parquet":
        _ask(lambda: frame.write.parquet(folder))
    elif kind == "csv":
        cells = map_frame(frame, _cells, ", ".join(f"{quote(n)} string" for n in frame.columns))
        _ask(lambda: cells.write.option("header", value=True).csv(folder))
    else:
        lines = map_frame(frame, _lines, "value string")
        _ask(lambda: lines.write.text(folder))


def _cells(batches: Batches) -> Iterator[pa.RecordBatch]:
    return map(cells_of, batches)


def _lines(batches: Batches) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_arrays([pa.array(lines_of(batch), pa.string())], ["value"])
