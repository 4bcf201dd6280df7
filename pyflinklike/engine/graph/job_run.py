# SPDX-License-Identifier: Apache-2.0
"""The run of a job: a way to follow it, to end it, and to get the elements it collects."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

from pyflinklike.engine.graph.job import Job

__all__ = ["DrivenRun", "Host", "JobRun", "JobStatus"]


class JobStatus(Enum):
    """The status of a job, as `pyflink.common.JobStatus`."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    FAILING = "FAILING"
    FAILED = "FAILED"
    CANCELLING = "CANCELLING"
    CANCELED = "CANCELED"
    FINISHED = "FINISHED"
    RESTARTING = "RESTARTING"
    SUSPENDED = "SUSPENDED"
    RECONCILING = "RECONCILING"

    def is_terminal_state(self) -> bool:
        """Return whether the status is final, with no restart, not even on another cluster."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_globally_terminal_state(self) -> bool:
        """Return whether the status is final."""
        return self.is_terminal_state()


class JobRun(Protocol):
    """A job that was started.

    A host may do the work in the background, or while one of these is called.
    """

    def wait(self) -> None:
        """Wait until the job has ended.

        Raises:
            PyflinklikeError: It failed.
        """

    def collect(self, sink: int) -> Iterator[Any]:
        """Yield the elements that come to a `CollectSink`; end when the job does.

        Args:
            sink: The number of its node; each may be asked for once.

        Raises:
            PyflinklikeError: The job failed; raised when it is the next element's turn.
        """

    def cancel(self) -> None:
        """Have the job end soon; nothing happens where it has ended."""

    def status(self) -> JobStatus:
        """Return the status of the job."""


class DrivenRun(ABC):
    """A job that works whenever somebody waits for it or for its elements: a `JobRun`.

    Args:
        collected: The elements that come to each `CollectSink`, by the number of its node.
    """

    def __init__(self, collected: Mapping[int, deque[Any]]) -> None:
        self._collected = collected
        self._status = JobStatus.RUNNING
        self._is_cancelled = False
        self._work = self._driven()

    def wait(self) -> None:
        """Do all the work that is left."""
        for _ in self._work:
            if self._is_cancelled:
                self._work.close()

    def collect(self, sink: int) -> Iterator[Any]:
        """Yield the elements that come to a `CollectSink`; work while there are none."""
        elements = self._collected[sink]
        while True:
            while elements:
                yield elements.popleft()
            if next(self._work, self) is self and not elements:
                return

    def cancel(self) -> None:
        """End the job where it stands."""
        self._is_cancelled = True
        # Where another thread does the work, that thread ends it.
        with contextlib.suppress(ValueError):
            self._work.close()
            if self._status is JobStatus.RUNNING:  # nobody has asked for anything yet
                self._end_with(JobStatus.CANCELED)

    def status(self) -> JobStatus:
        """Return the status of the job."""
        return self._status

    def _driven(self) -> Generator[None, None, None]:
        """Do all the work, and set the status that follows from it."""
        try:
            yield from self._run()
        except GeneratorExit:
            self._end_with(JobStatus.CANCELED)
            raise
        except BaseException:
            self._end_with(JobStatus.FAILED)
            raise
        self._status = JobStatus.FINISHED

    def _end_with(self, status: JobStatus) -> None:
        self._status = status
        self._abandon()

    @abstractmethod
    def _run(self) -> Generator[None, None, None]:
        """Do all the work, to its end; yield whenever it may be told to end."""

    @abstractmethod
    def _abandon(self) -> None:
        """Leave nothing behind of a job that failed or was cancelled."""


Host = Callable[[Job], JobRun]
"""Starts a job."""
