# SPDX-License-Identifier: Apache-2.0
"""The key groups of one task on a stream, for every one of Spark's interfaces.

A host subclasses `KeyGroupTask`: it sets the clock, finds the state of the key group of Spark's
call, and asks Spark for the next call.  Everything in between is the same for all hosts:
`_runtime.micro_batch` serves the group, and its outputs become Arrow payloads.

Functions stay open between the tasks of a streaming query.  Spark makes a new processor for every
task of every micro-batch; Flink opens a function once and closes it when its job ends.  So the
opened operator waits in its process, a keeper or a Python worker, for the next task of its query.
One function serves all subtasks that come to a process: a copy for each subtask would hold a model
many times over.  If a function asks for the index of its subtask, or
for the number of its attempt, it serves only that one.  Flink, too, opens a function again for
another attempt.

A waiting function is closed when a later run of its query comes to the worker, or when too many
others have been used since; a function that cannot wait is closed at once.  Spark kills a worker
without a call to the Python code in it.  Then no function is closed, as in Flink when a task manager
is killed.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import attrs
from pyspark import TaskContext

from pyflinklike import __version__
from pyflinklike._changelog.log_storage import LogStorage, exchange_watermark, raise_watermark
from pyflinklike._changelog.operator_record import (
    OperatorRecord,
    register_key_groups,
)
from pyflinklike._changelog.segments import read_segment
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK, TimeDomain
from pyflinklike._runtime.assembly import OperatorDeclaration
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import make_keyed_operator
from pyflinklike._runtime.keyed_operator import KeyedProcessOperator
from pyflinklike._runtime.micro_batch import (
    NO_PRE_WATERMARK_RECORDS,
    NO_RECORDS,
    BatchResult,
    PreWatermarkRecords,
    Records,
    begin,
    serve,
)
from pyflinklike.errors import PyflinklikeError, SparkSetupError
from pyflinklike.spark._host.collector_freeze import freeze_imports, without_collection
from pyflinklike.spark._host.observed_metrics import make_count_cells
from pyflinklike.spark._host.translations import ROWS, Result, Translation
from pyflinklike.spark._host.wake_up import find_timer_scheduling
from pyflinklike.spark._host.worker_errors import report_errors
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.key_groups import groups_in, index_of
from pyflinklike.spark._wire.payloads import (
    Home,
    partitions_of_state,
    payload_to_batch,
    reassigned_watermarks_in,
    to_payload,
)
from pyflinklike.spark._wire.stage_records import (
    REASSIGNED_WATERMARKS,
    Address,
    StageRecord,
    divide_payloads,
    dump,
    pass_on,
    wrap_to_pass,
)
from pyflinklike.spark._wire.system_columns import watermark_of
from pyflinklike.types.pickled_type import pickle_allowed


class KeyGroupTask:
    """Serves the key groups of one task.

    Args:
        plan: The plan of the query.
    """

    _sees_its_end: ClassVar[bool] = True
    """Whether `close` is called before the task is committed."""
    is_kept = False
    """Whether a keeper runs the task, so that no other process needs its local files."""
    shares = 1
    """The number of processes that share the memory for working state."""
    translation: Translation = ROWS
    """The translation of Spark's rows and results."""
    _store: LogStorage
    """The storage of the grouping key of Spark's present call."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._operator: KeyedProcessOperator | None = None
        self._run: QueryRun | None = None
        self._grouping_key: int | None = None
        """The grouping key of Spark's last call."""
        self._home: Home | None = None
        self._former_watermark: int | None = None
        self._reassigned_watermarks: dict[int, tuple[int, int]] = {}
        """The former and the present watermark of each node that assigns times between operators."""

    @report_errors
    def close(self) -> None:
        """End the task: the function waits for the next one, or is closed if it cannot."""
        operator, self._operator = self._operator, None
        if operator is None:
            return
        try:
            # All key groups are served and nothing is committed yet, so a failure fails the task.
            operator.check_letters()
            if self._run is not None:
                operator.rest(keeps_files=self.is_kept)
        except BaseException:
            operator.abandon()
            raise
        if self._run is None:
            operator.close()
        else:
            OPEN_FUNCTIONS.keep(self._run, operator)

    def _wake(self, served: BatchResult, fired: int | None) -> None:
        """Ask Spark to call the current key group at the time in its new head.

        Args:
            served: The heads before and after the micro-batch.
            fired: The time in ms for which Spark says it called, or None.
        """
        raise NotImplementedError

    def _set_clock(self, processing_time: int, watermark: int | None = None) -> None:
        """Set the operator's clock.

        Args:
            processing_time: The time of the micro-batch, in ms.
            watermark: Spark's watermark in ms; None in a time mode without one.
        """
        clock = self._ensure_operator().clock
        clock.processing_time = processing_time
        if watermark is not None:
            # Spark's watermark begins at 0, even if the query begins with the state of a batch
            # that was read up to a later time.
            clock.watermark = max(watermark_of(watermark), self._plan.least_watermark)

    def _index_of(self, key: Any) -> int:
        return index_of(int(key[0]), self._plan.task.max_parallelism)

    def _call_roll(self, payloads: list[bytes], batch_time: int) -> None:
        with self._guard() as operator:
            record = record_of(self._plan, operator)
            register_key_groups(
                self._store,
                record,
                groups_in(payloads),
                batch_time,
                self._plan.saved,
                self._check_former,
            )

    def _check_former(self, former: OperatorRecord) -> None:
        """Check that this host can continue from another program's record.

        On Spark 4 there is nothing to check, because Spark itself refuses another time mode.
        """

    def _call_home(self, payloads: list[bytes]) -> list[Result]:
        """Read the watermark of the last micro-batch from the home, and store the current one.

        Returns:
            The watermarks that Spark does not know, for the operators behind this one.
        """
        with self._guard() as operator:
            self._home = self._home or Home.of(payloads)
            self._check_home()
            where = f"operator {self._plan.task.name!r}"
            self._former_watermark = exchange_watermark(
                self._store, operator.clock.watermark, where
            )
            reported = reassigned_watermarks_in(payloads)
            self._reassigned_watermarks = {
                assigner: raise_watermark(
                    self._store, reported.get(assigner, MIN_WATERMARK), position, where
                )
                for position, assigner in enumerate(self._plan.reassigners)
            }
            if not reported:
                return []
            records: list[Any] = sorted(reported.items())
            record = StageRecord(Address(REASSIGNED_WATERMARKS, 0), dump(records))
            return list(pass_on([wrap_to_pass(record.to_bytes())]))

    def _check_home(self) -> None:
        if self._home is not None and self._grouping_key is not None:
            self._home.check_holds(self._grouping_key)

    def key_group_tasks(self) -> Sequence[KeyGroupTask]:
        """Return the task of each operator; here it is one."""
        return (self,)

    def memory(self) -> Any:
        """Return what the task has read from its home, for the task's other operators and processes."""
        return self._home, self._former_watermark, self._reassigned_watermarks

    def recall(self, memory: Any) -> None:
        """Take over the `memory` of another operator or process of the task; None if it has no memory."""
        if memory is not None:
            self._home, self._former_watermark, self._reassigned_watermarks = memory

    def _ensure_operator(self) -> KeyedProcessOperator:
        if self._operator is None:
            freeze_imports()
            plan, context = self._plan, TaskContext.get()
            plan = attrs.evolve(plan, state_backend=plan.state_backend.shared_by(self.shares))
            task = task_of(plan, context, self._grouping_key)
            owner = f"{plan.plan_id}/{task.index}"
            self._run = run_of_query(context, plan.plan_id) if plan.keeps_open else None
            waiting = OPEN_FUNCTIONS.take(self._run, task) if self._run else None
            if waiting is not None:
                waiting.resume(task, owner)
            refused = plan.timer_refusals()
            self._operator = waiting or open_operator(plan, task, owner, refused)
            self._encode = plan.layout.encoder(plan.show_key)
            self._waking = find_timer_scheduling(
                plan.time_mode, has_reassigned_timestamps=plan.reassigner is not None
            )
        return self._operator

    @contextmanager
    def _guard(self) -> Iterator[KeyedProcessOperator]:
        """Yield the operator for one call, and give it up if the call fails."""
        operator = self._ensure_operator()
        try:
            yield operator
        except BaseException:
            self.give_up()
            raise

    def give_up(self) -> None:
        """Release the operator of a failed task, for which Spark will not call `close`."""
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
        with self._guard() as operator:
            passing, payloads = divide_payloads(payloads)
            if not payloads and not passing:
                served_at = None  # called for timers, and no registry has noted this call
            if self._plan.reassigner is not None and operator.clock.watermark != MAX_WATERMARK:
                operator.clock.watermark = self._reassigned_watermark()[1]
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
            operator.metrics.kept_groups += self.is_kept
            results = [*self._encode_outputs(operator), *pass_on(passing)]
            if not self._sees_its_end:
                operator.check_letters()
            operator.group.cache()
        return results

    @without_collection
    def _begin(self, index: int, payload: bytes, served_at: int) -> None:
        with self._guard() as operator:
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
                operator.metrics.take()  # so the first batch reports only its own work
                operator.group.cache()

    def _read(self, payloads: list[bytes] | None) -> tuple[PreWatermarkRecords, Records]:
        if not payloads:
            return NO_PRE_WATERMARK_RECORDS, NO_RECORDS
        plan, packed = self._plan, [payload_to_batch(each) for each in payloads]
        if plan.reader.before_watermark is None:
            return NO_PRE_WATERMARK_RECORDS, plan.reader.read_payloads(packed)
        if plan.reassigner is not None:
            # The elements of a micro-batch make its watermark, so all of them come before it.
            return PreWatermarkRecords(
                plan.reader.read_payloads(packed), self._reassigned_watermark()[0]
            ), NO_RECORDS
        early, records = plan.reader.read_apart(packed)
        if not plan.keeps_former_watermark():
            return PreWatermarkRecords(early, MIN_WATERMARK), records
        self._check_home()
        if self._former_watermark is None:
            raise _without_home()
        return PreWatermarkRecords(early, self._former_watermark), records

    def _reassigned_watermark(self) -> tuple[int, int]:
        """Return the former and the present watermark of reassigned timestamps."""
        self._check_home()
        found = self._reassigned_watermarks.get(self._plan.reassigner or 0)
        if found is None:
            raise _without_home()
        return found

    def _encode_outputs(self, operator: KeyedProcessOperator) -> list[Result]:
        early, outputs = operator.outputs.take_apart()
        operator.metrics.outputs += len(early) + len(outputs)
        first = self._plan.first_output
        numbered = [(~(first + number), batch) for number, batch in self._encode(early)]
        numbered += [(first + number, batch) for number, batch in self._encode(outputs)]
        results: list[Result] = [
            (number, to_payload(batch), None, None) for number, batch in numbered
        ]
        head, *tail = results or [(first, None, None, None)]
        return [(*head[:2], *make_count_cells(*operator.take_metrics())), *tail]


def _without_home() -> SparkSetupError:
    return SparkSetupError(
        "an operator behind another one needs the former watermark before its first "
        "records, got records first; set spark.sql.shuffle.partitions to the number that "
        "the checkpoint was begun with"
    )


def of_checkpoint(plan: Plan) -> Plan:
    """Return a plan with the numbers of tasks and key groups that its checkpoint has."""
    # Spark keeps the number of partitions that a checkpoint was begun with, whatever the session
    # says at a restart.  The driver does not know the checkpoint when it makes the plan; a task does.
    partitions = partitions_of_state(TaskContext.get())
    if partitions is None:
        return plan
    groups = plan.task.max_parallelism if plan.key_groups is None else plan.key_groups(partitions)
    task = attrs.evolve(plan.task, parallelism=partitions, max_parallelism=groups)
    return attrs.evolve(plan, task=task)


def task_of(plan: Plan, context: TaskContext | None, grouping_key: int | None = None) -> TaskInfo:
    """Return the task of a plan that runs in this worker.

    Args:
        plan: The plan of the query, as `of_checkpoint` returns it.
        context: Spark's context of the task, or None if no task runs.
        grouping_key: A grouping key that Spark calls the task for, in a stream.
    """
    if context is None:
        return plan.task
    index = context.partitionId()
    if grouping_key is not None and partitions_of_state(context) is not None:
        # Behind a union, the number of a task is not the number of its partition: Spark counts on
        # from the tasks of the other branch, and their number may change with each micro-batch.
        index = index_of(grouping_key, plan.task.parallelism)
    batch = context.getLocalProperty("streaming.sql.batchId")
    return attrs.evolve(
        plan.task,
        index=index,
        attempt=context.attemptNumber(),
        batch=None if batch is None else int(batch),
    )


def open_operator(
    plan: Plan,
    task: TaskInfo,
    owner: str,
    refused_timers: Mapping[TimeDomain, PyflinklikeError] | None = None,
) -> KeyedProcessOperator:
    """Make the operator of a plan, and open its function.

    Args:
        plan: The plan of the query.
        task: The task that it serves first.
        owner: The name under which working state is cached.
        refused_timers: An error with the remedy for each domain whose timers the host cannot fire.

    Raises:
        UserFunctionError: The function could not be opened.
        DeclarationValueError: State would have to be unpickled, and pickle is not allowed.
    """
    operator = make_keyed_operator(
        OperatorDeclaration(
            plan.function,
            plan.state_backend,
            plan.key_type,
            task,
            owner,
            refused_timers=refused_timers,
            side_outputs_read=plan.layout.sides,
            broadcast_states=plan.broadcast_states,
            # The environment of a worker may forbid pickle although the driver's does not.
            allow_pickle=pickle_allowed(plan.allow_pickle),
            timed_outputs=plan.timed_outputs,
            on_error=plan.on_error,
            drop_states=plan.drop_states,
        )
    )
    operator.open()
    return operator


# Open functions

MAX_OPEN = 8
"""The most functions that wait in a worker, unless its query has more operators."""

_Facts = tuple[tuple[str, int], ...]
"""The facts about its task that a function has asked for, by name."""

_log = logging.getLogger(__name__)


class QueryRun(NamedTuple):
    """One run of an operator of a streaming query.

    Args:
        query: Spark's id of the query, which its checkpoint holds.
        run: Spark's id of the run.
        plan: The id of the operator's plan.
    """

    query: str
    run: str
    plan: str


def run_of_query(context: TaskContext | None, plan: str) -> QueryRun | None:
    """Return the run to which a task belongs, or None if its worker does not live on.

    Args:
        context: Spark's context of the task, or None.
        plan: The id of the operator's plan.
    """
    if context is None or not os.environ.get("SPARK_REUSE_WORKER"):
        return None
    query = context.getLocalProperty("sql.streaming.queryId")
    run = context.getLocalProperty("spark.jobGroup.id")
    return QueryRun(query, run, plan) if query and run else None


class OpenFunctions:
    """Operators with an open function, the least recently used closed first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[tuple[QueryRun, _Facts], KeyedProcessOperator] = OrderedDict()

    def take(self, run: QueryRun, task: TaskInfo) -> KeyedProcessOperator | None:
        """Remove and return an operator that can serve a task, or None."""
        for key in list(self._waiting):
            if key[0].query == run.query and key[0].run != run.run:
                close_late(self._waiting.pop(key))
        for key, operator in self._waiting.items():
            if key[0] == run and operator.serves(task):
                return self._waiting.pop(key)
        return None

    def keep(self, run: QueryRun, operator: KeyedProcessOperator) -> None:
        """Let an operator at rest wait for the next task."""
        key = run, operator.task_answers()
        former = self._waiting.pop(key, None)
        if former is not None:
            close_late(former)
        self._waiting[key] = operator
        operators = {key[0].plan for key in self._waiting if key[0].run == run.run}
        while len(self._waiting) > max(MAX_OPEN, len(operators)):
            close_late(self._waiting.popitem(last=False)[1])

    def forget(self) -> None:
        """Forget all waiting operators, which belong to the process that this one was forked from."""
        self._waiting.clear()

    def close_all(self) -> None:
        """Close all waiting operators."""
        while self._waiting:
            close_late(self._waiting.popitem()[1])

    def __len__(self) -> int:
        return len(self._waiting)


def close_late(operator: KeyedProcessOperator | KeyGroupTask) -> None:
    """Close the operator of a task that is over, and log an error of it."""
    try:
        operator.close()
    except PyflinklikeError:
        # This call belongs to another task, and that task must not fail.
        _log.exception("a function could not be closed after its last task")


OPEN_FUNCTIONS = OpenFunctions()
"""The open functions of this process."""
# Spark's daemon ends its workers by os._exit.  Without a daemon, a worker ends as any program does.
atexit.register(OPEN_FUNCTIONS.close_all)


def record_of(plan: Plan, operator: KeyedProcessOperator) -> OperatorRecord:
    """Make the record of an opened operator, for its registry."""
    function = type(plan.function)
    return OperatorRecord(
        plan.task.identity(plan.key_type),
        f"{function.__module__}.{function.__qualname__}",
        __version__,
        plan.reader.time_zone,
        plan.reader.event_time,
        plan.time_mode.value,
        operator.describe_states(),
        dict.fromkeys(plan.drop_states, 0),
    )
