# SPDX-License-Identifier: Apache-2.0
"""Tasks: attempts in Python workers on executors, which fail, run twice, stand still and come late.

A Python worker is a process in Spark; here it is what is process-wide in one: `Worker` puts its own
in place of the module's whenever an attempt of its runs.  An attempt calls Spark at *points*: each
round trip of its state, and each step of its commit; a function that asks a service is at a point,
too, in the middle of a record.  At a point it may fail, be killed with its
worker or its executor, or stand still while others run.  So it may end late, as a *zombie*, when
its micro-batch was done by another attempt long ago.

What an attempt does is the order of `TransformWithStateInPySparkExec` and of its Python side,
`TransformWithStateInPandasUdfUtils`: initial state and rows by grouping key in ascending order,
then expired timers by time, then `close`, then the commit of the state store.  Only then the driver
is told.  On PySpark 3.5 it is that of `applyInPandasWithState` (`group_state`).
"""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import greenlet
from pyspark import TaskContext

from pyflinklike.backends.heap import heap_backend
from pyflinklike.backends.heap.heap_backend import WarmGroups
from pyflinklike.backends.rocksdb import local_database
from pyflinklike.spark._host import task as host_task
from pyflinklike.spark._host.blob_map import log_variable
from pyflinklike.spark._host.group_state_host import FIRST_INITIAL, GroupStateTask
from pyflinklike.spark._host.task import OpenFunctions
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.system_columns import BATCH_TIME
from simulated.choices import Choices
from simulated.functions import Service
from simulated.group_state import GroupStatePlan, GroupStates
from simulated.state_store import LoadedStore, StateStores

if HAS_TRANSFORM_WITH_STATE:  # else there is the host of PySpark 3.5 alone
    from pyflinklike.spark._host.streaming_host import (
        KeyGroupProcessor,
        PandasKeyGroupProcessor,
        SharingProcessor,
    )
    from simulated.keepers import KEEPER_KINDS, Connection, KeeperFate

__all__ = [
    "ASK",
    "COMMIT",
    "REPORT",
    "WRITE",
    "Attempt",
    "Cluster",
    "Executor",
    "Fate",
    "InjectedError",
    "Killed",
    "Shuffled",
    "StateTask",
    "Times",
    "Worker",
    "in_task",
]


_MOST_WORKERS = 3


class InjectedError(MemoryError):  # of which no dead letter is made, wherever it is raised
    """A call of Spark fails, as it does when its side of a socket is gone, or memory runs out."""


class Killed(BaseException):  # no error: the process is gone
    """The process of an attempt ends: it is raised to get out of the code, which sees nothing of it."""


# Executors and their Python workers


class Worker:
    """The process-wide state of one Python worker.

    Args:
        executor: On which it runs.
        number: In the run.
    """

    def __init__(self, executor: Executor, number: int) -> None:
        self.executor = executor
        self.number = number
        self.is_busy = False
        self.served: set[tuple[int, int]] = set()
        """The stores of which it may keep something."""
        self._warm = WarmGroups()
        self._open_functions = OpenFunctions()
        self._open_here: set[Path] = set()
        self._group_state_task: GroupStateTask | None = None

    def swap(self) -> None:
        """Exchange what is process-wide in this process and in the worker."""
        self._warm, heap_backend.WARM_GROUPS = heap_backend.WARM_GROUPS, self._warm
        self._open_functions, host_task.OPEN_FUNCTIONS = (
            host_task.OPEN_FUNCTIONS,
            self._open_functions,
        )
        self._open_here, local_database.OPEN_HERE = local_database.OPEN_HERE, self._open_here
        in_use = GroupStateTask._in_use
        GroupStateTask._in_use, self._group_state_task = self._group_state_task, in_use

    def open_folders(self) -> list[Path]:
        """Return the folders that are open while the worker runs."""
        return sorted(local_database.OPEN_HERE)


class Executor:
    """One executor: its Python workers, the stores in its memory, and its local disk.

    Args:
        number: In the run.
        folder: The local disk of the executor.
    """

    def __init__(self, number: int, folder: str) -> None:
        self.number = number
        self.folder = folder
        self.workers: list[Worker] = []
        self.stores: dict[tuple[int, int], LoadedStore] = {}
        self.keepers: dict[tuple[int, int], Worker] = {}
        """The process-wide state of each keeper, by operator and partition."""
        self.is_alive = True

    def store(self, operator: int, partition: int) -> LoadedStore:
        """Return the store of an operator's partition, an empty one if it has none."""
        key = operator, partition
        if key not in self.stores:
            self.stores[key] = LoadedStore(operator, partition)
        return self.stores[key]

    def keeper(self, operator: int, partition: int) -> Worker:
        """Return the process of the keeper of a partition, which is forked if there is none."""
        return self.keepers.setdefault((operator, partition), Worker(self, -1))

    def end_keepers(self) -> None:
        """End all keepers, with the executor."""
        for each in self.keepers.values():
            each.swap()
            host_task.OPEN_FUNCTIONS.close_all()
            each.swap()
        self.keepers.clear()

    def end_worker(self, worker: Worker) -> None:
        """End a Python worker."""
        if worker in self.workers:
            self.workers.remove(worker)

    def holds(self, operator: int, partition: int) -> bool:
        """Return whether an attempt that has not ended holds the store."""
        store = self.stores.get((operator, partition))
        return store is not None and store.is_held


class Cluster:
    """The executors of a run.

    Args:
        choices: Decide which executor and which worker takes a task.
        folder: Where executors have their local disks.
    """

    def __init__(self, choices: Choices, folder: str) -> None:
        self._folder = folder
        self._executors = 0
        self._workers = 0
        self.executors: list[Executor] = []
        # In production a partition mostly stays where it is: its worker has the key groups warm.  Only
        # then does it show what a worker keeps wrongly while others go on with the group.
        self._strays = choices.one_of("partitions stray", (1.0, 0.25, 0.05))
        self._has_keepers = choices.happens("keepers", 0.6)
        self._keepers_fail = choices.one_of("keepers fail", (0.1, 0.02, 0.3))
        for _ in range(choices.integer("executors", 1, 3)):
            self.add()

    def add(self) -> Executor:
        """Start an executor."""
        executor = Executor(self._executors, f"{self._folder}/{self._executors}")
        self._executors += 1
        self.executors.append(executor)
        return executor

    def lose(self, executor: Executor) -> None:
        """End an executor with all that it has."""
        executor.is_alive = False
        executor.stores.clear()
        executor.workers.clear()
        executor.end_keepers()
        if executor in self.executors:
            self.executors.remove(executor)
        if not self.executors:
            self.add()

    def churn(self, choices: Choices, share: float) -> None:
        """Let idle workers and executors go, as time does.

        Args:
            choices: Decide which.
            share: How often one goes.
        """
        for executor in list(self.executors):
            if any(each.is_busy for each in executor.workers):
                continue
            if choices.happens("executor goes", share / 4):
                self.lose(executor)
            elif executor.workers and choices.happens("worker goes", share):
                executor.workers.pop(0)

    def lose_all(self) -> None:
        """End all executors."""
        for each in list(self.executors):
            self.lose(each)

    def place(self, choices: Choices, operator: int, partition: int) -> tuple[Executor, Worker]:
        """Choose the executor and the worker of an attempt.

        Two attempts of one partition are never on one executor: Spark's speculation asks for another
        one, and the store's lock would keep the second waiting (`RocksDB.acquire`).
        """
        free = [each for each in self.executors if not each.holds(operator, partition)]
        if not free:
            free = [self.add()]
        # Where the store is loaded is where Spark prefers to run (`StateStoreRDD`).
        free.sort(key=lambda each: (operator, partition) not in each.stores)
        does_stray = self._strays == 1 or choices.happens("strays", self._strays)
        at = choices.integer("executor", 0, 2 * len(free) - 1) if does_stray else 0
        executor = free[at if at < len(free) else 0]
        worker = self._worker(executor, choices, (operator, partition), does_stray=does_stray)
        worker.served.add((operator, partition))
        return executor, worker

    def keeper_fate(self, choices: Choices) -> KeeperFate | None:
        """Decide what becomes of the keeper of an attempt; None where there are no keepers."""
        if not self._has_keepers:
            return None
        if not choices.happens("keeper fails", self._keepers_fail):
            return KeeperFate()
        return KeeperFate(
            choices.one_of("keeper", KEEPER_KINDS), choices.integer("keeper's call", 1, 12)
        )

    def _worker(
        self, executor: Executor, choices: Choices, store: tuple[int, int], *, does_stray: bool
    ) -> Worker:
        """Choose an idle worker, or fork one, as Spark does where none is idle."""
        idle = [each for each in executor.workers if not each.is_busy]
        is_few = len(executor.workers) < _MOST_WORKERS
        forks = does_stray and is_few and choices.happens("worker is forked", 0.1)
        if idle and not forks:
            # Spark takes any.  One that has served the store tells more: its memory may be wrong.
            idle.sort(key=lambda each: store not in each.served)
            at = choices.integer("worker", 0, 2 * len(idle) - 1) if does_stray else 0
            return idle[at if at < len(idle) else 0]
        worker = Worker(executor, self._workers)
        self._workers += 1
        executor.workers.append(worker)
        return worker


# One attempt


@attrs.frozen
class Shuffled:
    """The input of one state task.

    Args:
        rows: Rows of payloads by grouping key: origin and payload.
        initial: Payloads of the initial state by grouping key.
    """

    rows: Mapping[int, Sequence[tuple[int, bytes]]]
    initial: Mapping[int, Sequence[bytes]]


@attrs.frozen
class Times:
    """Spark's times of a micro-batch.

    Args:
        now: In ms.
        watermark: In ms.
    """

    now: int
    watermark: int = 0

    def getCurrentProcessingTimeInMs(self) -> int:
        """Return the time of the micro-batch."""
        return self.now

    def getCurrentWatermarkInMs(self) -> int:
        """Return the watermark of the micro-batch."""
        return self.watermark


@attrs.frozen
class StateTask:
    """A task of a state operator in one micro-batch.

    Args:
        operator: The number of the operator.
        partition: The partition of its state.
        stage_partition: The partition that Spark tells the task, which a union shifts.
        batch: The number of the micro-batch, and the version to load.
        unique_id: Of the version to load, in format 2.
        times: Of the micro-batch.
        mode: The time mode of the operator.
        plan: What Spark ships, pickled: the operator's plan, a tuple of the plans of operators that
            share the state, or a `GroupStatePlan` on PySpark 3.5.
        pandas: Whether Spark hands rows over as Spark 4.0 does.
        properties: Spark's local properties.
        input: What was shuffled to it.
        finish: Makes what the next stage reads of the results: (output, payload).
    """

    operator: int
    partition: int
    stage_partition: int
    batch: int
    unique_id: str
    times: Times
    mode: TimeMode
    plan: bytes
    pandas: bool
    properties: Mapping[str, str]
    input: Shuffled
    finish: Callable[[list[tuple[int, bytes]]], Any]

    @property
    def name(self) -> str:
        """The task in the history."""
        return f"batch {self.batch} operator {self.operator} task {self.partition}"


class _Context:
    """The `TaskContext` of Spark that a task sees."""

    def __init__(self, partition: int, attempt: int, properties: Mapping[str, str]) -> None:
        self._partition, self._attempt, self._properties = partition, attempt, properties

    def partitionId(self) -> int:
        return self._partition

    def attemptNumber(self) -> int:
        return self._attempt

    def getLocalProperty(self, name: str) -> str | None:
        return self._properties.get(name)


@contextmanager
def in_task(partition: int, attempt: int, properties: Mapping[str, str]) -> Iterator[None]:
    """Run as a task that has no state."""
    former: Any = TaskContext._taskContext
    TaskContext._taskContext = _Context(partition, attempt, properties)  # type: ignore[assignment]
    try:
        yield
    finally:
        TaskContext._taskContext = former


def _answer() -> None:
    """Answer at once, as a service that never fails."""


COMMIT = -1
"""The point before the state store commits: the Python worker has ended its part."""
REPORT = -2
"""The point before the driver is told: the files are written."""
WRITE = -3
"""A point before a blob is written, of which the state in memory knows already."""
ASK = -4
"""A point in the middle of a record: a function asks a service."""


@attrs.frozen
class Fate:
    """What becomes of an attempt.

    Args:
        kind: "ends", "fails", "worker dies", "executor dies" or "stalls".
        point: At which of its points: a number from 1, `COMMIT`, `REPORT`, `WRITE` or `ASK`.
        passed: How many points of that kind it passes before.
    """

    kind: str = "ends"
    point: int = 0
    passed: int = 0


class Attempt:
    """One attempt of a state task.

    Args:
        task: The task.
        number: Of the attempt, from 0.
        executor: Where it runs.
        worker: In which Python worker.
        stores: The state stores.
        fate: What becomes of it.
        keeper: What becomes of its keeper; None if the worker serves the key groups.
    """

    def __init__(
        self,
        task: StateTask,
        number: int,
        executor: Executor,
        worker: Worker,
        stores: StateStores,
        fate: Fate,
        keeper: KeeperFate | None = None,
    ) -> None:
        self.task = task
        self.number = number
        self.executor = executor
        self.worker = worker
        self.fate = fate
        self.points = 0
        self.result: Any = None
        self.unique_id = ""
        self.error: BaseException | None = None
        self.has_written = False
        self.is_python_done = False
        self.was_hit = False
        """Whether the simulation made it fail."""
        self._disk: list[tuple[Path, Path]] = []
        self._stores = stores
        self._context = _Context(task.stage_partition, number, task.properties)
        self._outside: Any = None
        self._greenlet: Any = None
        self._budget = 0
        self._is_inside = False
        self._process = worker
        """The process whose code runs: the worker, or its keeper."""
        self._keeper_fate = keeper
        self._connection: Connection | None = None
        self._paused: Any = None
        self._is_killed = False
        self._kill_kind = ""
        # From now on, so that no other attempt of the partition comes to the executor.
        self._store = executor.store(task.operator, task.partition)
        self._store.is_held = True

    @property
    def name(self) -> str:
        """The attempt in the history."""
        return f"{self.task.name} attempt {self.number}"

    @property
    def has_ended(self) -> bool:
        """Whether it succeeded or failed."""
        return self.result is not None or self.error is not None

    # Running, from outside

    def run(self) -> None:
        """Run to the end, or to the point where it stands still."""
        if self.fate.kind == "stalls":
            self.resume(1 << 30)
        else:
            self._work()

    def resume(self, points: int) -> None:
        """Run for some points, in a greenlet of its own."""
        if self.has_ended:
            return
        if self._greenlet is None:
            self.worker.is_busy = True
            self._greenlet = greenlet.greenlet(self._work)
        self._budget = points
        self._outside = greenlet.getcurrent()
        paused, self._paused = self._paused or self._greenlet, None
        paused.switch()

    def kill(self) -> None:
        """End the process of an attempt that stands still."""
        if self._greenlet is not None and not self.has_ended:
            self._outside = greenlet.getcurrent()
            paused, self._paused = self._paused or self._greenlet, None
            self._is_killed = True
            paused.throw(Killed)
        elif not self.has_ended:
            self.error = Killed()
            self._stores.abort(self._store)

    def _pause(self) -> None:
        was_inside = self._is_inside
        if was_inside:
            self._leave()
        # It may be the greenlet of the keeper.
        self._paused = greenlet.getcurrent()
        try:
            self._outside.switch()
        except Killed:
            if was_inside:
                self._enter()
            self._die()
            raise
        if was_inside:
            self._enter()

    # Running, from inside

    def point(self, at: int = 0) -> None:
        """Call Spark: here an attempt fails, or stands still.

        Args:
            at: `COMMIT`, `REPORT`, `WRITE` or `ASK`; 0 for another round trip.
        """
        self.points += 1
        if at and at == self.fate.point and self.fate.passed:
            self.fate = attrs.evolve(self.fate, passed=self.fate.passed - 1)
        elif self.points == self.fate.point or (at and at == self.fate.point):
            kind, self.fate = self.fate.kind, Fate()
            self.was_hit = kind != "stalls"
            if kind == "fails":
                raise InjectedError(self.name)
            if kind in ("worker dies", "executor dies"):
                self._is_killed = kind == "executor dies" or self._process is self.worker
                self._kill_kind = kind
                self._die()
                raise Killed(kind)
            if kind == "stalls":
                self._budget = 0
        if self._greenlet is not None:
            self._budget -= 1
            if self._budget < 0:
                self._pause()

    def _die(self) -> None:
        """Note what a process leaves behind that is killed now."""
        self.keep_disk()
        if self._process is not self.worker and self._connection is not None:
            self._connection.is_dead = True

    def raise_if_killed(self) -> None:
        """Raise for the worker, too, if it is killed with its keeper.

        Raises:
            Killed: It is.
        """
        if self._is_killed:
            raise Killed(self._kill_kind)

    def _ask(self) -> None:
        self.point(ASK)

    def _work(self) -> None:
        self.worker.is_busy = True
        try:
            self.result = self._outputs()
        except BaseException as error:  # whoever runs it looks at it
            self.error = error
            if not self.has_written:
                self._stores.abort(self._store)
        finally:
            self.worker.is_busy = False

    def _outputs(self) -> Any:
        self.point()
        store = self._store
        self._stores.load(store, self.task.batch, self.task.unique_id)
        self._enter()
        try:
            rows = self._serve(store)
            outputs = self.task.finish(rows)
        except Killed:
            self._close_connection()
            self.lose_memory()
            raise
        finally:
            self._close_connection()
            self._leave()
        self.is_python_done = True
        self.point(COMMIT)
        self.unique_id = self._stores.commit(store)
        self.has_written = True
        self.point(REPORT)
        return outputs

    def _serve(self, store: LoadedStore) -> list[tuple[int, bytes]]:
        task = self.task
        shipped = pickle.loads(task.plan)  # of this very process
        if isinstance(shipped, GroupStatePlan):
            return _without_empty(self._serve_groups(shipped.make_task(), store))
        is_relayed = self._keeper_fate is not None
        processor = self._relay(shipped) if is_relayed else self._make_processor()
        handle: Any = _Handle(self, store)
        processor.init(handle)
        results: list[Any] = []
        rows, initial = task.input.rows, task.input.initial
        for key in sorted(rows.keys() | initial.keys()):
            handle.key = key
            for each in self._initial_rows(initial.get(key, ())):
                processor.handleInitialState((key,), each, task.times)
            if key in rows:
                handed = self._rows(rows[key])
                results += processor.handleInputRows((key,), iter(handed), task.times)
        for due, key in self._expire(store):
            handle.key = key
            results += processor.handleExpiredTimer((key,), task.times, _Expired(due))
            handle.deleteTimer(due)
        processor.close()
        if task.pandas:
            results = [row for frame in results for _, row in frame.iterrows()]
        return _without_empty((row["output"], row["payload"]) for row in results)

    def _serve_groups(self, function: GroupStateTask, store: LoadedStore) -> list[Any]:
        task = self.task

        def pass_point(is_write: bool) -> None:
            self.point(WRITE if is_write else 0)

        groups = GroupStates(
            function, store, task.mode, task.times.now, task.times.watermark, pass_point
        )
        rows = {key: list(mine) for key, mine in task.input.rows.items()}
        # `applyInPandasWithState` takes no initial state: it comes among the rows, before all others.
        parts = [(key, each) for key, mine in task.input.initial.items() for each in mine]
        for at, (key, payload) in enumerate(parts):
            rows.setdefault(key, []).append((FIRST_INITIAL - at, payload))
        return groups.run(rows)

    def _expire(self, store: LoadedStore) -> list[tuple[int, int]]:
        """Return the timers that are due, as `TimerStateImpl.getExpiredTimers` finds them."""
        if self.task.mode is TimeMode.NONE:
            return []
        is_event = self.task.mode is TimeMode.EVENT_TIME
        now = self.task.times.watermark if is_event else self.task.times.now
        return sorted(each for each in store.contents.timers if each[0] <= now)

    def _rows(self, rows: Sequence[tuple[int, bytes]]) -> list[Any]:
        time = self.task.times.now
        made = [{"origin": at, BATCH_TIME: time, "payload": payload} for at, payload in rows]
        return _frames(made) if self.task.pandas else made

    def _initial_rows(self, payloads: Iterable[bytes]) -> list[Any]:
        time = self.task.times.now
        made = [{BATCH_TIME: time, "payload": payload} for payload in payloads]
        return _frames(made) if self.task.pandas else made

    # The worker

    @contextmanager
    def inside(self, process: Worker) -> Iterator[None]:
        """Let code run in another process, whose process-wide state is then in place."""
        former, self._process = self._process, process
        former.swap()
        process.swap()
        try:
            yield
        finally:
            process.swap()
            former.swap()
            self._process = former

    def _close_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _reach(self, *_: Any) -> Any:
        """Connect to the keeper, as `reach_keeper` does."""
        fate, task = self._keeper_fate, self.task
        if fate is None or fate.kind == "is silent":
            return None
        at = task.operator, task.partition
        self._connection = Connection(
            self,
            self.executor.keeper(*at),
            self._make_processor,
            fate,
            lambda: self.executor.keepers.pop(at, None),
        )
        return self._connection

    def _make_processor(self) -> Any:
        return _processor_of(pickle.loads(self.task.plan), pandas=self.task.pandas)

    def _relay(self, shipped: Any) -> Any:
        """Make the processor that lets the keeper serve."""
        from pyflinklike.spark._host.relay import RelayProcessor

        relaying = {
            "plans": "simulated",
            "slots": 1,
            "has_times": self.task.mode is not TimeMode.NONE,
            "takes_frames": self.task.pandas,
        }
        operators = len(shipped) if isinstance(shipped, tuple) else 1
        variables = [log_variable(each) for each in range(operators)]
        pickled = pickle.dumps(_Shipped(self.task.plan, self.task.pandas))
        relay = RelayProcessor(pickled, variables, relaying)
        relay._reach = self._reach  # type: ignore[assignment, method-assign]
        return relay

    def _enter(self) -> None:
        self._process.swap()
        self._is_inside = True
        Service.ask = self._ask
        os.environ["SPARK_LOCAL_DIRS"] = self.executor.folder
        TaskContext._taskContext = self._context  # type: ignore[assignment]

    def _leave(self) -> None:
        self._process.swap()
        self._is_inside = False
        Service.ask = _answer
        TaskContext._taskContext = None

    def keep_disk(self) -> None:
        """Copy the local files of a process that is about to be killed."""
        if not self._is_inside:
            return
        kept = {path for path, _ in self._disk}
        for path in self.worker.open_folders():
            if path.exists() and path not in kept:
                copy = path.with_name(f"{path.name}.as-killed")
                shutil.copytree(path, copy)
                self._disk.append((path, copy))

    def lose_memory(self) -> None:
        """Undo what the code wrote to the local disk on its way out: a killed process cannot."""
        for path, copy in self._disk:
            shutil.rmtree(path, ignore_errors=True)
            copy.rename(path)
        self._disk.clear()


def _processor_of(shipped: Any, *, pandas: bool) -> Any:
    kind = PandasKeyGroupProcessor if pandas else KeyGroupProcessor
    if isinstance(shipped, tuple):
        return SharingProcessor([kind(each) for each in shipped])
    return kind(shipped)


@attrs.frozen
class _Shipped:
    """What Spark's pickle of a processor opens to."""

    plan: bytes
    pandas: bool

    @property
    def value(self) -> Any:
        return _processor_of(pickle.loads(self.plan), pandas=self.pandas)


def _without_empty(results: Iterable[Any]) -> list[tuple[int, bytes]]:
    """Return output and payload of each result that has one: others bring numbers alone."""
    return [(int(output), payload) for output, payload, *_ in results if payload is not None]


def _frames(rows: list[dict[str, Any]]) -> list[Any]:
    import pandas as pd

    return [pd.DataFrame(rows)] if rows else []


@attrs.frozen
class _Expired:
    time: int

    def getExpiryTimeInMs(self) -> int:
        return self.time


class _Handle:
    """Spark's handle of a state operator: each call is a round trip."""

    def __init__(self, attempt: Attempt, store: LoadedStore) -> None:
        self.key = 0
        self._attempt, self._store = attempt, store
        self._declared: set[str] = set()

    def getMapState(self, name: str, *_: str) -> _MapState:
        assert name not in self._declared, f"Spark refuses a second state variable {name!r}"
        self._declared.add(name)
        return _MapState(self, name, self._attempt, self._store)

    def registerTimer(self, time: int) -> None:
        self._attempt.point()
        self._store.register(self.key, time)

    def deleteTimer(self, time: int) -> None:
        self._attempt.point()
        self._store.delete(self.key, time)


class _MapState:
    def __init__(self, handle: _Handle, name: str, attempt: Attempt, store: LoadedStore) -> None:
        self._handle, self._name, self._attempt, self._store = handle, name, attempt, store

    def containsKey(self, key: tuple[int]) -> bool:
        found = key[0] in self._store.contents.blobs.get((self._name, self._handle.key), ())
        # The value is read next if it is there.  So each read is one point, whether the worker asks or not.
        if not found:
            self._attempt.point()
        return found

    def getValue(self, key: tuple[int]) -> tuple[bytes] | None:
        self._attempt.point()
        blobs = self._store.contents.blobs.get((self._name, self._handle.key))
        blob = None if blobs is None else blobs.get(key[0])
        return None if blob is None else (blob,)

    def updateValue(self, key: tuple[int], value: tuple[bytes]) -> None:
        self._attempt.point(WRITE)
        self._store.put((self._name, self._handle.key), key[0], bytes(value[0]))

    def clear(self) -> None:
        self._attempt.point()
        self._store.clear((self._name, self._handle.key))
