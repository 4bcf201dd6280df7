# SPDX-License-Identifier: Apache-2.0
"""Gives the rows of a job's plan to its sinks, in the driver."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterable
from typing import Any

from pyflinklike.graph.job import Job
from pyflinklike.graph.sinks import CollectSink, SinkWriter

__all__ = ["Results"]


class Results:
    """The sinks of a job.

    Args:
        job: Which one.

    Raises:
        HostError: A sink cannot be written in the driver.
    """

    def __init__(self, job: Job) -> None:
        self.collected: dict[int, deque[Any]] = {}
        """What came to each `CollectSink`, by the number of its node."""
        self._writers: dict[int, SinkWriter] = {}
        for node in job.graph.sinks:
            if isinstance(node.sink, CollectSink):
                self.collected[node.id] = deque()
            else:
                count = node.parallelism or job.settings.parallelism or 1
                self._writers[node.id] = node.sink.writer(0, count, node.type_info)

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

    def finish(self) -> None:
        """The job has ended well."""
        for writer in self._writers.values():
            writer.finish()

    def abandon(self) -> None:
        """It has failed, or was cancelled."""
        for writer in self._writers.values():
            writer.abandon()
