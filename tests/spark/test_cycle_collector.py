# SPDX-License-Identifier: Apache-2.0
"""What a Spark worker has imported is walked by no collection between its tasks."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")

from pyflinklike.spark.hosts.cycle_collector import with_imports_frozen

NEW = "imported_by_a_function_of_a_user"


@pytest.fixture(autouse=True)
def nothing_frozen():
    """Neither before nor after a test."""
    gc.unfreeze()
    yield
    sys.modules.pop(NEW, None)
    gc.unfreeze()


@with_imports_frozen
def task(value):
    """What a worker runs."""
    return value, gc.get_freeze_count()


def test_imports_are_frozen_once_and_again_after_further_imports(monkeypatch):
    """Objects made between two tasks without an import stay in sight of the collector."""
    monkeypatch.setenv("SPARK_REUSE_WORKER", "1")
    first = task("a")
    made = [[] for _ in range(1_000)]
    second = task("b")
    sys.modules[NEW] = ModuleType(NEW)
    third = task("c")

    assert [("a", True), ("b", True)] == [
        (value, count > 10_000) for value, count in (first, second)
    ]
    assert second[1] - first[1] < len(made)
    assert third[1] - first[1] >= len(made)


def test_nothing_is_frozen_where_no_worker_is_used_again(monkeypatch):
    """Such as on the driver, where a user's own objects are."""
    monkeypatch.delenv("SPARK_REUSE_WORKER", raising=False)

    assert ("a", 0) == task("a")
