# SPDX-License-Identifier: Apache-2.0
"""Drives a job: reads sources element by element, and has watermarks follow."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from typing import Any

from pyflinklike.clock import wall_clock
from pyflinklike.graph.job import Job
from pyflinklike.graph.running import DrivenRun
from pyflinklike.local.entrances import SourceStation
from pyflinklike.local.operators import OperatorStation
from pyflinklike.local.wiring import Wiring

__all__ = ["LocalRun", "start"]


def start(job: Job, clock: Callable[[], int] = wall_clock) -> LocalRun:
    """Run a job in this process, while its results are asked for.

    Args:
        job: What to run.
        clock: Tells the processing time in ms.

    Raises:
        HostError: It has a source or a sink that only Spark has.
    """
    return LocalRun(job, clock)


class LocalRun(DrivenRun):
    """A job in this process.

    Sources take turns, one element each; those that only feed broadcast inputs come first, if they
    end.  Watermarks follow every `records_per_batch` elements; if that is not set, all elements of
    bounded sources at once, and each element of others.
    """

    def __init__(self, job: Job, clock: Callable[[], int]) -> None:
        self._job, self._clock = job, clock
        self._wiring = Wiring(job)
        self._opened: list[Any] = []
        super().__init__(self._wiring.collected)

    def _running(self) -> Generator[None, None, None]:
        """All the work; stops after every element."""
        self._make_importable()
        self._tick()
        for station in self._wiring.stations:
            self._opened.append(station)
            station.open()
        for sources in self._in_turns():
            yield from self._read(sources)
        self._end()

    def _make_importable(self) -> None:
        """Have functions import the program's files: each is a module, or a folder of modules."""
        for path in map(os.path.abspath, self._job.settings.python_files):
            folder = os.path.dirname(path) if path.endswith(".py") else path
            if folder not in sys.path:
                sys.path.insert(0, folder)

    def _end(self) -> None:
        for station in self._wiring.stations:
            station.close()
        for writer in self._wiring.writers:
            writer.finish()

    def _abandon(self) -> None:
        for station in self._opened:
            if isinstance(station, OperatorStation):
                station.abandon()
        for writer in self._wiring.writers:
            writer.abandon()

    def _read(self, sources: list[SourceStation]) -> Iterator[None]:
        """Read sources to their ends, in turns."""
        count, limit = 0, self._records_per_batch()
        while sources:
            for source in tuple(sources):
                self._tick()
                if not source.step():
                    sources.remove(source)
                count += 1
                if limit and count % limit == 0:
                    self._emit_watermarks()
                yield

    def _emit_watermarks(self) -> None:
        for maker in self._wiring.makers:
            maker.emit()

    def _records_per_batch(self) -> int | None:
        """After how many elements watermarks follow; None is at the end of each source."""
        settings = self._job.settings
        if settings.is_batch:
            return None
        if settings.records_per_batch is None and not self._job.graph.is_bounded:
            return 1
        return settings.records_per_batch

    def _tick(self) -> None:
        now = self._clock()
        if now != self._now:
            self._now = now
            for station in self._wiring.stations:
                station.tick(now)

    _now: int | None = None

    def _in_turns(self) -> list[list[SourceStation]]:
        """Sources that feed broadcast inputs only, if they end; then the others."""
        first: list[SourceStation] = []
        others: list[SourceStation] = []
        for node, station in reversed(self._wiring.sources):
            comes_first = node.source.is_bounded and self._job.graph.is_only_broadcast(node.id)
            (first if comes_first else others).append(station)
        return [first, others]
