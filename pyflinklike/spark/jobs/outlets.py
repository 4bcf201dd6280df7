# SPDX-License-Identifier: Apache-2.0
"""What tasks write to the sinks of a job by themselves, and the driver only makes visible."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
from pyspark import TaskContext

from pyflinklike.graph.nodes import ToSink
from pyflinklike.graph.sinks import Renaming, SinkWriter
from pyflinklike.spark.wire.parcels import dumped

__all__ = ["Outlets", "TaskOutlets"]

_BATCH = "streaming.sql.batchId"
"""A local property of Spark's tasks."""


@attrs.frozen
class Outlets:
    """The sinks that tasks write.

    Args:
        sinks: All of the job; those that this process writes are left alone.
        name: Begins the names of what is written: of no other job or run.
        parallelism: Of the job, or None.
    """

    sinks: tuple[ToSink, ...] = ()
    name: str = ""
    parallelism: int | None = None

    def opened(self, task: int) -> TaskOutlets:
        """Those of a task.

        Args:
            task: Its number.
        """
        context = TaskContext.get()
        batch = context.getLocalProperty(_BATCH) if context else None
        name = self.name if batch is None else f"{self.name}-{batch}"
        return TaskOutlets(self, f"{name}-{task}", task)


class TaskOutlets:
    """The sinks as one task writes them: each when its first records come.

    Args:
        outlets: Which sinks.
        name: Begins the names of what the task writes.
        task: Its number.
    """

    def __init__(self, outlets: Outlets, name: str, task: int) -> None:
        self._outlets, self._name, self._task = outlets, name, task
        sinks = enumerate(outlets.sinks)
        self._nodes = {node.id: (at, node) for at, node in sinks if node.sink.is_written_by_tasks}
        self._writers: dict[int, SinkWriter] = {}

    def take(self, number: int) -> bool:
        """Whether a sink is one of these.

        Args:
            number: Of its node.
        """
        return number in self._nodes

    def write(self, number: int, records: list[Any]) -> None:
        """Write records.

        Args:
            number: Of the node of the sink.
            records: With keys and times.
        """
        writer = self._writers.get(number) or self._begun(number)
        for _, value, timestamp in records:
            writer.write(value, timestamp)

    def _begun(self, number: int) -> SinkWriter:
        at, node = self._nodes[number]
        count = node.parallelism or self._outlets.parallelism or 1
        name = f"{self._name}-{at}"
        writer = node.sink.writer(self._task, count, node.type_info, name)
        self._writers[number] = writer
        return writer

    def end(self) -> Iterator[tuple[int, bytes]]:
        """All is written: for each sink what makes it visible, as a pickle of `Renaming`s."""
        for number, writer in self._writers.items():
            renamings: list[Renaming] = writer.prepare()
            if renamings:
                yield number, dumped(renamings)

    def abandon(self) -> None:
        """The task has failed."""
        for writer in self._writers.values():
            writer.abandon()
