# SPDX-License-Identifier: Apache-2.0
"""A relay: the processor in Spark's worker that lets a keeper serve the key groups of its task.

`_host.keeper` says why there are keepers, and what is safe.  A relay translates Spark's rows, sends
them to the keeper of its partition, makes the keeper's calls of Spark's state store, and hands the
results to Spark.

If there is no keeper to be had, or if it is lost in the middle of a task, the relay opens the real
processor itself.  That needs one thing from the keeper: what the task has read from the home of its
partition, which a second reading would not give again (`KeyGroupTask.memory`).
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import pickle
import socket
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NoReturn

import attrs
from pyspark import TaskContext
from pyspark.sql.streaming import StatefulProcessor

from pyflinklike._private_directory import private_directory
from pyflinklike.spark._host.blob_map import LOG_TYPES
from pyflinklike.spark._host.collector_freeze import freeze_imports
from pyflinklike.spark._host.keeper import (
    ASKED,
    BACKLOG,
    CLOSE,
    DONE,
    FAILED,
    fork_keeper,
    make_call,
    receive,
    send,
)
from pyflinklike.spark._host.task import QueryRun, run_of_query
from pyflinklike.spark._host.translations import FRAMES, PLAIN, ROWS, Translation
from pyflinklike.spark._wire.key_groups import index_of
from pyflinklike.spark._wire.payloads import partitions_of_state

_FREE_S: Final = 20.0
"""Seconds that a relay waits for a keeper that serves another task, or does not answer."""
_READY_S: Final = 600.0
"""Seconds that a relay waits for a keeper that imports the user's modules."""
_PER_SLOT: Final = 2
"""The most keepers of an operator for each slot of an executor."""
_MANY_PER_SLOT: Final = 8
"""The number of all keepers for each slot from which on those that are idle for long end early."""
_LONG_IDLE_S: Final = 60.0
"""Seconds without a task after which a keeper ends if there are many; as Spark's workers."""


@attrs.frozen
class Relaying:
    """The facts with which a worker finds the keeper of its task.

    Args:
        plans: Distinguishes the operators of a query.
        slots: The number of tasks that an executor runs at once; 0 if only the executor knows.
        has_times: Whether Spark gives the task processing times and watermarks.
        takes_frames: Whether Spark hands rows over as pandas frames.
    """

    plans: str
    slots: int
    has_times: bool
    takes_frames: bool


class KeeperLostError(Exception):
    """The keeper is gone, or says what no keeper says."""


class TaskHandle:
    """Spark's handle of a task, on which several processors may declare the same state variable."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self._variables: dict[str, Any] = {}
        self.registerTimer, self.deleteTimer = handle.registerTimer, handle.deleteTimer

    def getMapState(self, name: str, *types: Any) -> Any:  # noqa: N802 - Spark's name
        """Return a state variable; Spark hears of it once."""
        if name not in self._variables:
            self._variables[name] = self._handle.getMapState(name, *types)
        return self._variables[name]

    def call(self, method: str, variable: str | None, arguments: tuple[Any, ...]) -> Any:
        """Make a call that a keeper asks for."""
        if variable is None:
            return getattr(self, method)(*arguments)
        found = getattr(self.getMapState(variable, *LOG_TYPES), method)(*arguments)
        return (bytes(found[0]),) if method == "getValue" and found is not None else found


class RelayProcessor(StatefulProcessor):
    """Lets a keeper serve the key groups of a task, or serves them itself if it must.

    Args:
        pickled: The processor, as the driver has pickled it.
        variables: The names of its state variables.
        relaying: The fields of `Relaying`.
    """

    def __init__(
        self, pickled: bytes, variables: Sequence[str], relaying: Mapping[str, Any]
    ) -> None:
        self._pickled, self._variables = pickled, variables
        self._relaying = Relaying(**relaying)
        self._translation: Translation = FRAMES if self._relaying.takes_frames else ROWS
        self._keeper: Connection | None = None
        self._processor: Any = None
        """The real processor, if there is no keeper."""
        self._memory: Any = None

    def init(self, handle: Any) -> None:
        """Declare the state variables."""
        self._handle = TaskHandle(handle)
        for name in self._variables:
            self._handle.getMapState(name, *LOG_TYPES)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        """Serve a key group that has data."""
        packed = self._translation.read_payloads(rows)
        results = self._ask("rows", int(key[0]), packed, timerValues)
        return self._translation.write_results(results)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: Any,  # noqa: N803
        expiredTimerInfo: Any,  # noqa: N803
    ) -> Iterator[Any]:
        """Serve a key group that has no data but timers that may be due."""
        expiry = int(expiredTimerInfo.getExpiryTimeInMs())
        results = self._ask("timer", int(key[0]), expiry, timerValues)
        return self._translation.write_results(results)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:  # noqa: N802, N803
        """Begin a key group with its part of a savepoint."""
        rows = self._translation.read_initial(initialState)
        self._ask("initial", int(key[0]), rows, timerValues)

    def close(self) -> None:
        """End the task."""
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            if self._processor is not None:
                self._processor.close()
            return
        # If the keeper is lost here, all key groups are served, and nothing is missing.
        with contextlib.closing(keeper), contextlib.suppress(KeeperLostError):
            self._converse(keeper, CLOSE)

    def _ask(self, call: str, key: int, content: Any, timer_values: Any) -> list[Any]:
        """Let the keeper make a call for a grouping key, or make it here."""
        times = (0, 0)
        if self._relaying.has_times:
            times = (
                int(timer_values.getCurrentProcessingTimeInMs()),
                int(timer_values.getCurrentWatermarkInMs()),
            )
        message = (call, key, content, times)
        if self._processor is None:
            self._keeper = self._keeper or self._reach(key)
        if self._keeper is not None:
            try:
                results, self._memory = self._converse(self._keeper, message)
                return results
            except BaseException as error:
                self._keeper.close()
                self._keeper = None
                if not isinstance(error, KeeperLostError):
                    raise
        if self._processor is None:
            self._processor = self._open_processor()
        return make_call(self._processor, message)

    def _reach(self, key: int) -> Connection | None:
        return reach_keeper(self._relaying, self._pickled, key)

    def _converse(self, keeper: Connection, message: Any) -> tuple[list[Any], Any]:
        """Send a call, give the keeper what it asks for, and make the changes of the call.

        Raises:
            KeeperLostError: The keeper is lost, and nothing was changed.
        """
        answer = _exchange(keeper, message)
        while answer[0] == ASKED:
            answer = _exchange(keeper, self._handle.call(*answer[1]))
        if answer[0] == FAILED:
            _raise_carried(*answer[1:])
        _, changes, results, memory = answer
        for each in changes:
            self._handle.call(*each)
        return results, memory

    def _open_processor(self) -> Any:
        processor = pickle.loads(self._pickled).value  # noqa: S301 - of this query's driver
        for each in processor.key_group_tasks():
            each.translation = PLAIN
            each.shares = self._relaying.slots or 1
            each.recall(self._memory)
        processor.init(self._handle)
        return processor


_SIZES = {ASKED: 2, DONE: 4, FAILED: 3}
"""The number of parts of each answer of a keeper."""


def _exchange(keeper: Connection, message: Any) -> Any:
    try:
        send(keeper, message)
        answer = receive(keeper)
        if _SIZES[answer[0]] == len(answer):
            return answer
    except Exception as error:  # what cannot be unpickled may raise anything
        raise KeeperLostError from error
    raise KeeperLostError(answer[0])


def _raise_carried(error: bytes, cause: bytes | None) -> NoReturn:
    """Raise an error of the keeper, as a processor in this worker would have raised it."""
    raise _open_error(error) from None if cause is None else _open_error(cause)


def _open_error(pickled: bytes) -> BaseException:
    try:
        error = pickle.loads(pickled)  # noqa: S301 - of our own keeper
    except Exception as problem:  # a class of the user's that this process cannot import
        return RuntimeError(f"the keeper failed, got an error that cannot be unpickled: {problem}")
    assert isinstance(error, BaseException)
    return error


# The way to the keeper


def reach_keeper(relaying: Relaying, pickled: bytes, grouping_key: int) -> Connection | None:
    """Return a connection to the keeper of a task's partition; fork the keeper if there is none.

    Args:
        relaying: The facts with which workers find it.
        pickled: The processor, as the driver has pickled it, for a new keeper.
        grouping_key: A grouping key of the task.

    Returns:
        None if this worker has to serve the task: it is not reused, it may not fork, or the keeper
        does not answer.
    """
    context = TaskContext.get()
    run = run_of_query(context, relaying.plans)
    # Without Spark's daemon, no process would end the keeper with the executor.
    if context is None or run is None or not _CAN_FORK or os.getppid() != os.getpgrp():
        return None
    slots = relaying.slots or len(os.sched_getaffinity(0))
    partitions = partitions_of_state(context)
    if partitions is None:
        partition, keepers = context.partitionId(), _PER_SLOT * slots
    else:
        partition = index_of(grouping_key, partitions)
        keepers = min(partitions, _PER_SLOT * slots)
    try:
        place = Place(run, partition % keepers)
        keeper = place.connect() or place.found(pickled, keepers, _MANY_PER_SLOT * slots)
        return None if keeper is None else _greet(keeper, place, context)
    except Exception as error:  # whatever it is, the task can do without a keeper
        _LOGGER.info("a task is served in Spark's worker, because its keeper failed: %s", error)
        return None


def _greet(keeper: Connection, place: Place, context: TaskContext) -> Connection | None:
    """Tell a keeper about the task, and wait until it is ready; None if that takes too long."""
    with contextlib.ExitStack() as unless_ready:
        unless_ready.callback(keeper.close)
        send(keeper, context.__dict__)
        for patience in (_FREE_S, _READY_S):
            if not keeper.poll(patience):
                # It hangs, or its task takes long.  The next task gets another keeper in its place.
                place.abandon()
                return None
            receive(keeper)
        unless_ready.pop_all()
    return keeper


_CAN_FORK: Final = sys.platform == "linux"
_LOGGER = logging.getLogger(__name__)


class Place:
    """The socket of a keeper, in a directory that only this user can enter.

    Args:
        run: The run of the operator.
        number: The number of the keeper in the executor.
    """

    def __init__(self, run: QueryRun, number: int) -> None:
        self._root = private_directory(Path(tempfile.gettempdir()))
        # A keeper belongs to the daemon that leads the process group of the workers.
        self._query = f"keeper-{os.getpgrp()}-{_digest(run.query + run.plan)}-"
        self._name = f"{self._query}{_digest(run.run)}-{number}"

    def connect(self) -> Connection | None:
        """Connect to the keeper; None if there is none."""
        return self._connect(self._name)

    def _connect(self, name: str) -> Connection | None:
        with self._short_root() as root, socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.connect(f"{root}/{name}")
            except (FileNotFoundError, ConnectionRefusedError):
                return None
            return Connection(sock.detach())

    def found(self, pickled: bytes, keepers: int, many: int) -> Connection | None:
        """Fork the keeper unless another worker does it meanwhile, and connect to it.

        Args:
            pickled: The processor, as the driver has pickled it.
            keepers: The number of keepers that share the memory for working state.
            many: The number of keepers in an executor from which on idle ones end early.

        Returns:
            None if this worker has threads, which do not live on in a fork.
        """
        with (self._root / "keepers.lock").open("a") as lock:
            # A lock of POSIX: the forked keeper does not hold it, too.
            fcntl.lockf(lock, fcntl.LOCK_EX)
            keeper = self.connect()
            if keeper is not None:
                return keeper
            if threading.active_count() > 1:
                return None
            self._remove_others(many)
            self._fork(pickled, keepers)
        return self.connect()

    def abandon(self) -> None:
        """Remove the socket, so that its keeper ends and another one takes its place."""
        (self._root / self._name).unlink(missing_ok=True)

    def _fork(self, pickled: bytes, keepers: int) -> None:
        self.abandon()
        freeze_imports()
        listener = socket.socket(socket.AF_UNIX)
        with self._short_root() as root:
            listener.bind(f"{root}/{self._name}")
        listener.listen(BACKLOG)
        # Python warns of threads of native libraries.  Arrow and OpenBLAS prepare theirs for a fork.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fork_keeper(listener, self._root / self._name, pickled, keepers)

    def _remove_others(self, many: int) -> None:
        """Remove the sockets of keepers that are not wanted any more; such a keeper ends.

        These are keepers of other runs of the query, and of executors that are gone.  If there are
        many keepers, it is also those that have been idle for a minute: of queries that have ended.
        """
        mine, run = f"keeper-{os.getpgrp()}-", self._name.rpartition("-")[0]
        are_many = len(list(self._root.glob(f"{mine}*"))) >= many
        for path in self._root.glob("keeper-*"):
            if path.name.startswith(mine):
                is_former = path.name.startswith(self._query) and not path.name.startswith(run)
                is_over = is_former or (are_many and _idle_s(path) > _LONG_IDLE_S)
            else:
                is_over = not _is_alive(int(path.name.split("-")[1]))
            if is_over:
                # The keeper looks at its socket when a relay comes, and this one leaves at once.
                with self._connect(path.name) or contextlib.nullcontext():
                    path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _short_root(self) -> Iterator[str]:
        # The path of a socket has room for 107 bytes, and temporary directories may be deep.
        root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{root}"
        finally:
            os.close(root)


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _idle_s(path: Path) -> float:
    """Return the seconds since a keeper has ended a task; it touches its socket then."""
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
