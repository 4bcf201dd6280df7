# SPDX-License-Identifier: Apache-2.0
"""Gives the rows of a job's plan to its sinks, in the driver; what tasks have written it makes visible.

From the thread in which Spark gives micro-batches to the one that the job is driven by.
"""

from __future__ import annotations

import pickle
import queue
from collections import deque
from collections.abc import Iterable
from threading import Event
from typing import Any, NamedTuple

from pyflinklike.engine.graph.job import Job
from pyflinklike.engine.graph.sinks import CollectSink, Renaming, SinkWriter
from pyflinklike.errors import HostError
from pyflinklike.spark.jobs.durable_files import Ledger
from pyflinklike.spark.jobs.watermark_feed import SPLIT_WATERMARKS, SplitWatermark

__all__ = ["Handover", "ResultBatch", "Results", "Rows"]


class Results:
    """The sinks of a job.

    Args:
        job: Which one.

    Raises:
        HostError: A sink can be written neither by tasks nor in the driver.
    """

    def __init__(self, job: Job) -> None:
        self._job, self._sinks = job, job.graph.sinks
        self.collected: dict[int, deque[Any]] = {
            node.id: deque() for node in self._sinks if isinstance(node.sink, CollectSink)
        }
        """What came to each `CollectSink`, by the number of its node."""
        self.split_watermarks: list[SplitWatermark] = []
        """How far splits have come, as tasks have told."""
        self._by_tasks = {node.id for node in self._sinks if node.sink.is_written_by_tasks}
        self._hidden: list[Renaming] = []
        self._writers = self._opened()

    @property
    def are_small(self) -> bool:
        """Whether no elements come to the driver: tasks write them all."""
        return not self.collected and not self._writers

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Take rows: the number of a sink, and a pickle of records or of `Renaming`s."""
        for number, payload in rows:
            records = pickle.loads(bytes(payload))  # noqa: S301  # of the job's own stages
            if number == SPLIT_WATERMARKS:
                self.split_watermarks += records
            elif number in self._by_tasks:
                self._hidden += records
            elif number in self.collected:
                self.collected[number].extend(value for _, value, _ in records)
            else:
                write = self._writers[number].write
                for _, value, timestamp in records:
                    write(value, timestamp)

    def add_batch(self, batch: ResultBatch, ledger: Ledger) -> None:
        """Take a micro-batch, and make it visible; one that was written already is left alone.

        Args:
            batch: Which one.
            ledger: Says which was written last.
        """
        if len(self.collected) == len(self._sinks):
            self.add(batch.rows)
        elif not batch.rows:
            return
        elif ledger.has(batch.number):
            self.add(
                [
                    row
                    for row in batch.rows
                    if row[0] == SPLIT_WATERMARKS or row[0] in self._by_tasks
                ]
            )
            self._take_back()
        else:
            self.add(batch.rows)
            written = [writer.prepare() for writer in self._writers.values()]
            ledger.note(batch.number, [*self._taken(), *(one for each in written for one in each)])
            self._writers = self._opened()

    def remove_unfinished(self, name: str) -> None:
        """Remove what was begun and will not be seen: by tasks of a killed driver, or that failed.

        Args:
            name: Begins the names of what the job's tasks write.
        """
        for node in self._sinks:
            node.sink.remove_unfinished(f"{name}-")

    def finish(self) -> None:
        """The job has ended well."""
        for renaming in self._taken():
            renaming.perform()
        for writer in self._writers.values():
            writer.finish()

    def abandon(self) -> None:
        """It has failed, or was cancelled."""
        self._take_back()
        for writer in self._writers.values():
            writer.abandon()

    def _opened(self) -> dict[int, SinkWriter]:
        """What writes to each sink that this process writes."""
        default = self._job.settings.parallelism or 1
        return {
            node.id: node.sink.writer(0, node.parallelism or default, node.type_info)
            for node in self._sinks
            if node.id not in self.collected and node.id not in self._by_tasks
        }

    def _taken(self) -> list[Renaming]:
        """What is to be made visible, which is seen to be there; nothing is left here."""
        for renaming in self._hidden:
            renaming.check()
        taken, self._hidden = self._hidden, []
        return taken

    def _take_back(self) -> None:
        """Remove what tasks have written, and nobody shall see."""
        for renaming in self._hidden:
            renaming.hidden.unlink(missing_ok=True)
        self._hidden = []


Rows = list[tuple[int, bytes]]
"""Numbers of sinks with pickles of records."""


class ResultBatch(NamedTuple):
    """What came of a micro-batch.

    Args:
        number: Of the micro-batch; one that is run again has the same.
        rows: What came of it.
    """

    number: int
    rows: Rows


class Handover:
    """Hands over one micro-batch after the other, and has the giver wait until it is done with.

    Spark takes note of a micro-batch when its giver comes back, so one that the job has not done
    with is run again after a restart.
    """

    def __init__(self) -> None:
        self._offered: queue.Queue[ResultBatch] = queue.Queue()
        self._is_done, self._is_closed = Event(), False

    def give(self, batch: ResultBatch) -> None:
        """Give a micro-batch, and wait until it is done with.

        Raises:
            HostError: The job has ended before that.
        """
        self._is_done.clear()
        if not self._is_closed:
            self._offered.put(batch)
            self._is_done.wait()
        if self._is_closed:
            msg = f"the job takes micro-batches until it ends, got number {batch.number} then; start it again"
            raise HostError(msg)

    def take(self, seconds: float) -> ResultBatch | None:
        """The micro-batch that is given; None where there is none.

        Args:
            seconds: How long to wait for one.
        """
        try:
            return self._offered.get(timeout=seconds)
        except queue.Empty:
            return None

    @property
    def is_waited_for(self) -> bool:
        """Whether a micro-batch was given that nobody has taken."""
        return not self._offered.empty()

    def done(self) -> None:
        """The micro-batch that was taken is done with."""
        self._is_done.set()

    def close(self) -> None:
        """The job has ended: whoever gives is turned away."""
        self._is_closed = True
        self._is_done.set()
