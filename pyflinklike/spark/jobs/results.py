# SPDX-License-Identifier: Apache-2.0
"""Gives the rows of a job's plan to its sinks, in the driver."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable
from typing import Any

from pyflinklike.graph.job import Job
from pyflinklike.graph.sinks import CollectSink, SinkWriter
from pyflinklike.spark.jobs.handover import Batch
from pyflinklike.spark.jobs.ledger import Ledger

__all__ = ["Results"]


class Results:
    """The sinks of a job.

    Args:
        job: Which one.

    Raises:
        HostError: A sink cannot be written in the driver.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.collected: dict[int, deque[Any]] = {
            node.id: deque() for node in job.graph.sinks if isinstance(node.sink, CollectSink)
        }
        """What came to each `CollectSink`, by the number of its node."""
        self._writers = self._opened(None)

    def add(self, rows: Iterable[tuple[int, bytes]]) -> None:
        """Take rows: the number of a sink, and a pickle of records."""
        for number, payload in rows:
            records = pickle.loads(bytes(payload))  # noqa: S301  # of the job's own stages
            if number in self.collected:
                self.collected[number].extend(value for _, value, _ in records)
                continue
            write = self._writers[number].write
            for _, value, timestamp in records:
                write(value, timestamp)

    def add_batch(self, batch: Batch, ledger: Ledger, name: str) -> None:
        """Take a micro-batch, and make it visible; one that was written already is left alone.

        Args:
            batch: Which one.
            ledger: Says which was written last.
            name: Names the job's files.
        """
        if not self._writers:
            self.add(batch.rows)
        elif batch.rows and not ledger.has(batch.number):
            self._writers = self._opened(f"{name}-{batch.number}")
            self.add(batch.rows)
            written = [writer.prepare() for writer in self._writers.values()]
            ledger.note(batch.number, [renaming for each in written for renaming in each])
            self._writers = self._opened(None)

    def remove_unfinished(self, name: str) -> None:
        """Remove what a killed driver has begun to write.

        Args:
            name: That of `add_batch`.
        """
        for node in self._job.graph.sinks:
            node.sink.remove_unfinished(f"{name}-")

    def finish(self) -> None:
        """The job has ended well."""
        for writer in self._writers.values():
            writer.finish()

    def abandon(self) -> None:
        """It has failed, or was cancelled."""
        for writer in self._writers.values():
            writer.abandon()

    def _opened(self, name: str | None) -> dict[int, SinkWriter]:
        """What writes to each sink; each has a name of its own, also where two are in one folder."""
        writers: dict[int, SinkWriter] = {}
        for position, node in enumerate(self._job.graph.sinks):
            if node.id not in self.collected:
                count = node.parallelism or self._job.settings.parallelism or 1
                own = name and f"{name}-{position}"
                writers[node.id] = node.sink.writer(0, count, node.type_info, own)
        return writers
