# SPDX-License-Identifier: Apache-2.0
"""What a state with a TTL is written while it is iterated over stays as it was written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from probe import Driver, drive
from tasks import Task

from pyflinklike import (
    HashMapStateBackend,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    Types,
)

UPDATES = list(StateTtlConfig.UpdateType)
VISIBILITIES = list(StateTtlConfig.StateVisibility)
all_corners = pytest.mark.parametrize(
    ("update", "visibility"),
    [(update, visibility) for update in UPDATES for visibility in VISIBILITIES if update.value],
    ids=lambda each: each.name,
)
refreshed = pytest.mark.parametrize("visibility", VISIBILITIES, ids=lambda each: each.name)
ON_READ = StateTtlConfig.UpdateType.OnReadAndWrite


def ttl(update: Any, visibility: Any) -> StateTtlConfig:
    """100 ms, without cleanup in the background."""
    builder = StateTtlConfig.new_builder(100).set_update_type(update)
    return builder.set_state_visibility(visibility).disable_cleanup_in_background().build()


def a_map(update: Any, visibility: Any, at: dict[str, int]) -> Driver:
    """A map whose entries, all 1, were put at these times."""
    descriptor = MapStateDescriptor("s", Types.STRING(), Types.LONG())
    descriptor.enable_time_to_live(ttl(update, visibility))
    state = drive(descriptor)
    for key, time in at.items():
        state.at(time).put(key, 1)
    return state


def while_iterating(act: Callable[[Any], None]) -> Callable[[Any, Any], None]:
    """Iterates over a map, and does this once, at its first entry."""

    def script(state: Any, _: Any) -> None:
        items = iter(state.items())
        next(items)
        act(state)
        for _ in items:
            pass

    return script


@all_corners
def test_an_expired_entry_that_is_put_before_its_turn_stays(update: Any, visibility: Any) -> None:
    """The iteration judges what was there when it began, and removes it only if it is there yet."""
    state = a_map(update, visibility, {"alive": 50, "late": 0})
    state.at(100).run(while_iterating(lambda state: state.put("late", 2)))
    assert {"alive": 1, "late": 2} == dict(state.items())


@refreshed
def test_an_alive_entry_that_is_put_before_its_turn_keeps_the_new_value(visibility: Any) -> None:
    """Reading stamps anew what is there, not what was."""
    state = a_map(ON_READ, visibility, {"a": 0, "b": 0})
    state.at(50).run(while_iterating(lambda state: state.put("b", 2)))
    assert {"a": 1, "b": 2} == dict(state.items())


@refreshed
def test_an_alive_entry_that_is_removed_before_its_turn_stays_away(visibility: Any) -> None:
    """Reading does not bring it back."""
    state = a_map(ON_READ, visibility, {"a": 0, "b": 0})
    state.at(50).run(while_iterating(lambda state: state.remove("b")))
    assert {"a": 1} == dict(state.items())


@refreshed
def test_a_map_that_is_cleared_while_it_is_iterated_stays_empty(visibility: Any) -> None:
    """With reads that stamp anew."""
    state = a_map(ON_READ, visibility, {"a": 0, "b": 0})
    state.at(50).run(while_iterating(lambda state: state.clear()))
    assert {} == dict(state.items())


@all_corners
def test_a_list_that_is_replaced_while_its_expired_elements_are_iterated_stays(
    update: Any, visibility: Any
) -> None:
    """The new elements have the positions of the old ones, whose end clears these."""
    descriptor = ListStateDescriptor("s", Types.LONG())
    descriptor.enable_time_to_live(ttl(update, visibility))
    state = drive(descriptor)
    state.update([1, 2, 3])

    def replace_while_iterating(state: Any, _: Any) -> None:
        elements = iter(state.get())
        if visibility is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp:
            next(elements)
        state.update([7, 8])
        for _ in elements:
            pass

    state.at(100).run(replace_while_iterating)
    assert [7, 8] == state.get()


class Replaces(KeyedProcessFunction):
    """Iterates over an expired list, which the first of these elements replaces."""

    def open(self, runtime_context: Any) -> None:
        descriptor = ListStateDescriptor("s", Types.LONG())
        relaxed = StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
        descriptor.enable_time_to_live(ttl(StateTtlConfig.UpdateType.OnCreateAndWrite, relaxed))
        self.list = runtime_context.get_list_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        for _ in self.list.get():
            self.list.update([2])
        self.list.add(value)
        return ()


def test_only_what_an_iteration_deletes_is_counted_as_expired() -> None:
    """Its two elements were not there any more at its end."""
    task = Task(Replaces(), HashMapStateBackend())
    for _ in range(3):
        task.serve([("k", 1, None)])
    task.serve([("k", 1, None)], processing_time=100)
    counted = task.counts["expired_entries"]
    task.serve([("k", 1, None)], processing_time=150)
    assert (0, 0) == (counted, task.counts["expired_entries"])
