# SPDX-License-Identifier: Apache-2.0
"""The driver of a simulated query: its logs, its micro-batches, its deaths and its restarts.

It keeps to `MicroBatchExecution`.  A micro-batch is written into the offset log with its offsets,
its watermark and its time, then run, then written into the commit log with the watermark of the
next one and, in format 2, with the unique ids of the state.  A driver that comes back does the
last one of the offset log again if the commit log has not got it, as it was planned.

The watermark is the smallest of those that the sources make (`WatermarkTracker`), never goes back,
and is seen by the next micro-batch only.  A driver that comes back knows of the global one alone.
A micro-batch without data comes where the watermark has moved since the last one, or where an
operator has processing-time timers (`shouldRunAnotherBatch`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark import cloudpickle

from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.key_groups import index_of
from pyflinklike.spark._wire.system_columns import KEY_GROUP
from simulated.choices import Choices
from simulated.file_system import FileSystem
from simulated.program import START_MS, MicroBatch, Program, Rows, rows_of
from simulated.state_store import StateStores, StoreError
from simulated.tasks import (
    ASK,
    COMMIT,
    REPORT,
    WRITE,
    Attempt,
    Cluster,
    Fate,
    InjectedError,
    Killed,
    Shuffled,
    StateTask,
    Times,
    in_task,
)

__all__ = ["DriverDiedError", "Faults", "Place", "Query", "QueryFailedError", "Sinks"]

Place = tuple[int, int]
"""A store: its operator and its partition."""
_MOST_ATTEMPTS = 4
_ZOMBIES = 3


class DriverDiedError(Exception):
    """The driver is gone, with all that it had in memory."""


class QueryFailedError(Exception):
    """A task failed for good, and the query with it.

    Args:
        error: What the task raised.
        task: The task.
    """

    def __init__(self, error: BaseException, task: StateTask) -> None:
        super().__init__(repr(error))
        self.error = error
        self.place = task.operator, task.partition


@attrs.frozen
class Faults:
    """How often things go wrong, as shares.

    Args:
        attempt: Of the attempts of tasks.
        driver: Of the steps of a driver.
        maintenance: Of the micro-batches, after which a store is maintained.
        rerun: Of the tasks that are done again although they had succeeded.
    """

    attempt: float
    driver: float
    maintenance: float
    rerun: float


@attrs.frozen
class _Offsets:
    """The entry of a micro-batch in the offset log."""

    ends: tuple[int, ...]
    watermark: int
    now: int


@attrs.frozen
class _Commit:
    """The entry of a micro-batch in the commit log."""

    watermark: int
    unique_ids: tuple[tuple[str, ...], ...]


class Sinks:
    """What a query has written.

    Attributes:
        by_batch: Of the sink that writes each micro-batch once, by its number (`foreachBatch`).
        written: Of the plain sink: number, rows and program of each time that a micro-batch was
            written.
    """

    def __init__(self) -> None:
        self.by_batch: dict[int, Rows] = {}
        self.written: list[tuple[int, Rows, Program]] = []

    def write(self, number: int, rows: Rows, program: Program) -> None:
        """Write the rows of a micro-batch."""
        self.by_batch[number] = rows
        self.written.append((number, rows, program))


class Query:
    """A query with its checkpoint, over all its lives.

    Args:
        program: The first program.
        choices: Decide about everything.
        cluster: The executors.
        stores: The state in the checkpoint.
        faults: How often things go wrong.
    """

    def __init__(
        self,
        program: Program,
        choices: Choices,
        cluster: Cluster,
        stores: StateStores,
        faults: Faults,
    ) -> None:
        self.program = program
        self.partitions = program.partitions
        self.sinks = Sinks()
        self.history: list[str] = []
        self.committed: list[MicroBatch] = []
        """What the driver decided, micro-batch by micro-batch: the input of the oracle."""
        self.late_errors: list[tuple[BaseException, Place]] = []
        """The errors of attempts for which nobody waited any more, with the stores that they used."""
        self.now = START_MS
        self.runs = 0
        """Micro-batches that were begun, also such that were begun again."""
        self._choices = choices
        self._cluster = cluster
        self._stores = stores
        self._faults = faults
        self._files: FileSystem = stores.files
        self._grown: list[list[pa.RecordBatch]] = [[] for _ in program.sources]
        self._zombies: list[Attempt] = []
        self._points: dict[int, int] = {}
        self._lives = 0
        self._growths = 0
        self._life: _Life | None = None

    def note(self, text: str) -> None:
        """Add a line to the history."""
        self.history.append(text)

    # Lives

    def start(self, program: Program, *, available_now: bool = False) -> None:
        """Begin a life of the query: the driver reads its logs.

        Args:
            program: The program that it runs from now on.
            available_now: Whether it ends when it has read what is there now.
        """
        self.program = program
        self._lives += 1
        self.note(f"life {self._lives}{', available now' * available_now}: {program.name}")
        self._life = _Life(self, self._lives, program, self.ends if available_now else None)

    @property
    def is_over(self) -> bool:
        """Whether the query has read what it was started for."""
        return self._life is not None and self._life.is_over

    def trigger(self) -> bool:
        """Run one micro-batch if there is one to run; return whether there was.

        Raises:
            DriverDiedError: The driver died.
            QueryFailedError: A task failed.
        """
        assert self._life is not None
        return self._life.trigger()

    def die(self, *, keeps_executors: bool) -> None:
        """End a life; whoever stands still may stay.

        Args:
            keeps_executors: Whether the application goes on: only the query was stopped.
        """
        self._life = None
        if keeps_executors:
            # Another run has other providers of state (`StateStoreProviderId.queryRunId`).
            for executor in self._cluster.executors:
                held = {key: each for key, each in executor.stores.items() if each.is_held}
                executor.stores.clear()
                executor.stores.update(held)
            return
        stay = [each for each in self._zombies if self._choices.happens("outlives its driver", 0.5)]
        for each in self._zombies:
            if each not in stay:
                each.kill()
        self._zombies = stay
        self._cluster.lose_all()
        self.note(f"all executors are gone, {len(stay)} attempts are not")

    def end(self) -> None:
        """End everything that stands still."""
        for each in self._zombies:
            each.kill()
        self._zombies.clear()

    # Sources

    def grow(self, choices: Choices) -> None:
        """Let the sources grow, or some of them."""
        self._growths += 1
        for number, batches in enumerate(self._grown):
            if not choices.happens(f"source {number} grows", 0.75):
                continue
            drawn = choices.within(f"source {number}")
            records = self.program.draw_records(drawn, number, self._growths)
            kept = choices.keep(f"source {number} record", records.num_rows)
            if len(kept) < records.num_rows:
                records = records.take(pa.array(kept, pa.int64()))
            if records.num_rows:
                batches.append(records)
                self.note(f"source {number} grows by {records.num_rows}")

    @property
    def ends(self) -> tuple[int, ...]:
        """The offsets to which the sources have grown."""
        return tuple(len(each) for each in self._grown)

    @property
    def zombies(self) -> int:
        """The number of attempts that stand still."""
        return len(self._zombies)

    @property
    def committed_ends(self) -> tuple[int, ...]:
        """The offsets up to which the sources were read in committed micro-batches."""
        if not self.committed:
            return tuple(0 for _ in self._grown)
        offsets = self.read_offsets(self.committed[-1].number)
        assert offsets is not None
        return offsets.ends

    def records(self, starts: Sequence[int], ends: Sequence[int]) -> tuple[Any, ...]:
        """Return what sources grew by between two offsets: a record batch, or None."""
        return tuple(
            pa.concat_batches(mine[start:end]) if end > start else None
            for mine, start, end in zip(self._grown, starts, ends)
        )

    # What is durable

    def read_offsets(self, number: int) -> _Offsets | None:
        """Return what the offset log says of a micro-batch, or None."""
        path = "offsets", number
        return self._files.read(path) if self._files.exists(path) else None

    def commit_of(self, number: int) -> _Commit | None:
        """Return what the commit log says of a micro-batch, or None."""
        path = "commits", number
        return self._files.read(path) if self._files.exists(path) else None

    def unique_id(self, operator: int, partition: int, version: int) -> str:
        """Return the unique id under which a version is committed; empty in format 1."""
        commit = self.commit_of(version - 1)
        if commit is None or not commit.unique_ids:
            return ""
        return commit.unique_ids[operator][partition]

    # Attempts that nobody waits for

    def move_zombies(self, choices: Choices) -> None:
        """Let some of the attempts that stand still go on."""
        for each in list(self._zombies):
            if choices.happens("zombie goes on", 0.3):
                each.resume(choices.integer("points", 1, 30))
                self._bury(each)

    def _bury(self, attempt: Attempt) -> None:
        if not attempt.has_ended:
            return
        if attempt in self._zombies:
            self._zombies.remove(attempt)
        if attempt.has_written:
            self.note(f"{attempt.name} writes late")
        error = attempt.error
        if error is not None and not isinstance(error, (Killed, InjectedError, StoreError)):
            self.late_errors.append((error, (attempt.task.operator, attempt.task.partition)))
            self.note(f"{attempt.name} fails late: {type(error).__name__}")

    # Tasks

    def run_task(self, task: StateTask, choices: Choices) -> Attempt:
        """Run a task of a stage until an attempt of it succeeds.

        Raises:
            QueryFailedError: An attempt failed for a reason of its own, or too many did.
        """
        found: Attempt | None = None
        for number in range(_MOST_ATTEMPTS):
            is_last = number == _MOST_ATTEMPTS - 1
            fate = Fate() if is_last else self._fate(task.operator, choices)
            attempt = self._attempt(task, number, choices, fate)
            if fate.kind == "twins":
                found = self._twins(task, number, choices, attempt)
            else:
                attempt.run()
                found = self._end(attempt, choices)
            if found is not None:
                return found
        msg = f"{task.name}: no attempt succeeded"
        raise QueryFailedError(RuntimeError(msg), task)

    def _fate(self, operator: int, choices: Choices) -> Fate:
        if not choices.happens("fault", self._faults.attempt):
            return Fate()
        kind = choices.one_of("kind", _FATES)
        if kind == "stalls" and len(self._zombies) >= _ZOMBIES:
            kind = "fails"
        where = choices.one_of(
            "where", ("round trip", "round trip", "ask", "ask", "write", "commit", "report")
        )
        if where in ("write", "ask"):
            # The first writes are often those of the record and the registry.
            passed = choices.integer("passed", 0, 4 if where == "write" else 1)
            return Fate(kind, WRITE if where == "write" else ASK, passed)
        point = {"commit": COMMIT, "report": REPORT}.get(where)
        # As many as the operator's attempts had lately, so that most of the faults come to pass.
        return Fate(kind, point or choices.integer("point", 1, self._points.get(operator, 8)))

    def _attempt(self, task: StateTask, number: int, choices: Choices, fate: Fate) -> Attempt:
        executor, worker = self._cluster.place(choices, task.operator, task.partition)
        if fate.kind != "ends":
            self.note(
                f"{task.name} attempt {number} {fate.kind} at {fate.point} "
                f"on executor {executor.number} worker {worker.number}"
            )
        keeper = self._cluster.keeper_fate(choices)
        if keeper is not None and keeper.call:
            self.note(f"{task.name} attempt {number}: its keeper {keeper.kind} at {keeper.call}")
        return Attempt(task, number, executor, worker, self._stores, fate, keeper)

    def _end(self, attempt: Attempt, choices: Choices) -> Attempt | None:
        """Look at an attempt that has ended or stands still; return it if it succeeded."""
        if not attempt.has_ended:
            self._zombies.append(attempt)
            return None
        error = attempt.error
        if error is None:
            self._points[attempt.task.operator] = max(4, attempt.points)
            return attempt
        if isinstance(error, Killed) and str(error) == "executor dies":
            self._lose(attempt)
        elif isinstance(error, Killed) or (
            # PySpark's worker ends after an error; one that went on would have to be right, too.
            not attempt.is_python_done and choices.happens("worker ends", 0.3)
        ):
            attempt.executor.end_worker(attempt.worker)
        if not attempt.was_hit and not isinstance(error, Killed):
            raise QueryFailedError(error, attempt.task)
        return None

    def _lose(self, attempt: Attempt) -> None:
        for each in list(self._zombies):
            if each.executor is attempt.executor:
                each.kill()
                self._bury(each)
        self._cluster.lose(attempt.executor)

    def _twins(
        self, task: StateTask, number: int, choices: Choices, first: Attempt
    ) -> Attempt | None:
        """Run two attempts side by side, and return the one that succeeds first."""
        first.fate = Fate()
        first.resume(0)
        second = self._attempt(task, number + 100, choices, Fate())
        running = [first, second]
        order = choices.stream("interleaving")
        while not any(each.has_ended for each in running):
            order.one_of(running).resume(order.integer(1, 12))
        done = first if first.has_ended else second
        other = second if done is first else first
        found = self._end(done, choices)
        ends = choices.one_of("the other twin", ("is killed", "goes on", "stands still"))
        self.note(f"{done.name} ends first, the other {ends}")
        if ends == "is killed":
            other.kill()
        elif ends == "goes on":
            other.resume(1 << 30)
        if not other.has_ended:
            self._zombies.append(other)
        self._bury(other)
        return found

    def maintain(self, choices: Choices) -> None:
        """Let the maintenance threads of executors work, on some of their stores."""
        self._cluster.churn(choices, self._faults.attempt / 4)
        for executor in self._cluster.executors:
            for (operator, partition), store in executor.stores.items():
                if store.is_held or store.version < 0:
                    continue
                if choices.happens("maintenance", self._faults.maintenance):
                    self._stores.maintain(
                        store, self._is_committed(operator, partition, store.version)
                    )

    def _is_committed(self, operator: int, partition: int, _: int) -> Callable[[int, str], bool]:
        def is_committed(version: int, unique_id: str) -> bool:
            if self.commit_of(version - 1) is None:
                return False
            return self.unique_id(operator, partition, version) == unique_id

        return is_committed

    def driver_step(self, choices: Choices, what: str) -> None:
        """Pass a step of the driver, at which it may die.

        Raises:
            DriverDiedError: It died.
        """
        if choices.happens(f"driver dies {what}", self._faults.driver):
            self.note(f"driver dies {what}")
            raise DriverDiedError(what)

    # For a life

    def add_offsets(self, number: int, offsets: _Offsets) -> None:
        """Write a micro-batch into the offset log."""
        assert self._files.create(("offsets", number), offsets)

    def add_commit(self, number: int, commit: _Commit) -> None:
        """Write a micro-batch into the commit log."""
        assert self._files.create(("commits", number), commit)

    def split(self, choices: Choices) -> int:
        """Decide how many tasks read a source."""
        return choices.integer("splits", 1, 2)

    def rerun(self, choices: Choices) -> bool:
        """Decide whether the output of a task is lost, so that it is done again."""
        return choices.happens("output lost", self._faults.rerun)

    def next_choices(self) -> Choices:
        """Return the decisions about one run of a micro-batch."""
        self.runs += 1
        return self._choices.within(f"run {self.runs}")

    @property
    def format_version(self) -> int:
        """The format of the checkpoint."""
        return self._stores.format_version


_FATES = ("fails", "fails", "fails", "fails", "worker dies", "executor dies", "stalls", "twins")


class _Life:
    """One life of the query: what the driver has in memory.

    Args:
        query: The query.
        number: Of the life.
        program: The program that it runs.
        target: The offsets at which it ends, as with `availableNow`; None if it goes on.
    """

    def __init__(
        self, query: Query, number: int, program: Program, target: tuple[int, ...] | None
    ) -> None:
        self._query = query
        self._target = target
        self.is_over = False
        self._program = program
        self._run_id = f"run-{number}"
        self._operators = [
            each.start_as(f"plan-{number}-{at}") for at, each in enumerate(program.state_operators)
        ]
        self._plans = [
            cloudpickle.dumps(each.shipped)  # type: ignore[no-untyped-call]
            for each in self._operators
        ]
        self._packings = [each.make_packing() for each in self._operators]
        self._unpackers = [each.unpacker() for each in self._operators]
        self._consumers = {
            mine.number: (at, number)
            for at, each in enumerate(self._operators)
            for number, mine in enumerate(each.inputs)
            if not mine.is_source
        }
        self._modes = [each.plan.time_mode for each in self._operators]
        self._watermarks: dict[int, int] = {}
        self._timed = [at for at, each in enumerate(program.sources) if each.event_time is not None]
        self._last_watermark: int | None = None
        self._starts = tuple(0 for _ in program.sources)
        self._watermark = 0
        self._number = 0
        self._is_planned = False
        self._recover()

    def _recover(self) -> None:
        """Read the logs, as `MicroBatchExecution.populateStartOffsets` does."""
        query, last = self._query, -1
        while query.read_offsets(last + 1) is not None:
            last += 1
        if last < 0:
            return
        offsets = query.read_offsets(last)
        assert offsets is not None
        self._watermark = offsets.watermark
        commit = query.commit_of(last)
        if commit is not None:
            self._number, self._starts = last + 1, offsets.ends
            self._watermark = max(self._watermark, commit.watermark)
            return
        self._number, self._is_planned = last, True
        before = query.read_offsets(last - 1) if last else None
        if before is not None:
            self._starts = before.ends

    def trigger(self) -> bool:
        """Run the micro-batch that is due, if one is."""
        query, number = self._query, self._number
        choices = query.next_choices()
        if not self._is_planned:
            if self._ends() == self._starts and not self._wants_another():
                self.is_over = self._target is not None
                return False
            query.driver_step(choices, "before its offsets")
            ends = self._limit(choices)
            offsets = _Offsets(ends, self._watermark, query.now)
            query.add_offsets(number, offsets)
            query.note(f"batch {number} planned: {offsets}")
            self._is_planned = True
        query.driver_step(choices, "after its offsets")
        planned = query.read_offsets(number)
        assert planned is not None
        self._run(number, planned, choices)
        self._is_planned = False
        return True

    def _limit(self, choices: Choices) -> tuple[int, ...]:
        """Return how far a micro-batch reads: as far as sources have come, or by a step each."""
        if not choices.happens("reads a part", 0.2):
            return self._ends()
        return tuple(min(start + 1, end) for start, end in zip(self._starts, self._ends()))

    def _ends(self) -> tuple[int, ...]:
        """Return the offsets up to which it may read now."""
        if self._target is None:
            return self._query.ends
        # What was planned before may be behind the target: then there is nothing more to read.
        return tuple(map(max, self._starts, self._target))

    def _wants_another(self) -> bool:
        if self._last_watermark is None:
            return False
        if TimeMode.PROCESSING_TIME in self._modes:
            return True
        return self._watermark > self._last_watermark and bool(self._timed)

    def _run(self, number: int, planned: _Offsets, choices: Choices) -> None:
        query = self._query
        query.note(f"batch {number} runs at {planned.now} under {planned.watermark}")
        records = query.records(self._starts, planned.ends)
        rows, unique_ids = self._stages(number, planned, records, choices)
        query.driver_step(choices, "before its sink")
        query.sinks.write(number, rows, self._program)
        query.driver_step(choices, "after its sink")
        self._advance(records)
        ids = tuple(map(tuple, unique_ids)) if query.format_version == 2 else ()
        query.add_commit(number, _Commit(self._watermark, ids))
        micro_batch = MicroBatch(number, records, planned.watermark, planned.now, self._program)
        query.committed.append(micro_batch)
        query.note(
            f"batch {number} committed: {sum(rows.values())} rows {_digest(rows)}, "
            f"then {self._watermark}"
        )
        self._starts, self._number = planned.ends, number + 1
        self._last_watermark = planned.watermark
        query.driver_step(choices, "after its commit")
        query.maintain(choices)

    def _advance(self, records: Sequence[Any]) -> None:
        """Move the watermark, as `WatermarkTracker.updateWatermark` does."""
        if not self._timed:
            return
        for at in self._timed:
            batch = records[at]
            new = self._program.sources[at].watermark([] if batch is None else [batch])
            if new is None:
                self._watermarks.setdefault(at, 0)
            else:
                self._watermarks[at] = max(new, self._watermarks.get(at, new))
        self._watermark = max(self._watermark, min(self._watermarks.values()))

    # Stages

    def _stages(
        self, number: int, planned: _Offsets, records: Sequence[Any], choices: Choices
    ) -> tuple[Rows, list[list[str]]]:
        query, partitions = self._query, self._query.partitions
        properties = {
            "sql.streaming.queryId": "query",
            "spark.jobGroup.id": self._run_id,
            "streaming.sql.batchId": str(number),
            "spark.sql.streaming.internal.stateStore.partitions": str(partitions),
            "spark.sql.shuffle.partitions": str(partitions),
        }
        packed: list[list[pa.RecordBatch]] = [[] for _ in self._operators]
        offsets: dict[int, int] = {}
        for at, operator in enumerate(self._operators):
            first = 0
            for input_number, mine in enumerate(operator.inputs):
                if not mine.is_source:
                    offsets[mine.number] = first
                    first += partitions
                    continue
                batch = records[mine.number]
                if batch is None:
                    continue
                for some in _split(batch, query.split(choices)):
                    with in_task(first, 0, properties):
                        keyed = operator.add_key_groups(input_number, some)
                        packed[at] += self._packings[at](iter([keyed]))
                    first += 1
        # The query may be a later branch of a union, behind which Spark numbers its tasks on.
        last = len(self._operators) - 1
        offsets[last] = choices.integer("tasks of other branches", 0, 3)
        rows: list[pa.RecordBatch] = []
        unique_ids: list[list[str]] = []
        for at in range(len(self._operators)):
            inner = choices.within(f"operator {at}")
            query.move_zombies(inner)
            tasks = self._shuffle(at, packed[at], inner, is_first=number == 0)
            ids = []
            for partition, shuffled in enumerate(tasks):
                task = StateTask(
                    at,
                    partition,
                    partition + offsets.get(at, 0),
                    number,
                    query.unique_id(at, partition, number),
                    Times(planned.now, planned.watermark),
                    self._modes[at],
                    self._plans[at],
                    False,
                    properties,
                    shuffled,
                    self._finish(at),
                )
                mine_ = inner.within(f"task {partition}")
                done = query.run_task(task, mine_)
                ids.append(done.unique_id)
                if query.rerun(mine_):
                    query.note(f"{task.name}: its output is lost")
                    # Spark takes the first id that it was told (`getStateStoreCheckpointInfo`).
                    done = query.run_task(task, mine_.within("again"))
                if at in self._consumers:
                    packed[self._consumers[at][0]] += done.result
                else:
                    rows += done.result
            unique_ids.append(ids)
            query.driver_step(choices, f"after operator {at}")
        return rows_of(rows), unique_ids

    def _shuffle(
        self, at: int, packed: Sequence[pa.RecordBatch], choices: Choices, *, is_first: bool
    ) -> list[Shuffled]:
        partitions = self._query.partitions
        rows: list[dict[int, list[tuple[int, bytes]]]] = [{} for _ in range(partitions)]
        for batch in packed:
            keys = batch.column(KEY_GROUP).to_pylist()
            origins = batch.column("origin").to_pylist()
            for key, origin, payload in zip(keys, origins, batch.column("payload").to_pylist()):
                mine = rows[index_of(key, partitions)]
                mine.setdefault(key, []).append((origin, payload))
        initial: list[dict[int, list[bytes]]] = [{} for _ in range(partitions)]
        if is_first:
            for key, payload in self._operators[at].initial() or ():
                initial[index_of(key, partitions)].setdefault(key, []).append(payload)
        order = choices.stream("shuffle")
        for of_partition in rows:
            for key, arrived in of_partition.items():
                if len(arrived) > 1:
                    of_partition[key] = order.shuffle(arrived)
        return [Shuffled(*each) for each in zip(rows, initial)]

    def _finish(self, at: int) -> Callable[[list[tuple[int, bytes]]], Any]:
        consumer = self._consumers.get(at)
        unpack = self._unpackers[at]

        def finish(rows: list[tuple[int, bytes]]) -> list[pa.RecordBatch]:
            batches = []
            if rows:
                numbers, payloads = zip(*rows)
                cells = pa.RecordBatch.from_arrays(
                    [pa.array(numbers, pa.int32()), pa.array(payloads, pa.binary())],
                    names=["output", "payload"],
                )
                batches = list(unpack(iter([cells])))
            if consumer is None:
                return batches
            behind, number = consumer
            operator = self._operators[behind]
            keyed = [operator.add_key_groups(number, each) for each in batches]
            return list(self._packings[behind](iter(keyed)))

        return finish


def _digest(rows: Rows) -> str:
    """Return eight characters that differ between rows, whatever their order."""
    return f"{zlib.crc32(repr(sorted(map(repr, rows.items()))).encode()):08x}"


def _split(batch: pa.RecordBatch, count: int) -> list[pa.RecordBatch]:
    """Divide records into as many contiguous parts, of which the last may be empty."""
    size = -(-batch.num_rows // count)
    return [batch.slice(at * size, size) for at in range(count)]
