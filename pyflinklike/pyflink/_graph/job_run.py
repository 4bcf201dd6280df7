# SPDX-License-Identifier: Apache-2.0
"""The run of a job: a way to follow it, to end it, and to get the elements it collects and its metrics.

Some hosts have no place of their own for metrics.  They bring the counts of their tasks to the program's
process, and the program gets the sums with the result of the job.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from enum import Enum
from typing import Any, NamedTuple

from pyflinklike.errors import SparkSetupError
from pyflinklike.functions.metric_group import Increment, by_names_of_metrics
from pyflinklike.pyflink._graph.job import Job, JobGraph
from pyflinklike.pyflink._graph.nodes import Node, TwoInputs
from pyflinklike.state.fold_functions import Function


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


class SavepointRequest(Future[str]):
    """A savepoint that was asked for; its result is its path.

    Args:
        path: The directory to write.
        stops: Whether the job ends with it.
        drains: Whether all event timers fire before.
    """

    def __init__(self, path: str, *, stops: bool, drains: bool) -> None:
        super().__init__()
        self.path, self.stops, self.drains = path, stops, drains
        self.has_drained = False
        """Whether timers have fired before they were due.  Then the job cannot go on if the savepoint fails."""


class JobRun(ABC):
    """A job that was started.  It works only while the program waits for the job or for its elements.

    Args:
        collected: The elements that come to each `CollectSink`, by the number of its node.
        metrics: The counts of functions and operators, which the run adds up.
    """

    def __init__(self, collected: Mapping[int, deque[Any]], metrics: JobMetrics) -> None:
        self._collected, self._metrics = collected, metrics
        self._status = JobStatus.RUNNING
        self._is_cancelled = False
        self._requests: deque[SavepointRequest] = deque()
        self._work = self._driven()

    def wait(self) -> None:
        """Do all the work that is left.

        Raises:
            PyflinklikeError: The job failed.
        """
        for _ in self._work:
            if self._is_cancelled:
                self._work.close()

    def collect(self, sink: int) -> Iterator[Any]:
        """Yield the elements that come to a `CollectSink`; work while there are none, and end with the job.

        Args:
            sink: The number of its node; each may be asked for once.

        Raises:
            PyflinklikeError: The job failed; raised when it is the next element's turn.
        """
        elements = self._collected[sink]
        while True:
            while elements:
                yield elements.popleft()
            if next(self._work, self) is self and not elements:
                return

    def cancel(self) -> None:
        """End the job at once, between two steps of its work; nothing happens if it has ended."""
        self._is_cancelled = True
        # A generator that another thread runs raises ValueError.  Then that thread ends the job.
        with contextlib.suppress(ValueError):
            self._work.close()
            if self._status is JobStatus.RUNNING:  # a generator that has not begun runs no `except`
                self._end_with(JobStatus.CANCELED)

    def status(self) -> JobStatus:
        """Return the status of the job."""
        return self._status

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the metrics of a job that has ended, by the names of functions; see `JobMetrics`."""
        return self._metrics.reports()

    def savepoint(
        self, path: str, *, stops: bool = False, drains: bool = False
    ) -> SavepointRequest:
        """Ask for a savepoint, which the thread that does the work takes soon.

        Args:
            path: The directory to write.
            stops: Whether the job ends with it.
            drains: Whether all event timers fire before, as at the end of all sources.
        """
        request = SavepointRequest(path, stops=stops, drains=drains)
        self._requests.append(request)
        if self._status is not JobStatus.RUNNING:
            self._refuse_requests()  # the work may have ended before it could see this one
        return request

    def _driven(self) -> Generator[None, None, None]:
        """Do all the work, and set the status that follows from it."""
        work = self._run()
        try:
            for _ in work:
                yield
                request = self._answer() if self._requests else None
                if request is not None:
                    work.close()
                    self._stop(request)
                    break
            else:
                self._finish(is_stopped=False)
        except GeneratorExit:
            work.close()
            self._end_with(JobStatus.CANCELED)
            raise
        except BaseException:
            work.close()
            self._end_with(JobStatus.FAILED)
            raise
        self._status = JobStatus.FINISHED
        self._refuse_requests()

    def _answer(self) -> SavepointRequest | None:
        """Take the savepoint that was asked for first; return the request if the job ends with it."""
        request = self._requests[0]
        try:
            if not self._save(request):
                return None  # not now: it is asked for again
        except Exception as error:
            self._requests.popleft().set_exception(error)
            # The outputs of such timers are out already, so the job cannot go on as if nothing had happened.
            if request.has_drained:
                raise
            return None
        self._requests.popleft()
        if request.stops:
            return request
        request.set_result(request.path)
        return None

    def _stop(self, request: SavepointRequest) -> None:
        try:
            self._finish(is_stopped=True)
        except BaseException as error:
            request.set_exception(error)
            raise
        request.set_result(request.path)

    def _refuse_requests(self) -> None:
        while self._requests:
            request = self._requests.popleft()
            msg = (
                f"a savepoint is taken of a job that runs, got one for {request.path!r} of a job that is "
                f"{self._status.value}; ask for it before the job ends"
            )
            request.set_exception(SparkSetupError(msg))

    def _end_with(self, status: JobStatus) -> None:
        self._status = status
        try:
            self._abandon()
        finally:
            self._refuse_requests()

    @abstractmethod
    def _run(self) -> Generator[None, None, None]:
        """Do all the work; yield whenever the job may end or a savepoint may be taken."""

    def _save(self, request: SavepointRequest) -> bool:
        """Take a savepoint between two steps of the work; return False to be asked again after the next.

        Raises:
            SparkSetupError: The job cannot have one.
        """
        msg = (
            f"a savepoint is of a job in streaming mode, got one for {request.path!r} of a job in batch "
            "mode; set execution.runtime-mode to STREAMING"
        )
        raise SparkSetupError(msg)

    @abstractmethod
    def _finish(self, *, is_stopped: bool) -> None:
        """End a job that went well: all that it has written becomes visible.

        Args:
            is_stopped: Whether it was stopped with a savepoint, before its sources have ended.
        """

    @abstractmethod
    def _abandon(self) -> None:
        """Remove the unfinished output of a job that failed or was cancelled."""


Host = Callable[[Job], JobRun]
"""Starts a job, and returns its run."""


# Metrics


class Count(NamedTuple):
    """A number that was counted in a task: an `Increment`, with the name of the function.

    Args:
        function: The name under which the function or keyed operator reports.
        name: The full name of the metric, and which of its numbers.
        how: How numbers of this name are combined.  "own" marks a number of the operator itself, which
            is added up.
        value: The number that one task has counted.
    """

    function: str
    name: str
    how: str
    value: int


_OWN = "own"


def counts_of_operator(
    function: str, numbers: Mapping[str, int], increments: Iterable[Increment]
) -> list[Count]:
    """Return the counts of a keyed operator.

    Args:
        function: The name under which it reports.
        numbers: The numbers that the operator counts by itself, by their names.
        increments: The counts of the metrics that its function has registered.
    """
    return [
        *(Count(function, name, _OWN, number) for name, number in numbers.items()),
        *(Count(function, *each) for each in increments),
    ]


def find_counting_nodes(graph: JobGraph) -> Mapping[int, str]:
    """Return the nodes without keys whose functions may count, with the names of their reports.

    The name of a report is the uid of the node, or else its name; nodes of one name report together.
    """
    keyed = set(graph.state_names.values())
    found = {
        node.id: node.uid or node.name
        for node in graph.nodes.values()
        if _may_count(node) and not _has_report(graph, node)
    }
    return {at: f"{name}-{at}" if name in keyed else name for at, name in found.items()}


def _has_report(graph: JobGraph, node: Node) -> bool:
    """Return whether a node reports under the name of its state."""
    is_plain = isinstance(node, TwoInputs) and not node.is_keyed
    return node.id in graph.state_names and not is_plain


def _may_count(node: Node) -> bool:
    # A function registers its metrics in `open`, so one that inherits `open` cannot have any.
    function: Any = getattr(node, "function", None)
    return isinstance(function, Function) and type(function).open is not Function.open


class JobMetrics:
    """The sums of all counts of a job."""

    def __init__(self) -> None:
        self._reports: dict[str, dict[str, Any]] = {}

    def add(self, counts: Iterable[Count]) -> None:
        """Add the counts of a task that has not failed."""
        for each in counts:
            report = self._reports.setdefault(each.function, {"user": {}})
            numbers = report if each.how == _OWN else report["user"]
            former = numbers.get(each.name)
            if former is None:
                numbers[each.name] = each.value
            elif each.how in ("min", "max"):
                numbers[each.name] = (min if each.how == "min" else max)(former, each.value)
            else:
                numbers[each.name] = former + each.value

    def reports(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the numbers of each function, by its name; under "user" are the metrics it registered."""
        return {
            function: {**report, "user": by_names_of_metrics(report["user"])}
            for function, report in self._reports.items()
        }
