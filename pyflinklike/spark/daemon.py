# SPDX-License-Identifier: Apache-2.0
"""A daemon of Spark's Python workers that has imported what workers of ours need.

Spark forks its Python workers from a daemon.  PySpark's own daemon imports almost nothing, so each
worker imports PyArrow, pandas, PySpark's worker and this package by itself: it starts late, and holds
pages of its own for them.  With

    spark.python.daemon.module  pyflinklike.spark.daemon

set before the session starts, the daemon imports them once.  Workers begin with them and share their
pages.  Nothing else changes: the daemon is PySpark's `pyspark.daemon`, which is called when all is
imported (https://github.com/apache/spark/blob/master/python/pyspark/daemon.py).

PySpark imports nothing in its daemon because a fork copies only the thread that calls it: a lock that
another thread holds at that moment stays locked in the child.  The rules here:

* At a fork there is no thread that does not know of forks.  OpenBLAS ends its threads before one, and
  starts others when they are needed.  The one that frees memory for jemalloc, which PyArrow brings with
  it, stays in the parent; jemalloc holds its locks during a fork, and the child goes on without it
  (https://github.com/jemalloc/jemalloc/blob/dev/src/background_thread.c).  A first fork that does
  nothing shows which other threads there are.  If there is one, or if that cannot be found out, the
  plain daemon runs.
* No two workers draw the same random numbers.  Python seeds its own generator again behind a fork,
  NumPy does not.
* Nothing is printed to the standard output: the JVM reads the daemon's port there.
* A package that cannot be imported is left to the workers, which raise their own error.
* What is imported is frozen: a collection of cycles in a worker would write to pages that are shared.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyflinklike._messages import shown_error

__all__ = ["main"]

_PACKAGES = (
    "pyspark.worker",
    "numpy",
    "pyarrow.compute",
    "pandas",
    "pyspark.sql.pandas.serializers",
)
_OF_SPARK_4 = (
    "pyspark.sql.streaming.stateful_processor_util",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyflinklike.spark._host.streaming_host",
    "pyflinklike.spark._host.relay",
)
_OF_SPARK_3 = ("pyflinklike.spark._host.group_state_host",)
_OURS = ("pyflinklike.spark._host.batch_host", "pyflinklike.spark._host.driver_pickle")
_IF_INSTALLED = ("rocksdict",)
_THREADS = Path("/proc/self/task")
_KNOWS_FORKS = "jemalloc_bg_thd"
"""The name of a thread that may be there at a fork."""


def main() -> None:
    """Import what workers need, and then serve as PySpark's daemon, until Spark ends it.

    Spark calls it, in a process of its own, if `spark.python.daemon.module` names this module.
    """
    gc.disable()
    with _standard_output_kept():
        for name in _wanted():
            _import(name)
        may_fork = _may_fork()
    if not may_fork:
        _say("a package has started a thread, so workers import by themselves")
        os.execv(sys.executable, [sys.executable, "-m", "pyspark.daemon", *sys.argv[1:]])  # noqa: S606 - itself
    os.register_at_fork(after_in_child=_seed_numpy)
    gc.collect()
    gc.freeze()
    gc.enable()
    daemon = importlib.import_module("pyspark.daemon")
    daemon.manager()


def _wanted() -> Iterator[str]:
    yield from _PACKAGES
    has_state = _is_there("pyspark.sql.streaming.stateful_processor_util")
    yield from _OF_SPARK_4 if has_state else _OF_SPARK_3
    yield from _OURS
    yield from filter(_is_there, _IF_INSTALLED)


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:  # of a package around it
        return False


def _import(name: str) -> None:
    try:
        importlib.import_module(name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever it is, workers can do without
        _say(f"workers import {name} by themselves: {shown_error(error)}")


def _may_fork() -> bool:
    """Return whether all threads that are left behind a fork know of forks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of any thread
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    own = str(os.getpid())
    try:
        names = [
            (thread / "comm").read_text().strip()
            for thread in _THREADS.iterdir()
            if thread.name != own
        ]
    except OSError:  # not Linux
        return False
    return set(names) <= {_KNOWS_FORKS}


def _seed_numpy() -> None:
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()


@contextmanager
def _standard_output_kept() -> Iterator[None]:
    """Have everything that is printed meanwhile go to the standard error."""
    # Also what a library prints that is not written in Python.
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _say(what: str) -> None:
    sys.stderr.write(f"pyflinklike.spark.daemon: {what}\n")


if __name__ == "__main__":
    main()
