# SPDX-License-Identifier: Apache-2.0
"""Jobs in this process that are cut by a savepoint: run to a step, saved there, and begun with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from local_support import local

from pyflinklike.pyflink._graph.sinks import CollectSink
from pyflinklike.pyflink.datastream import KeyedStream

__all__ = ["RECOVERY", "Cut", "collected", "cut", "stopped_after", "told"]

RECOVERY = "execution__state-recovery__path"


class Cut:
    """A run of a job with one collecting sink, driven step by step.

    Args:
        stream: Of the program that is run.
        name: Of the job.
    """

    def __init__(self, stream: Any, name: str = "job") -> None:
        if isinstance(stream, KeyedStream):
            stream = stream._with_keys()
        self._sink = stream._sink(CollectSink(), "Collect Sink", to_run=False)
        self.run = stream._program.collect(self._sink, name)

    def steps(self, count: int) -> Cut:
        """Do some steps of the work: an element each, and the end of each source."""
        for _, _ in zip(range(count), self.run._work):
            pass
        return self

    def save(self, path: Path | str, *, drains: bool = False) -> list[Any]:
        """Stop with a savepoint; the elements so far."""
        request = self.run.savepoint(str(path), stops=True, drains=drains)
        self.run.wait()
        request.result()
        return self.taken()

    def finish(self) -> list[Any]:
        """Run to the end; the elements."""
        self.run.wait()
        return self.taken()

    def taken(self) -> list[Any]:
        """The elements that came to the sink and were not taken yet."""
        found = self.run._collected[self._sink]
        elements = list(found)
        found.clear()
        return elements


def stopped_after(program: Any, steps: int, path: Path | str, **settings: str) -> list[Any]:
    """Run a program for some steps, and stop it with a savepoint; the elements until then."""
    return Cut(program(local(**settings))).steps(steps).save(path)


def collected(program: Any, path: Path | str | None = None, **settings: str) -> list[Any]:
    """Run a program to its end, begun with a savepoint if a path is given."""
    begun = {} if path is None else {RECOVERY: str(path)}
    return Cut(program(local(**begun, **settings))).finish()


def cut(
    program: Any, steps: int, path: Path | str, first: dict[str, str], second: dict[str, str]
) -> list[Any]:
    """All elements of a program that was stopped with a savepoint, and of the one that began with it."""
    before = stopped_after(program, steps, path, **first)
    return before + collected(program, path, **second)


def told(elements: list[Any]) -> list[str]:
    """Elements in an order that does not depend on that in which they came."""
    return sorted(map(repr, elements))
