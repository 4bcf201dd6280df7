# SPDX-License-Identifier: Apache-2.0
"""Keep Python's cycle collector out of the hot loops, and out of what workers have imported.

Rows, keys and outputs are tuples by the hundred thousand, none of them in a
cycle.  Each wave of them makes the collector walk them all, which took a quarter
of the Python time of a running count (see `docs/explanation/performance.md`).  Reference
counting frees them just the same; what user code leaves in cycles is collected
between calls.

Between two tasks of a worker PySpark's daemon collects.  Each of these collections
walks all that pandas, PyArrow and PySpark have brought with them.  Frozen, it is walked
no more.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["freeze_imports", "with_imports_frozen", "without_collection"]

P = ParamSpec("P")
R = TypeVar("R")


def without_collection(call: Callable[P, R]) -> Callable[P, R]:
    """The call with the cycle collector off while it runs."""

    @functools.wraps(call)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        was_on = gc.isenabled()
        gc.disable()
        try:
            return call(*args, **kwargs)
        finally:
            if was_on:
                gc.enable()

    return quiet


def with_imports_frozen(call: Callable[P, R]) -> Callable[P, R]:
    """The call with `freeze_imports` before it."""

    @functools.wraps(call)
    def frozen(*args: P.args, **kwargs: P.kwargs) -> R:
        freeze_imports()
        return call(*args, **kwargs)

    return frozen


def freeze_imports() -> None:
    """Hide what is imported from the collections between the tasks of a reused Spark worker.

    All objects of the moment are frozen, so it is done again only after further imports,
    never for each task: cycles that user code leaves would stay in memory.
    """
    # Spark sets it for workers that it uses again.  No other process collects between tasks.
    if "SPARK_REUSE_WORKER" in os.environ:
        _freeze(len(sys.modules))


@functools.cache
def _freeze(_modules: int) -> None:
    gc.collect()
    gc.freeze()
