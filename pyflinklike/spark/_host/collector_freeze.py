# SPDX-License-Identifier: Apache-2.0
"""Python's cycle collector, kept away from records and imported modules.

Rows, keys and outputs are tuples by the hundred thousand, none of them in a cycle.  Each wave of
them makes the collector walk them all, which took a quarter of the Python time of a running count
(see `docs/explanation/performance.md`).  Reference counting frees them just the same, so the
collector is off during a call (`without_collection`).  Cycles that user code leaves are collected
between calls.

PySpark's daemon calls `gc.collect()` after each task of a worker that it uses again
(https://github.com/apache/spark/blob/master/python/pyspark/daemon.py).  Each of these collections
walks all objects of pandas, PyArrow and PySpark, unless they are frozen.  It also walks cached
working state, if an entry is more than a number or a text: timers, maps and lists cost 0.1 to 0.2 us
per key and collection, and from Python 3.14 on every entry costs 0.02 us or more.  So objects that
have survived a long collection are frozen as well.  Reference counting still frees them, but not a
cycle of the user's that dies later.  Therefore a task collects everything when it begins, if the
long collections since the last time took longer than that did.
"""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_LONG_S = 0.005


def without_collection(call: Callable[P, R]) -> Callable[P, R]:
    """Have a call run with the cycle collector off."""

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


def freeze_imports() -> None:
    """Hide imported objects from the collections between the tasks of a reused Spark worker."""
    # Spark sets this for workers that it uses again.  No other process collects between tasks.
    if "SPARK_REUSE_WORKER" in os.environ:
        _FROZEN.begin_task()


class GcFreeze:
    """The objects that are hidden from the collections between the tasks of a worker.

    Args:
        long_s: The CPU seconds that make a collection a long one.
        clock: Returns the CPU seconds of a thread.
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
        """Freeze all objects if there are new imports; collect first if collections took long."""
        modules = len(sys.modules)
        if self._spent_s > self._all_s:
            gc.unfreeze()
            began = self._clock()
            gc.collect()
            self._all_s = self._clock() - began
        elif modules == self._modules:
            return
        # Imports leave almost no garbage.  A collection here took a tenth of a second in the first
        # tasks of a worker, and freed some hundred objects.
        if self.measure_collection not in gc.callbacks:
            gc.callbacks.append(self.measure_collection)
        gc.freeze()
        self._modules, self._spent_s = modules, 0.0

    def measure_collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Measure a collection that begins or has ended, for `gc.callbacks`."""
        # Only a collection of the oldest generation walks all objects.
        if info["generation"] != 2:
            return
        if phase == "start":
            self._began = self._clock()
            return
        took_s = self._clock() - self._began
        if took_s >= self._long_s:
            self._spent_s += took_s
            gc.freeze()


_FROZEN = GcFreeze()
