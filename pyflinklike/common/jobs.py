# SPDX-License-Identifier: Apache-2.0
"""A job as its program sees it: a result, or a client that follows the job."""

from __future__ import annotations

import uuid
from concurrent.futures import CancelledError
from threading import Thread
from typing import Any, Generic

import attrs

from pyflinklike.engine.clock import wall_clock
from pyflinklike.engine.foreign_names import WithoutJava
from pyflinklike.engine.graph.job_run import JobRun, JobStatus
from pyflinklike.engine.shown import shown
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

    def get_accumulator_result(self, accumulator_name: str) -> None:
        """Return None: accumulators are Java's.

        Args:
            accumulator_name: A name; there is none.
        """

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
        self._wait, self._is_done, self._is_cancelled = wait, is_done, False

    def cancel(self) -> bool:
        """Wait for the value no more, and return whether that was so; the job goes on.

        `JobClient.cancel` cancels a job.
        """
        self._is_cancelled = self._is_cancelled or not self._is_done()
        return self._is_cancelled

    def cancelled(self) -> bool:
        """Return whether it was cancelled before the value was there."""
        return self._is_cancelled

    def result(self) -> T:
        """Wait for the value and return it.

        Raises:
            CancelledError: It was cancelled before.
        """
        if self._is_cancelled:
            raise CancelledError
        value: T = self._wait()
        return value

    def exception(self) -> Exception | None:
        """Return the error that `result` raises; None without one, or before it is done."""
        if not self.done():
            return None
        try:
            self.result()
        except Exception as error:
            return error
        return None

    def done(self) -> bool:
        """Return whether the value or its error is there, or it was cancelled."""
        return self._is_cancelled or bool(self._is_done())


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

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return no results: accumulators are Java's."""
        return CompletableFuture(dict, lambda: True)

    def stop_with_savepoint(
        self,
        advance_to_end_of_event_time: bool,  # noqa: ARG002
        savepoint_directory: str | None = None,
    ) -> CompletableFuture[str]:
        """Refuse a savepoint: a job goes on from its checkpoint.

        Args:
            advance_to_end_of_event_time: Not used.
            savepoint_directory: Not used.

        Raises:
            HostError: Always.
        """
        return self.trigger_savepoint(savepoint_directory)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Refuse a savepoint: a job goes on from its checkpoint.

        Args:
            savepoint_directory: Not used.

        Raises:
            HostError: Always.
        """
        msg = (
            f"a job here has no savepoints of its own, got one for {shown(savepoint_directory)}; "
            "cancel the job, and start it again with the same execution.checkpointing.dir"
        )
        raise HostError(msg)

    def _result(self) -> JobExecutionResult:
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return JobExecutionResult(self._job_id, self._runtime)
