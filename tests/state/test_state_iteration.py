# SPDX-License-Identifier: Apache-2.0
"""What a state gives within one call, while it is iterated over, changed, or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from probe import Driver, drive
from tasks import Task
from ttl_support import (
    CORNERS,
    NEVER,
    READ_WRITE,
    RELAXED,
    WRITE,
    all_corners,
    both_update_types,
    both_visibilities,
    builder,
    call,
    holding_one,
    list_,
    map_,
    quiet,
    value,
)

from pyflinklike import HashMapStateBackend, KeyedProcessFunction


def test_a_value_is_seen_within_the_call_that_stored_it():
    """There is no commit to wait for."""
    state = drive(value())
    assert 5 == state.run(lambda state, _: (state.update(5), state.value())[1])


@pytest.mark.parametrize(
    ("kind", "fill", "method"),
    [
        (list_, ("update", [1, 2]), "get"),
        *((map_, ("put_all", {"a": 1, "b": 2}), name) for name in ("items", "keys", "values")),
    ],
)
def test_what_a_state_gives_can_be_iterated_again(kind, fill, method):
    """It is no one-shot generator, and of an empty state it is empty and never None."""

    def iterate_twice(state: Any, _: Any) -> Any:
        iterable = getattr(state, method)()
        return list(iterable), list(iterable)

    state = drive(kind())
    assert [] == getattr(state, method)()
    call(state, fill)
    expected = getattr(state, method)()
    assert 2 == len(expected)
    assert (expected, expected) == state.run(iterate_twice)


def test_a_list_can_be_updated_with_what_it_gives():
    """The elements are taken before the old ones go."""
    state = drive(list_())
    state.update([1, 2, 3])
    state.run(lambda state, _: state.update(x for x in state if x != 2))
    assert [1, 3] == state.get()


def test_what_a_list_gave_does_not_grow_with_the_state():
    """It is the list as it was at that call."""

    def get_then_add(state: Any, _: Any) -> Any:
        elements = state.get()
        state.add(2)
        return list(elements)

    state = drive(list_())
    state.add(1)
    assert ([1], [1, 2]) == (state.run(get_then_add), state.get())


def test_a_map_can_be_changed_while_it_is_iterated():
    """There is no ConcurrentModificationException; put, remove and clear are allowed."""

    def change(state: Any, _: Any) -> Any:
        seen = []
        for key, each in state.items():
            seen.append(key)
            state.remove(key)
            state.put(key + key, each)
        return seen

    state = drive(map_())
    state.put_all({"a": 1, "b": 2})
    assert (["a", "b"], {"aa": 1, "bb": 2}) == (state.run(change), dict(state.items()))


# With a TTL


def a_map(update: Any, visibility: Any, at: dict[str, int]) -> Driver:
    """A map whose entries, all 1, were put at these times."""
    state = quiet(map_, (update, visibility))
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
def test_an_expired_entry_that_is_put_before_its_turn_stays(corner):
    """The iteration judges what was there when it began, and removes it only if it is there yet."""
    state = a_map(*corner, {"alive": 50, "late": 0})
    state.at(100).run(while_iterating(lambda state: state.put("late", 2)))
    assert {"alive": 1, "late": 2} == dict(state.items())


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda state: state.put("b", 2), {"a": 1, "b": 2}),
        (lambda state: state.remove("b"), {"a": 1}),
        (lambda state: state.clear(), {}),
    ],
    ids=["put", "remove", "clear"],
)
@both_visibilities
def test_an_alive_entry_that_is_changed_before_its_turn_is_as_it_was_changed(
    visibility, act, expected
):
    """Reading stamps anew what is there, not what was, and brings nothing back."""
    state = a_map(READ_WRITE, visibility, {"a": 0, "b": 0})
    state.at(50).run(while_iterating(act))
    assert expected == dict(state.items())


@both_visibilities
def test_iterating_over_a_map_refreshes_what_it_reaches(visibility):
    """An entry the iteration did not come to keeps its stamp."""
    state = a_map(READ_WRITE, visibility, {"a": 0, "b": 0})
    state.at(60).run(lambda state, _: next(iter(state.keys())))
    state.at(100).run(lambda state, _: [state.contains("a"), state.contains("b")])
    assert 1 == state.entries()


@all_corners
def test_a_list_that_is_replaced_while_its_expired_elements_are_iterated_stays(corner):
    """The new elements have the positions of the old ones, whose end clears these."""
    state = quiet(list_, corner)
    state.update([1, 2, 3])

    def replace_while_iterating(state: Any, _: Any) -> None:
        elements = iter(state.get())
        if corner[1] is RELAXED:
            next(elements)
        state.update([7, 8])
        for _ in elements:
            pass

    state.at(100).run(replace_while_iterating)
    assert [7, 8] == state.get()


def test_what_is_added_while_expired_elements_are_iterated_stays():
    """The clearing at the end takes only what was judged."""

    def add_while_iterating(state: Any, _: Any) -> None:
        for element in state.get():
            state.add(element + 10)

    state = holding_one(list_, (WRITE, RELAXED))
    state.at(100).run(add_while_iterating)
    assert [11] == state.get()


@pytest.mark.parametrize(("visibility", "seen"), [(NEVER, []), (RELAXED, [1])], ids=str)
@both_update_types
def test_a_list_judges_its_elements_when_they_are_iterated(update, visibility, seen):
    """Got at 50 and iterated at 120."""
    kept: list[Any] = []
    state = holding_one(list_, (update, visibility))
    state.at(50).run(lambda state, _: kept.append(state.get()))
    assert seen == state.at(120).run(lambda _state, _ctx: list(kept[0]))


@pytest.mark.parametrize(
    ("corner", "read"),
    [
        *((corner, lambda state: state.get()) for corner in CORNERS),
        ((WRITE, RELAXED), lambda state: next(iter(state))),
    ],
)
def test_a_list_that_is_not_iterated_to_its_end_cleans_nothing(corner, read):
    """Only the end knows whether an element was alive."""
    state = quiet(list_, corner)
    state.update([1, 2])
    state.at(100).run(lambda state, _: read(state) and None)
    assert 2 == state.entries()


class Replaces(KeyedProcessFunction):
    """Iterates over an expired list, which the first of these elements replaces."""

    def open(self, runtime_context: Any) -> None:
        descriptor = list_()
        relaxed = builder((WRITE, RELAXED)).disable_cleanup_in_background().build()
        descriptor.enable_time_to_live(relaxed)
        self.list = runtime_context.get_list_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        for _ in self.list.get():
            self.list.update([2])
        self.list.add(value)
        return ()


def test_only_what_an_iteration_deletes_is_counted_as_expired():
    """Its two elements were not there any more at its end."""
    task = Task(Replaces(), HashMapStateBackend())
    for _ in range(3):
        task.serve([("k", 1, None)])
    task.serve([("k", 1, None)], processing_time=100)
    counted = task.counts["expired_entries"]
    task.serve([("k", 1, None)], processing_time=150)
    assert (0, 0) == (counted, task.counts["expired_entries"])
