# SPDX-License-Identifier: Apache-2.0
"""What a Spark worker has imported is walked by no collection between its tasks."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from types import ModuleType

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from pyflinklike.spark._host.collector_freeze import GcFreeze, freeze_imports

NEW = "imported_by_a_function_of_a_user"


@pytest.fixture(autouse=True)
def nothing_frozen():
    """Neither before nor after a test."""
    gc.unfreeze()
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    sys.modules.pop(NEW, None)
    gc.unfreeze()


class Cycle:
    """Refers to itself."""

    def __init__(self):
        self.me = self


def task(value):
    """What a worker runs."""
    freeze_imports()
    return value, gc.get_freeze_count()


def in_sight(objects):
    """How many of them the collector walks: those that are not frozen."""
    return len({id(each) for each in objects} & {id(each) for each in gc.get_objects()})


def test_imports_are_frozen_once_and_again_after_further_imports(monkeypatch):
    """Objects made between two tasks without an import stay in sight of the collector."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    first = task("a")
    made = [[] for _ in range(1_000)]
    second = task("b")
    assert in_sight(made) == 1_000
    sys.modules[NEW] = ModuleType(NEW)
    task("c")

    assert [("a", True), ("b", True)] == [
        (value, count > 10_000) for value, count in (first, second)
    ]
    assert in_sight(made) == 0


def test_nothing_is_frozen_where_no_worker_is_used_again(monkeypatch):
    """Such as on the driver, where a user's own objects are."""
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)

    assert ("a", 0) == task("a")


@pytest.fixture
def worker():
    """For which every collection takes 2 s, and is long from 1 s on; that of all takes longer.

    The first long one is followed by one of all: before, nobody knows how long that takes.
    """
    frozen = GcFreeze(long_s=1, clock=itertools.count(step=2).__next__)
    frozen.begin_task()
    return frozen


def test_what_survives_a_long_collection_is_walked_no_more(worker):
    """As warm state does; it is still freed when the last reference goes."""
    state = {key: [key] for key in range(30_000)}
    gc.collect()
    frozen = gc.get_freeze_count()
    assert len(gc.get_objects()) < 10_000 < 30_000 < frozen

    state.clear()
    assert gc.get_freeze_count() < frozen - 29_000


def test_cycles_that_die_frozen_are_freed_in_time(worker):
    """A cache of cycles that is made anew between all collections does not pile up for ever."""
    alive = weakref.WeakSet()
    counts = []
    for _ in range(9):
        cache = [Cycle() for _ in range(500)]
        alive.update(cache)
        gc.collect()
        worker.begin_task()
        counts.append(len(alive))
    # Collecting all takes 6 s, as the collector's own 2 s lie within it: it is time after 8 s.
    assert [500, 1_000, 1_500, 2_000, 500, 1_000, 1_500, 2_000, 500] == counts


def test_imports_alone_collect_nothing():
    """A worker's first task begins at once."""
    collected = []
    gc.callbacks.append(lambda phase, info: collected.append(info["generation"]))
    GcFreeze().begin_task()

    assert (0, True) == (collected.count(2), gc.get_freeze_count() > 10_000)


def test_a_short_collection_freezes_nothing():
    """There is nothing to be gained."""
    worker = GcFreeze(long_s=60)
    worker.begin_task()
    before = gc.get_freeze_count()
    state = [[key] for key in range(10_000)]
    gc.collect()
    assert (True, 10_000) == (gc.get_freeze_count() <= before, len(state))
