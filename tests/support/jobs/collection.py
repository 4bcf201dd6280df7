# SPDX-License-Identifier: Apache-2.0
"""The collection: small jobs with what must come of them, whichever host runs them.

A job is a function of an environment that gives a stream.  What comes of it does not depend on
where the host cuts the input, unless the job says with which cuts it goes.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

__all__ = ["JOBS", "Job", "every_job", "job"]


@attrs.frozen
class Job:
    """A small job.

    Args:
        name: Of the function.
        program: Given an environment, gives the stream to collect.
        expected: Its elements; in this order if `is_ordered`.
        batch: Its elements in batch mode, if these are others; None where it has no batch mode.
        is_ordered: Whether the order counts, in streaming mode.
        cuts: After how many elements a watermark follows; None is once, after all.
    """

    name: str
    program: Callable[[Any], Any]
    expected: list[Any]
    batch: list[Any] | None
    is_ordered: bool
    cuts: tuple[int | None, ...]


JOBS: list[Job] = []
"""All that were declared so far."""

_SAME: Any = object()


def job(
    *expected: Any,
    batch: Any = _SAME,
    ordered: bool = False,
    cuts: tuple[int | None, ...] = (None, 1, 3),
) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Put a function into the collection.

    Args:
        expected: As of `Job`.
        batch: As of `Job`.
        ordered: As of `Job`.
        cuts: As of `Job`.
    """

    def declared(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
        of_batch = list(expected) if batch is _SAME else batch
        JOBS.append(Job(program.__name__, program, list(expected), of_batch, ordered, cuts))
        return program

    return declared


def every_job() -> list[Job]:
    """All jobs, of all modules of the collection."""
    for path in sorted(Path(__file__).parent.glob("*_jobs.py")):
        importlib.import_module(f"jobs.{path.stem}")
    return JOBS
