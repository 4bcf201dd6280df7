# SPDX-License-Identifier: Apache-2.0
"""A job as its program sees it: a result, or a client that follows the job."""

from __future__ import annotations

import uuid
from threading import Thread
from typing import Any, Generic

import attrs

from pyflinklike.engine.clock import wall_clock
from pyflinklike.engine.foreign_names import WithoutJava
from pyflinklike.engine.graph.job_run import JobRun, JobStatus
from pyflinklike.engine.type_vars import T
from pyflinklike.errors import HostError

__all__ = ["CompletableFuture", "JobClient", "JobExecutionResult", "JobID"]


@attrs.frozen
class JobID:
    """The id of a run of a job, as `pyflink.common.JobID`."""

    _hex: str = attrs.field(factory=lambda: uuid.uuid4().hex)

    def __str__(self) -> str:
        return self._hex


@attrs.frozen
class JobExecutionResult:
    """The result of a job that has ended, as `pyflink.common.JobExecutionResult`.

    Args:
        job_id: The id of the run.
        net_runtime: How long the run took, in ms.
    """

    _job_id: JobID
    _net_runtime: int

    def get_job_id(self) -> JobID:
        """Return the id of the run."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long the run took, in ms."""
        return self._net_runtime

    def is_job_execution_result(self) -> bool:
        """Return True: only a job that has ended has a result."""
        return True

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return no results: accumulators are Java's."""
        return {}


class CompletableFuture(Generic[T]):
    """A value that will be there, as `pyflink.common.CompletableFuture`.

    Args:
        wait: Waits for the value and returns it.
        is_done: Returns whether the value is there.
    """

    def __init__(self, wait: Any, is_done: Any) -> None:
        self._wait, self._is_done = wait, is_done

    def result(self) -> T:
        """Wait for the value and return it."""
        value: T = self._wait()
        return value

    def done(self) -> bool:
        """Return whether the value is there."""
        return bool(self._is_done())


class JobClient(WithoutJava):
    """Follows a job that runs in the background, as `pyflink.common.JobClient`.

    Args:
        run: The run of the job, which a thread of the client drives.
    """

    def __init__(self, run: JobRun) -> None:
        self._run, self._job_id = run, JobID()
        self._began, self._runtime = wall_clock(), 0
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._work, name=f"job {self._job_id}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._run.wait()
        except BaseException as error:  # raised to whoever asks for the result
            self._failure = error
        self._runtime = wall_clock() - self._began

    def get_job_id(self) -> JobID:
        """Return the id of the run."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the present status of the job."""
        return CompletableFuture(self._run.status, lambda: True)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result of the job, once it has ended; it raises the error of a failed job."""
        return CompletableFuture(self._result, lambda: not self._thread.is_alive())

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; the future is done when it has ended."""
        self._run.cancel()
        return CompletableFuture(self._thread.join, lambda: not self._thread.is_alive())

    def stop_with_savepoint(self, *_: Any, **__: Any) -> CompletableFuture[str]:
        """Refuse a savepoint: a job goes on from its checkpoint.

        Raises:
            HostError: Always.
        """
        msg = (
            "a job here has no savepoints of its own, got stop_with_savepoint; cancel it, and start "
            "it again with the same execution.checkpointing.dir"
        )
        raise HostError(msg)

    trigger_savepoint = stop_with_savepoint

    def _result(self) -> JobExecutionResult:
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return JobExecutionResult(self._job_id, self._runtime)
