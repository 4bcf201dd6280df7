# SPDX-License-Identifier: Apache-2.0
"""PySpark's daemon of Python workers, which notes what each worker did: `slots.py --tasks`.

Spark starts it as `python -m task_daemon pyspark.worker`.  Each worker adds a line to a file of its
own in the folder `BENCH_TASKS` for each task: the process, the micro-batch, the partition, the kind
of its function, and the CPU seconds that the worker has used in the task and in the collection of
cycles behind it.  The file is opened for each line, as a worker may be killed at any time.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pyspark.daemon

FOLDER = "BENCH_TASKS"
_KINDS = {"MAP_ARROW": "map", "TRANSFORM_WITH_STATE": "state"}

_task: dict[str, Any] = {}
"""The task that this worker has at hand."""
_serve: Any = pyspark.daemon.worker


def serve(*arguments: Any) -> Any:
    """Serve one task, and note it."""
    import pyspark.worker as served

    if "pid" not in _task:
        _task["pid"] = os.getpid()
        _note_kinds(served)
    _task.pop("kind", None)
    _task["cpu_s"] = -time.process_time()
    code = _serve(*arguments)
    _task["cpu_s"] += time.process_time()
    if "kind" not in _task:  # Spark has ended the worker
        return code
    path = Path(os.environ[FOLDER]) / f"{os.getpid()}.jsonl"
    with path.open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(_task) + "\n")
    return code


def _note_kinds(served: Any) -> None:
    from pyspark import TaskContext
    from pyspark.util import PythonEvalType

    kinds = {
        number: kind
        for name, number in vars(PythonEvalType).items()
        for part, kind in _KINDS.items()
        if part in name
    }
    read: Any = served.read_udfs

    def noting(*arguments: Any, **named: Any) -> Any:
        context: Any = TaskContext.get()
        batch = context.getLocalProperty("streaming.sql.batchId")
        _task.update(
            batch=-1 if batch is None else int(batch),
            stage=context.stageId(),
            partition=context.partitionId(),
            kind=kinds.get(arguments[2], "other"),
        )
        return read(*arguments, **named)

    served.read_udfs = noting


if __name__ == "__main__":
    pyspark.daemon.worker = serve  # type: ignore[assignment]
    pyspark.daemon.manager()
