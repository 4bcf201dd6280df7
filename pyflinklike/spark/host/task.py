# SPDX-License-Identifier: Apache-2.0
"""One task's key groups on a stream, by whichever of Spark's interfaces their state is reached.

A host subclasses `KeyGroupTask`: it sets the clock, finds the state of the key group that Spark
calls it for, and says how Spark is asked to call again.  What is done in between is the same
for all: `runtime.serving` serves the group, and its outputs become Arrow payloads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pyspark import TaskContext

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.errors import HostError
from pyflinklike.log.former_watermark import exchange_watermark
from pyflinklike.log.operator_record import OperatorRecord, RecordStorage, call_roll
from pyflinklike.log.segments import read_segment
from pyflinklike.log.storage import LogStorage
from pyflinklike.runtime.operator import KeyedProcessOperator
from pyflinklike.runtime.serving import (
    NO_RECORDS,
    NONE_EARLY,
    EarlyRecords,
    Records,
    Served,
    begin,
    serve,
)
from pyflinklike.spark.hosts.cycle_collector import freeze_imports, without_collection
from pyflinklike.spark.hosts.observation import COUNTED_TYPE, counted
from pyflinklike.spark.hosts.open_functions import OPEN_FUNCTIONS, QueryRun, query_run
from pyflinklike.spark.hosts.roll_call import record_of
from pyflinklike.spark.hosts.task import opened_operator, task_of
from pyflinklike.spark.hosts.telling import telling
from pyflinklike.spark.hosts.waking import waking_of
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.homes import refuse_foreign_home
from pyflinklike.spark.wire.packing import payload_to_batch, to_payload
from pyflinklike.spark.wire.parcels import passed_on, passing_and_others
from pyflinklike.spark.wire.roll_call import groups_in

__all__ = ["RESULT_COLUMNS", "RESULT_TYPE", "KeyGroupTask", "Result", "Storage"]

RESULT_TYPE = f"output int, payload binary, {COUNTED_TYPE}"
"""What the state operator of a stream gives."""
RESULT_COLUMNS = ("output", "payload", "counts", "user_counts")
Result = tuple[Any, ...]


class Storage(LogStorage, RecordStorage, Protocol):
    """Where a host keeps what it is called for: a key group, or the operator's record."""


class KeyGroupTask:
    """Serves the key groups of one task.

    Args:
        plan: Of the query.
    """

    _store: Storage
    """Of the grouping key that Spark has called for."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._operator: KeyedProcessOperator | None = None
        self._run: QueryRun | None = None
        self._former_watermark: int | None = None

    @telling
    def close(self) -> None:
        """The task is over: the function waits for the next one, or is closed where it cannot."""
        operator, self._operator = self._operator, None
        if operator is None:
            return
        if self._run is None:
            operator.close()
            return
        try:
            operator.rest()
        except BaseException:
            operator.abandon()
            raise
        OPEN_FUNCTIONS.keep(self._run, operator)

    def _wake(self, served: Served, fired: int | None) -> None:
        """Have Spark call the current key group when its new head says.

        Args:
            served: The heads before and after the micro-batch.
            fired: What Spark says it called for, in ms, or None.
        """
        raise NotImplementedError

    def _index_of(self, key: Any) -> int:
        return index_of(int(key[0]), self._plan.task.max_parallelism)

    def _call_roll(self, payloads: list[bytes], batch_time: int) -> None:
        with self._guarded() as operator:
            record = record_of(self._plan, operator)
            call_roll(
                self._store,
                record,
                groups_in(payloads),
                batch_time,
                self._plan.saved,
                self._check_former,
            )

    def _check_former(self, former: OperatorRecord) -> None:
        """See that this host can go on from what another program's record says.

        Spark 4 itself refuses a checkpoint of another time mode.
        """

    def _call_home(self, payloads: list[bytes]) -> None:
        """Learn the watermark of the micro-batch before, and note the one of now."""
        refuse_foreign_home(payloads)
        with self._guarded() as operator:
            self._former_watermark = exchange_watermark(
                self._store, operator.clock.watermark, f"operator {self._plan.task.name!r}"
            )

    def know_as(self, other: KeyGroupTask) -> None:
        """Know what another operator of the task was told at the home that they share."""
        self._former_watermark = other._former_watermark

    def _opened(self) -> KeyedProcessOperator:
        if self._operator is None:
            freeze_imports()
            plan, context = self._plan, TaskContext.get()
            task = task_of(plan, context)
            owner = f"{plan.plan_id}/{task.index}"
            self._run = query_run(context, plan.plan_id) if plan.keeps_open else None
            waiting = OPEN_FUNCTIONS.take(self._run, task) if self._run else None
            if waiting is not None:
                waiting.resume(task, owner)
            refused = plan.time_mode.refused_timers()
            self._operator = waiting or opened_operator(plan, task, owner, refused)
            self._encode = plan.layout.encoder(plan.show_key)
            self._waking = waking_of(plan.time_mode)
        return self._operator

    @contextmanager
    def _guarded(self) -> Iterator[KeyedProcessOperator]:
        """The operator for one call, given up if the call fails."""
        operator = self._opened()
        try:
            yield operator
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """The task has failed: Spark will not call `close`."""
        operator, self._operator = self._operator, None
        if operator is not None:
            operator.abandon()

    @without_collection
    def _serve(
        self,
        index: int,
        payloads: list[bytes] | None = None,
        served_at: int | None = None,
        fired: int | None = None,
    ) -> list[Result]:
        with self._guarded() as operator:
            passing, payloads = passing_and_others(payloads)
            early, records = self._read(payloads)
            served = serve(
                operator,
                self._store,
                index,
                records,
                early=early,
                waking=self._waking,
                served_at=served_at,
            )
            self._wake(served, fired)
            results = [*self._encoded(operator), *passed_on(passing)]
            operator.keep_warm()
        return results

    @without_collection
    def _begin(self, index: int, payload: bytes, served_at: int) -> None:
        with self._guarded() as operator:
            snapshot = read_segment(payload, f"savepoint, key group {index}")
            served = begin(
                operator,
                self._store,
                index,
                snapshot,
                waking=self._waking,
                served_at=served_at,
            )
            if served is not None:
                self._wake(served, None)
                operator.metrics.take()  # the first batch tells of its own work
                operator.keep_warm()

    def _read(self, payloads: list[bytes] | None) -> tuple[EarlyRecords, Records]:
        if not payloads:
            return NONE_EARLY, NO_RECORDS
        plan, packed = self._plan, [payload_to_batch(each) for each in payloads]
        if plan.reader.before_watermark is None:
            return NONE_EARLY, plan.reader.read_payloads(packed)
        early, records = plan.reader.read_apart(packed)
        if not plan.keeps_former_watermark():
            return EarlyRecords(early, MIN_WATERMARK), records
        if self._former_watermark is None:
            msg = (
                "an operator behind another one needs the former watermark before its first "
                "records, got no call for it; set spark.sql.shuffle.partitions to the number that "
                "the checkpoint was begun with"
            )
            raise HostError(msg)
        return EarlyRecords(early, self._former_watermark), records

    def _encoded(self, operator: KeyedProcessOperator) -> list[Result]:
        early, outputs = operator.outputs.take_apart()
        operator.metrics.outputs += len(early) + len(outputs)
        first = self._plan.first_output
        numbered = [(~(first + number), batch) for number, batch in self._encode(early)]
        numbered += [(first + number, batch) for number, batch in self._encode(outputs)]
        results: list[Result] = [
            (number, to_payload(batch), None, None) for number, batch in numbered
        ]
        head, *tail = results or [(first, None, None, None)]
        return [(*head[:2], *counted(*operator.take_metrics())), *tail]
