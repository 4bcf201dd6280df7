# SPDX-License-Identifier: Apache-2.0
"""A job as its program sees it: a result, or a client of a running job."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from concurrent.futures import CancelledError
from threading import Thread
from typing import Any, Generic

import attrs

from pyflinklike._clock import wall_clock
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import T
from pyflinklike.errors import DeclarationValueError
from pyflinklike.pyflink._graph.job_run import JobRun, JobStatus

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
        metrics: The metrics of all tasks, by the uid or name of the operator.  "user" has the metrics that
            the function registered; a keyed function of a batch on Spark also has its operator's own.  A
            stream on Spark reports metrics in its progress, so this is empty.  PyFlink has no such field.
    """

    _job_id: JobID
    _net_runtime: int
    metrics: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)

    def get_job_id(self) -> JobID:
        """Return the id of the run."""
        return self._job_id

    def get_net_runtime(self) -> int:
        """Return how long the run took, in ms."""
        return self._net_runtime

    def get_accumulator_result(self, accumulator_name: str) -> None:
        """Return None: a job has no accumulators.

        Args:
            accumulator_name: The name of an accumulator; it is ignored.
        """

    def is_job_execution_result(self) -> bool:
        """Return True: only a job that has ended has a result."""
        return True

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return an empty dict: a job has no accumulators."""
        return {}


class CompletableFuture(Generic[T]):
    """A value that a running job gives later, as `pyflink.common.CompletableFuture`.

    Args:
        wait: Waits for the value, and returns it or raises the error.
        is_done: Returns whether `wait` would return at once.
    """

    def __init__(self, wait: Any, is_done: Any) -> None:
        self._wait, self._is_done, self._is_cancelled = wait, is_done, False

    def cancel(self) -> bool:
        """Give the value up unless it is there, and return whether it was given up; the job goes on.

        To cancel the job, call `JobClient.cancel`.
        """
        self._is_cancelled = self._is_cancelled or not self._is_done()
        return self._is_cancelled

    def cancelled(self) -> bool:
        """Return whether `cancel` was called before the value was there."""
        return self._is_cancelled

    def result(self) -> T:
        """Wait for the value and return it.

        Raises:
            CancelledError: `cancel` was called before the value was there.
        """
        if self._is_cancelled:
            raise CancelledError
        value: T = self._wait()
        return value

    def exception(self) -> Exception | None:
        """Return the error that `result` raises; None if there is no error, or no result yet."""
        if not self.done():
            return None
        try:
            self.result()
        except Exception as error:
            return error
        return None

    def done(self) -> bool:
        """Return whether `result` would not wait: there is a value or an error, or `cancel` was called."""
        return self._is_cancelled or bool(self._is_done())


class JobClient(WithoutJava):
    """Follows a job that runs in the background, as `pyflink.common.JobClient`.

    Args:
        run: The run of the job; a thread of the client drives it.
        savepoint_dir: The directory for savepoints if a caller names no directory, or None.
    """

    def __init__(self, run: JobRun, savepoint_dir: str | None = None) -> None:
        self._run, self._job_id, self._savepoint_dir = run, JobID(), savepoint_dir
        self._began, self._runtime = wall_clock(), 0
        self._failure: BaseException | None = None
        # A daemon: a program that ends without waiting for its job must not hang.
        self._thread = Thread(target=self._work, name=f"job {self._job_id}", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            self._run.wait()
        except BaseException as error:  # `_result` raises it in the caller's thread
            self._failure = error
        self._runtime = wall_clock() - self._began

    def get_job_id(self) -> JobID:
        """Return the id of the run."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the present status of the job."""
        return CompletableFuture(self._run.status, lambda: True)

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result of the job; the future waits for its end, and raises the error of a failed job."""
        return CompletableFuture(self._result, lambda: not self._thread.is_alive())

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job; the future is done when it has ended."""
        self._run.cancel()
        return CompletableFuture(self._thread.join, lambda: not self._thread.is_alive())

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return an empty dict: a job has no accumulators."""
        return CompletableFuture(dict, lambda: True)

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Take a savepoint and end the job with it; its output so far is then visible.

        Args:
            advance_to_end_of_event_time: True fires all event timers and ends all windows before, for a
                job that will not go on.  On Spark only False is possible.
            savepoint_directory: The parent of the savepoint's own directory; None takes the setting
                `execution.checkpointing.savepoint-dir`.

        Returns:
            The path of the savepoint, after the job has ended with it.  If the savepoint fails, the
            future raises the error, and the job goes on.

        Raises:
            DeclarationValueError: Neither the call nor the setting names a directory.
        """
        return self._savepoint(
            savepoint_directory, stops=True, drains=bool(advance_to_end_of_event_time)
        )

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint while the job goes on.

        Args:
            savepoint_directory: The parent of the savepoint's own directory; None takes the setting
                `execution.checkpointing.savepoint-dir`.

        Returns:
            The path of the savepoint, after it is complete.

        Raises:
            DeclarationValueError: Neither the call nor the setting names a directory.
        """
        return self._savepoint(savepoint_directory, stops=False, drains=False)

    def _savepoint(
        self, directory: str | None, *, stops: bool, drains: bool
    ) -> CompletableFuture[str]:
        parent = self._savepoint_dir if directory is None else directory
        if not isinstance(parent, str) or not parent:
            msg = (
                "a savepoint needs a directory, from the call or from the setting "
                f"execution.checkpointing.savepoint-dir, got {short_repr(parent)}; give one of them"
            )
            raise DeclarationValueError(msg)
        # Flink's form: savepoint-<the first 6 digits of the job's id>-<a random number>.
        name = f"savepoint-{str(self._job_id)[:6]}-{uuid.uuid4().hex[:12]}"
        request = self._run.savepoint(f"{parent.rstrip('/')}/{name}", stops=stops, drains=drains)
        return CompletableFuture(request.result, request.done)

    def _result(self) -> JobExecutionResult:
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return JobExecutionResult(self._job_id, self._runtime, self._run.metrics())
