# SPDX-License-Identifier: Apache-2.0
"""Keepers: each is a process beside Spark's Python workers and keeps the state of some partitions.

Spark hands a task to whichever Python worker is idle: the one that has waited longest
(`PythonWorkerFactory`,
https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/api/python/PythonWorkerFactory.scala).
If workers kept the working state, then after some micro-batches each of them would hold a copy of
every partition's state, and most copies would be old.  So the state of a partition is in one process
of an executor, its keeper, and the worker that has the task is a *relay* (`_host.relay`).  It passes
the payloads of each key group on to the keeper, and does what the keeper asks of Spark's state store.

    JVM  <->  worker (relay)  <->  keeper (working state, the user's function)
                any worker          always the same one

The first relay of a partition forks its keeper from itself, before it has opened the user's pickle.
A keeper serves one task after another, each over one connection.  It runs the same processor that a
worker would run.  Only Spark's handle is another one (`RelayedHandle`).

**What is safe.**  A keeper is a cache: all that counts is in Spark's state store.  The nonce in the
head of a key group says whether the keeper's state is current (`_changelog.key_group_log`).  If a keeper
is gone, busy or unusable, the relay serves the task itself, from the log.  A task that is killed ends
the connection, and the keeper drops what the task had begun.

**How it ends.**  A keeper belongs to the process group of Spark's Python daemon, which sends SIGHUP to
the group when the executor ends.  A keeper also ends if the daemon is gone, if its socket was deleted
(a later run of the query does that), or ten minutes after its last task.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import pickle
import select
import socket
import stat
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, NoReturn

from pyspark import TaskContext

from pyflinklike.errors import PyflinklikeError
from pyflinklike.spark._host.task import OPEN_FUNCTIONS, KeyGroupTask
from pyflinklike.spark._host.translations import PLAIN

_IDLE_S: Final = 600.0
"""Seconds after the last task at which a keeper ends; Spark's own workers end after 60."""
_LOOK_S: Final = 5.0
"""Seconds between two looks at whether a keeper is still wanted."""
BACKLOG: Final = 64
"""The most relays that wait for a keeper."""

CLOSE: Final = ("close",)
"""The last call of a task."""
Request = tuple[str, str | None, tuple[Any, ...]]
"""A call of Spark's handle: a method, the state variable it belongs to or None, and arguments."""
_GRACE_S: Final = 10
"""Seconds that a call may go on after its task was killed; most end, and the state stays."""
HERE: Final = "here"
DONE: Final = "done"
ASKED: Final = "asked"
FAILED: Final = "failed"


_LOGGER = logging.getLogger(__name__)


# Messages between a relay and a keeper.  Both belong to one user, and to one executor: no other user
# can enter the directory of the sockets.  So the messages are pickles.


def send(connection: Connection, message: Any) -> None:
    """Send a message."""
    connection.send_bytes(pickle.dumps(message, 5))


def receive(connection: Connection) -> Any:
    """Wait for a message, and return it.

    Raises:
        EOFError, OSError: The other side is gone.
    """
    return pickle.loads(connection.recv_bytes())  # noqa: S301 - see above


# Spark's handle, as a processor in the keeper sees it


class RelayLine:
    """The connection to the relay of one task, with the changes of the present call.

    The relay makes all changes of a call at its end, or none of them.  So a keeper that is lost in
    the middle of a call has changed nothing.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._changes: list[Request] = []
        self._written: dict[tuple[str, Any], Any] = {}
        self._cleared: set[str] = set()

    def change(self, method: str, variable: str | None, *arguments: Any) -> None:
        """Let the relay make a call at the end of the present one."""
        self._changes.append((method, variable, arguments))

    def put(self, variable: str, key: Any, value: Any) -> None:
        """Let a state variable have a value."""
        self.change("updateValue", variable, key, value)
        self._written[variable, key] = value

    def clear(self, variable: str) -> None:
        """Let a state variable be empty."""
        self.change("clear", variable)
        self._written = {
            each: value for each, value in self._written.items() if each[0] != variable
        }
        self._cleared.add(variable)

    def get(self, method: str, variable: str, key: Any) -> Any:
        """Let the relay read a state variable, unless the present call has changed what is asked."""
        if variable in self._cleared or (variable, key) in self._written:
            found = self._written.get((variable, key))
            return found is not None if method == "containsKey" else found
        send(self._connection, (ASKED, (method, variable, (key,))))
        return receive(self._connection)

    def receive(self) -> Any:
        """Return the next call of the relay."""
        return receive(self._connection)

    def answer(self, *content: Any) -> None:
        """End a call: send its results, and all changes."""
        send(self._connection, (DONE, self._changes, *content))
        self._forget_changes()

    def fail(self, *content: Any) -> None:
        """End a call that failed."""
        self._forget_changes()
        send(self._connection, (FAILED, *content))

    def _forget_changes(self) -> None:
        self._changes = []
        self._written.clear()
        self._cleared.clear()


class RelayedVariable:
    """A state variable of Spark's, with the methods of `MapState` that a log needs."""

    def __init__(self, line: RelayLine, name: str) -> None:
        self._line, self._name = line, name

    def containsKey(self, key: Any) -> Any:  # noqa: N802 - Spark's name, as those below
        """Return whether the map has a key."""
        return self._line.get("containsKey", self._name, key)

    def getValue(self, key: Any) -> Any:  # noqa: N802
        """Return the value of a key, or None."""
        return self._line.get("getValue", self._name, key)

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        """Set the value of a key."""
        self._line.put(self._name, key, value)

    def clear(self) -> None:
        """Remove all keys."""
        self._line.clear(self._name)


class RelayedHandle:
    """Spark's handle of a state operator, with the methods that a processor needs."""

    def __init__(self, line: RelayLine) -> None:
        self._line = line

    def getMapState(self, name: str, *_types: Any) -> RelayedVariable:  # noqa: N802
        """Return a state variable, which the relay has declared."""
        return RelayedVariable(self._line, name)

    def registerTimer(self, time_ms: int) -> None:  # noqa: N802
        """Register a timer of the current grouping key."""
        self._line.change("registerTimer", None, time_ms)

    def deleteTimer(self, time_ms: int) -> None:  # noqa: N802
        """Delete a timer of the current grouping key."""
        self._line.change("deleteTimer", None, time_ms)


class _Times:
    """The times of a micro-batch in ms, as Spark's `timerValues` gives them."""

    def __init__(self, processing_time: int, watermark: int) -> None:
        self._processing_time, self._watermark = processing_time, watermark

    def getCurrentProcessingTimeInMs(self) -> int:  # noqa: N802
        return self._processing_time

    def getCurrentWatermarkInMs(self) -> int:  # noqa: N802
        return self._watermark


class _Expired:
    """A timer that has expired, as Spark's `expiredTimerInfo`."""

    def __init__(self, time_ms: int) -> None:
        self._time_ms = time_ms

    def getExpiryTimeInMs(self) -> int:  # noqa: N802
        return self._time_ms


# One task


class KeptTask:
    """Serves one task of a relay.

    Args:
        processor: The processor of the task, new from the driver's pickle.
        line: The connection to the relay.
        shares: The number of keepers that share the memory for working state.
    """

    def __init__(self, processor: Any, line: RelayLine, shares: int = 1) -> None:
        self._processor, self._line = processor, line
        self._tasks: Sequence[KeyGroupTask] = processor.key_group_tasks()
        for each in self._tasks:
            each.is_kept = True
            each.shares = shares
            each.translation = PLAIN
        processor.init(RelayedHandle(line))

    def run(self) -> None:
        """Answer the calls of the relay until it closes the task or is gone."""
        try:
            self._line.answer(None, None)
            while self._answer(self._line.receive()):
                pass
        finally:
            # A task that was closed has no operator any more; what another one has begun must go.
            for each in self._tasks:
                each.give_up()

    def _answer(self, message: Any) -> bool:
        """Make one call; return whether another one may follow."""
        is_last: bool = message == CLOSE
        try:
            results = [] if is_last else make_call(self._processor, message)
            if is_last:
                self._processor.close()
        except (EOFError, ConnectionError):  # the relay is gone
            raise
        except BaseException as error:  # the task fails by it, and not the keeper
            self._line.fail(*carry_error(error))
            return False
        self._line.answer(results, self._tasks[0].memory())
        return not is_last


def make_call(processor: Any, message: tuple[str, int, Any, tuple[int, int]]) -> list[Any]:
    """Let a processor serve a grouping key.

    Args:
        processor: It takes rows without translation.
        message: The kind of call ("rows", "timer" or "initial"), the grouping key, the rows or the
            expiry in ms, and the processing time and watermark in ms.
    """
    what, number, content, now = message
    key, times = (number,), _Times(*now)
    if what == "timer":
        return list(processor.handleExpiredTimer(key, times, _Expired(content)))
    if what == "rows":
        return list(processor.handleInputRows(key, content, times))
    processor.handleInitialState(key, content, times)
    return []


def carry_error(error: BaseException) -> tuple[bytes, bytes | None]:
    """Return an error, and its cause if `report_errors` has given it one, as pickles."""
    cause = error.__cause__ if isinstance(error, PyflinklikeError) else None
    return _pickle_error(error), None if cause is None else _pickle_error(cause)


def _pickle_error(error: BaseException) -> bytes:
    try:
        pickled = pickle.dumps(error)
        pickle.loads(pickled)  # noqa: S301 - our own bytes: some errors can be written and not read
    except Exception:  # pickling may raise anything
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return pickled


# The process


class Keeper:
    """Serves the tasks of some partitions, one after another, while it is wanted.

    Args:
        listener: The socket at which relays arrive.
        path: The path of the socket.
        pickled: The processor, as the driver has pickled it.
        shares: The number of keepers that share the memory for working state.
    """

    def __init__(self, listener: socket.socket, path: Path, pickled: bytes, shares: int) -> None:
        self._listener, self._path, self._pickled = listener, path, pickled
        self._shares = shares
        self._inode = path.stat().st_ino
        self._served_at = time.monotonic()
        self._relay: int | None = None
        """The descriptor of the connection to the relay, while a task is served."""

    def serve(self) -> None:
        """Serve tasks while the keeper is wanted."""
        threading.Thread(target=self._watch_relay, daemon=True).start()
        self._listener.settimeout(_LOOK_S)
        while self._is_wanted():
            with contextlib.suppress(TimeoutError):
                arrived, _ = self._listener.accept()
                arrived.settimeout(None)
                with Connection(arrived.detach()) as connection:
                    self._relay = connection.fileno()
                    self._serve_task(connection)
                    self._relay = None
                self._served_at = time.monotonic()
                with contextlib.suppress(OSError):
                    os.utime(self._path)
                gc.collect()  # as Spark's daemon does after each task

    def _serve_task(self, connection: Connection) -> None:
        try:
            send(connection, HERE)
            context = object.__new__(TaskContext)
            context.__dict__.update(receive(connection))
            TaskContext._setTaskContext(context)
            processor = pickle.loads(self._pickled).value  # noqa: S301 - of this query's driver
            KeptTask(processor, RelayLine(connection), self._shares).run()
        except (EOFError, ConnectionError):
            pass  # the relay has given up, or has died
        except Exception:
            # If it is the user's pickle, the relay tries it as well, and raises the error in its task.
            _LOGGER.warning("a keeper could not serve a task, so its worker does", exc_info=True)
        finally:
            TaskContext._setTaskContext(None)
            sys.stdout.flush()

    def _watch_relay(self) -> NoReturn:
        """End this process if the function goes on although its task was killed.

        Spark kills the worker of a task that is cancelled.  The worker is only the relay, so the
        keeper has to end the call by itself, and no call of Python can be ended from outside.
        """
        gone = 0
        while True:
            time.sleep(1)
            relay = self._relay
            gone = gone + 1 if relay is not None and _has_hung_up(relay) else 0
            if gone > _GRACE_S:
                os._exit(1)

    def _is_wanted(self) -> bool:
        if time.monotonic() - self._served_at > _IDLE_S:
            return False
        try:
            os.kill(os.getpgrp(), 0)
            return self._path.stat().st_ino == self._inode
        except OSError:
            return False

    def end(self) -> None:
        """Close the user's functions, and remove the socket."""
        OPEN_FUNCTIONS.close_all()
        with contextlib.suppress(OSError):
            if self._path.stat().st_ino == self._inode:
                self._path.unlink()


def _has_hung_up(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLRDHUP)
    return any(event & (select.POLLRDHUP | select.POLLHUP) for _, event in poll.poll(0))


def fork_keeper(listener: socket.socket, path: Path, pickled: bytes, shares: int) -> None:
    """Fork a keeper that accepts relays at a socket.

    Args:
        listener: The socket; this process closes it.
        path: The path of the socket.
        pickled: The processor, as the driver has pickled it.
        shares: The number of keepers that share the memory for working state.

    Raises:
        OSError: The system has no room for another process.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        listener.close()
        return
    # Forked twice: init, and not this worker, collects the keeper's exit status.
    try:
        if os.fork() == 0:
            _live(listener, path, pickled, shares)
    finally:
        os._exit(0)


def _live(listener: socket.socket, path: Path, pickled: bytes, shares: int) -> NoReturn:
    try:
        _leave_connections(listener.fileno())
        OPEN_FUNCTIONS.forget()
        _seed_numpy()
        keeper = Keeper(listener, path, pickled, shares)
        try:
            keeper.serve()
        finally:
            keeper.end()
    except BaseException:
        _LOGGER.exception("a keeper has ended early; the next task has another one")
    finally:
        os._exit(0)


def _seed_numpy() -> None:
    """Let the keeper draw other random numbers than its worker; Python's own generator does so."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


def _leave_connections(kept: int) -> None:
    """Let go of the worker's connections, or the JVM would not see that the worker has ended.

    Python's own objects for them stay referenced in the frames below, so the numbers of the
    descriptors must stay in use.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        descriptor = int(name)
        with contextlib.suppress(OSError):
            if descriptor != kept and stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                os.dup2(nothing, descriptor)
