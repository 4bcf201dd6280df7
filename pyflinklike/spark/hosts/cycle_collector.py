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

It walks warm state, too, where an entry is more than a number or a text: timers, maps and lists
cost 0.1 to 0.2 us a key and collection, from Python 3.14 on every entry 0.02 us or more.  So what
has survived a long collection is frozen as well.  Reference counting frees it all the same, but
not a cycle of the user's that dies later.  So all of it is collected again at the beginning of a
task once the long collections since have taken as much time as that will.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from pyflinklike.spark.hosts.carried import Carried

__all__ = ["Frozen", "freeze_imports", "with_imports_frozen", "without_collection"]

P = ParamSpec("P")
R = TypeVar("R")

_LONG_S = 0.005


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
    """The call with `freeze_imports` before it, as a worker runs it: what it holds is `Carried`."""
    carried = Carried(call)

    def frozen(*args: P.args, **kwargs: P.kwargs) -> R:
        freeze_imports()
        return carried.value(*args, **kwargs)

    # Not all of `functools.wraps`: `__wrapped__` would be pickled beside what is carried.
    frozen.__name__ = getattr(call, "__name__", frozen.__name__)
    return frozen


def freeze_imports() -> None:
    """Hide what is imported from the collections between the tasks of a reused Spark worker."""
    # Spark sets it for workers that it uses again.  No other process collects between tasks.
    if "SPARK_REUSE_WORKER" in os.environ:
        _FROZEN.begin_task()


class Frozen:
    """What is hidden from the collections between the tasks of a worker.

    Args:
        long_s: From how many CPU seconds on a collection is long.
        clock: Tells the CPU seconds of a thread.
    """

    def __init__(
        self, long_s: float = _LONG_S, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._long_s = long_s
        self._clock = clock
        self._began = 0.0
        self._modules = 0
        self._all_s = 0.0
        self._spent_s = 0.0

    def begin_task(self) -> None:
        """Collect and freeze all, if there are further imports or it is time to."""
        modules = len(sys.modules)
        if modules == self._modules and self._spent_s <= self._all_s:
            return
        if self.collected not in gc.callbacks:
            gc.callbacks.append(self.collected)
        gc.unfreeze()
        began = self._clock()
        gc.collect()
        self._all_s = self._clock() - began
        gc.freeze()
        self._modules, self._spent_s = modules, 0.0

    def collected(self, phase: str, info: Mapping[str, int]) -> None:
        """For `gc.callbacks`: a collection begins, or has ended."""
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = self._clock()
            return
        took_s = self._clock() - self._began
        if took_s >= self._long_s:
            self._spent_s += took_s
            gc.freeze()


_FROZEN = Frozen()
