# SPDX-License-Identifier: Apache-2.0
"""The table around a table: plain values outside, stamped ones inside, for many at once too."""

from __future__ import annotations

from typing import Any

import pytest

from pyflinklike import StateTtlConfig
from pyflinklike._clock import Clock
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import MISSING, Shape, Table, TableSpec
from pyflinklike.state.ttl_table import TtlTable
from pyflinklike.types import Types

SPEC = TableSpec("map", Shape.MAP, "map", Types.LONG(), Types.STRING(), paired=True)
RELAXED = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
ON_READ = StateTtlConfig.UpdateType.OnReadAndWrite


def around(clock: Clock, *, relaxed: bool = False, on_read: bool = False) -> tuple[Table, TtlTable]:
    """A map with "old" of 0 ms and "new" of 50 ms, and the table around it: at 100 ms, TTL 100."""
    builder = StateTtlConfig.new_builder(100).disable_cleanup_in_background()
    if relaxed:
        builder.set_state_visibility(RELAXED)
    if on_read:
        builder.set_update_type(ON_READ)
    table = HashMapStateBackend().create_keyed_state_backend(CurrentKey("k"), "tested").table(SPEC)
    outer = TtlTable(table, builder.build(), clock)
    outer.multi_put([("old", 1)])
    clock.processing_time = 50
    outer.put("new", 2)
    clock.processing_time = 100
    return table, outer


@pytest.mark.parametrize(("relaxed", "old"), [(False, MISSING), (True, 1)])
def test_many_that_are_asked_for_at_once_are_judged_one_by_one(relaxed: bool, old: Any) -> None:
    """An expired one is removed, one that is not there is missing."""
    table, outer = around(Clock(), relaxed=relaxed)
    assert [old, MISSING, 2] == outer.multi_get(["old", "none", "new"])
    assert ([("new", (50, 2))], 1) == (list(table.items()), outer.expired)


def test_many_that_are_asked_for_at_once_are_stamped_anew() -> None:
    """Under `OnReadAndWrite`, under their own user keys."""
    table, outer = around(Clock(), on_read=True)
    outer.multi_get(["old", "new"])
    assert [("new", (100, 2))] == list(table.items())


def test_a_scan_gives_values_without_stamps() -> None:
    """Expired or not."""
    _, outer = around(Clock())
    assert [("k", "old", 1), ("k", "new", 2)] == list(outer.scan())


def test_a_sweep_asks_about_values() -> None:
    """Of some entries or of all; the number deleted is told."""
    table, outer = around(Clock())
    outer.sweep(9, lambda _: False)  # begins the pass
    assert (1, 1) == (outer.sweep(9, lambda value: value == 2), table.count())
    assert (1, 0) == (outer.sweep_all(lambda value: value == 1), outer.count())


def test_no_more_entries_than_it_is_told_to_are_looked_at() -> None:
    """By one sweep."""
    _, outer = around(Clock())
    seen: list[Any] = []
    outer.sweep(1, lambda _: False)
    for _ in range(2):
        outer.sweep(1, lambda value: bool(seen.append(value)))
    assert [1, 2] == seen
