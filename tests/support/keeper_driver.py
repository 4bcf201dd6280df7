# SPDX-License-Identifier: Apache-2.0
"""A daemon with workers, as Spark's, whose tasks have keepers: real processes without Spark.

    python keeper_driver.py <folder for a marker>

This process leads a process group, as the daemon of PySpark does.  Each task runs in a forked
worker.  What the tasks put out goes to stdout as JSON, by the name of the task; at the end this
process ends its group, as the daemon does.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from program_support import Program, packed_records
from pyspark import TaskContext

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark._host import keeper, relay
from pyflinklike.spark._host.driver_pickle import PickledByDriver
from pyflinklike.spark._host.relay import RelayProcessor
from pyflinklike.spark._host.streaming_host import KeyGroupProcessor
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.system_columns import BATCH_TIME

_PATIENCE = 30.0
# A keeper that hangs is waited for, and so is a call whose task is gone: here not for long.
relay._FREE_S = 1.0  # type: ignore[misc]
keeper._GRACE_S = 0  # type: ignore[misc]


class Counting(KeyedProcessFunction):
    """The count of each key, and the process that counts; fails for 0, and never ends for a path."""

    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        if value.n == 0:
            raise ValueError(value.n)
        if value.key.startswith("/"):
            Path(value.key).write_text(f"{os.getpid()}")
            threading.Event().wait()
        self.count.update((self.count.value() or 0) + value.n)
        yield f"{ctx.get_current_key()} {self.count.value()}", os.getpid()


class StoredMap:
    """A map state of Spark's, of the grouping key that is current."""

    def __init__(self, store: Stored, name: str) -> None:
        self._store, self._name = store, name

    def _blobs(self) -> dict[Any, Any]:
        mine: dict[Any, Any] = self._store.blobs.setdefault((self._name, self._store.key), {})
        return mine

    def containsKey(self, key: Any) -> bool:
        return key in self._blobs()

    def getValue(self, key: Any) -> Any:
        return self._blobs().get(key)

    def updateValue(self, key: Any, value: Any) -> None:
        self._blobs()[key] = value

    def clear(self) -> None:
        self._blobs().clear()


class Stored:
    """Spark's handle over a dict."""

    def __init__(self, blobs: dict[Any, Any]) -> None:
        self.key, self.blobs = 0, blobs

    def getMapState(self, name: str, *_: Any) -> StoredMap:
        return StoredMap(self, name)

    def registerTimer(self, _time: int) -> None: ...

    def deleteTimer(self, _time: int) -> None: ...


class Daemon:
    """Forks a worker for each task, and keeps what the tasks commit."""

    def __init__(self) -> None:
        self._program = Program(Counting(), time_mode=TimeMode.NONE)
        self._plan = self._program.plan()
        self.blobs: dict[Any, Any] = {}

    def run(
        self, *records: tuple[str, int], run: str = "run", has_thread: bool = False
    ) -> tuple[list[Any], str]:
        """Run a task of a micro-batch in a worker of its own; return its outputs, and its error."""
        mine, worker = os.pipe()
        if os.fork() == 0:
            self._work(worker, records, run, has_thread=has_thread)
        os.close(worker)
        with os.fdopen(mine, "rb") as answer:
            outputs, error, self.blobs = pickle.load(answer)  # of this very program
        return outputs, error

    def begin(self, key: str) -> int:
        """Begin a task with one record, without waiting for its end; return the worker."""
        mine, worker = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._work(worker, [(key, 1)], "next run", has_thread=False)
        os.close(worker)
        os.close(mine)
        return pid

    def _work(self, end: int, records: Any, run: str, *, has_thread: bool) -> None:
        outputs, error = [], ""
        blobs = {key: dict(mine) for key, mine in self.blobs.items()}
        try:
            outputs = self._serve(blobs, list(records), run, has_thread=has_thread)
        except BaseException as failure:
            error, blobs = f"{type(failure).__name__}: {failure}", self.blobs
        with os.fdopen(end, "wb") as answer:
            pickle.dump((outputs, error, blobs), answer)
        os._exit(0)

    def _serve(self, blobs: Any, records: Any, run: str, *, has_thread: bool) -> list[Any]:
        if has_thread:
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        os.environ["SPARK_REUSE_WORKER"] = "1"
        context: Any = object.__new__(TaskContext)
        context._partitionId = context._attemptNumber = 0
        context._localProperties = {
            "sql.streaming.queryId": "query",
            "spark.jobGroup.id": run,
            "spark.sql.streaming.internal.stateStore.partitions": "1",
        }
        TaskContext._setTaskContext(context)
        pickled = pickle.dumps(PickledByDriver(KeyGroupProcessor(self._plan)))
        facts = {"plans": "plan", "slots": 1, "has_times": False, "takes_frames": False}
        processor, handle = RelayProcessor(pickled, ["log"], facts), Stored(blobs)
        processor.init(handle)
        outputs = []
        for key, rows in sorted(packed_records(self._program, records).items()):
            handle.key = key
            handed = [{"origin": at, "payload": each, BATCH_TIME: 1} for at, each in rows]
            for row in processor.handleInputRows((key,), iter(handed), None):
                if row.payload is not None:
                    outputs += payload_to_batch(row.payload).to_pylist()
        processor.close()
        return outputs


def main() -> None:
    """Run the tasks, and tell."""
    os.setpgid(0, 0)
    daemon = Daemon()
    told: dict[str, Any] = {}

    def tell(name: str, **task: Any) -> None:
        records = task.pop("records", [("a", 1), ("b", 2)])
        rows, error = daemon.run(*records, **task)
        told[name] = {"counts": sorted(r["k"] for r in rows), "by": sorted({r["n"] for r in rows})}
        told[name]["error"] = error

    tell("first")
    tell("second")
    tell("fails", records=[("a", 1), ("b", 0)])
    tell("after it failed")
    os.kill(told["first"]["by"][0], signal.SIGKILL)
    tell("after its keeper was killed")
    second = told["after its keeper was killed"]["by"][0]
    os.kill(second, signal.SIGSTOP)
    tell("beside a keeper that hangs")
    tell("after a keeper that hangs")
    os.kill(second, signal.SIGKILL)
    tell("of the next run", run="next run")
    tell("in a worker with threads", run="run with threads", has_thread=True)
    former, present = (
        told[each]["by"] for each in ("after a keeper that hangs", "of the next run")
    )
    told["left of the former run"] = _await_end(former, _PATIENCE)
    told["left of the present run"] = _await_end(present, 0.0)
    marker = Path(sys.argv[1]) / "begun"
    worker = daemon.begin(str(marker))
    while not marker.exists():
        time.sleep(0.05)
    os.kill(worker, signal.SIGKILL)
    told["left of a call without end"] = _await_end([int(marker.read_text())], _PATIENCE)
    sys.stdout.write(f"{json.dumps(told)}\n")
    sys.stdout.flush()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.kill(0, signal.SIGHUP)


def _await_end(processes: list[int], patience: float) -> list[int]:
    """Return the processes that live when all have ended, or patience has."""
    end = time.monotonic() + patience
    while True:
        alive = [each for each in processes if Path(f"/proc/{each}").exists()]
        if not alive or time.monotonic() > end:
            return alive
        time.sleep(0.1)


if __name__ == "__main__":
    main()
