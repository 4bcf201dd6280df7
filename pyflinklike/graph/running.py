# SPDX-License-Identifier: Apache-2.0
"""What a host gives for a job: a way to follow it, to end it, and to get what it collects."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Protocol

from pyflinklike.graph.job import Job

__all__ = ["Host", "JobRun", "JobStatus"]


class JobStatus(Enum):
    """What has become of a job, as `pyflink.common.JobStatus`."""

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
        """Whether nothing more will become of it, not even a restart on another cluster."""
        return self in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED)

    def is_globally_terminal_state(self) -> bool:
        """Whether nothing more will become of it."""
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

    def collected(self, sink: int) -> Iterator[Any]:
        """The elements that came to a `CollectSink`, as they come; ends when the job does.

        Args:
            sink: The number of its node.  It may be asked for once.

        Raises:
            PyflinklikeError: The job failed; raised when it is the next element's turn.
        """

    def cancel(self) -> None:
        """Have the job end soon; nothing happens where it has ended."""

    def status(self) -> JobStatus:
        """What has become of it."""


Host = Callable[[Job], JobRun]
"""Starts a job."""
