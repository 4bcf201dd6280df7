# SPDX-License-Identifier: Apache-2.0
"""Lists with TTL, whose elements expire one by one."""

import pytest
from ttl_support import (
    CORNERS,
    NEVER,
    READ_WRITE,
    RELAXED,
    WRITE,
    all_corners,
    both_update_types,
    both_visibilities,
    holding_one,
    list_,
    quiet,
)

relaxed_corners = pytest.mark.parametrize("corner", [c for c in CORNERS if c[1] is RELAXED])


def two_ages(corner):
    """A list with "old" stamped 0 and "new" stamped 50, at time 100: 1 is expired, 2 alive."""
    state = quiet(list_, corner)
    state.add(1)
    state.at(50).add(2)
    return state.at(100)


@both_update_types
def test_a_mixed_list_hides_its_expired_elements(update):
    """Each element has its own stamp."""
    assert [2] == two_ages((update, NEVER)).get()


@both_visibilities
def test_a_mixed_list_keeps_its_expired_elements_stored(visibility):
    """Under OnCreateAndWrite reading it removes nothing while one is alive."""
    state = two_ages((WRITE, visibility))
    state.get()
    assert 2 == state.entries()


def test_a_mixed_relaxed_list_gives_expired_elements_again_and_again():
    """Until all are expired: then they are returned once, and cleared."""
    state = two_ages((WRITE, RELAXED))
    assert ([1, 2], [1, 2]) == (state.get(), state.get())
    assert ([1, 2], []) == (state.at(150).get(), state.get())
    assert 0 == state.entries()


def test_a_strict_list_that_is_all_expired_is_cleared():
    """At the end of an iteration that met no alive element."""
    state = two_ages((WRITE, NEVER))
    assert ([], 0) == (state.at(150).get(), state.entries())


def test_a_relaxed_list_under_read_and_write_drops_what_it_gives():
    """This get() still yields the expired element, the next one does not."""
    state = two_ages((READ_WRITE, RELAXED))
    assert ([1, 2], 1) == (state.get(), state.entries())
    assert [2] == state.get()


def test_a_strict_list_under_read_and_write_drops_what_it_hides():
    """The backend is left with the alive elements."""
    state = two_ages((READ_WRITE, NEVER))
    assert ([2], 1) == (state.get(), state.entries())


@both_visibilities
def test_a_list_under_read_and_write_restamps_all_alive_elements(visibility):
    """With one time, that of the read."""
    state = quiet(list_, (READ_WRITE, visibility))
    state.add(1)
    state.at(50).add(2)
    state.at(90).get()
    assert [1, 2] == state.at(189).get()


@both_update_types
def test_adding_to_a_list_touches_no_other_element(update):
    """It neither refreshes nor purges what is there."""
    state = holding_one(list_, (update, NEVER))
    state.at(50).add(2)
    state.at(100).add(3)
    assert (3, [2, 3]) == (state.entries(), state.get())


@both_update_types
def test_an_update_stamps_every_element(update):
    """The elements of an update are of one age."""
    state = two_ages((update, NEVER))
    state.update([3, 4])
    assert [3, 4] == state.at(199).get()
    assert [] == state.at(299).get()


@both_update_types
def test_an_expired_element_in_the_middle_is_filtered_too(update):
    """A clock that stepped back leaves one; every element is judged, not the head alone."""
    state = quiet(list_, (update, NEVER))
    state.at(50).add(1)
    state.at(0).add(2)
    state.at(60).add(3)
    assert [1, 3] == state.at(110).get()


def later_iteration(corner, time):
    """A list that was got at 50 and is iterated at `time`, with what that gives."""
    kept = []
    state = holding_one(list_, corner)
    state.at(50).run(lambda state, _: kept.append(state.get()))
    return state, state.at(time).run(lambda _state, _ctx: list(kept[0]))


@both_update_types
def test_a_list_judges_its_elements_when_they_are_iterated(update):
    """Got at 50 and iterated at 120 it is empty."""
    _, elements = later_iteration((update, NEVER), 120)
    assert [] == elements


@relaxed_corners
def test_a_relaxed_list_iterated_late_gives_what_expired(corner):
    """Judged late, they are given as expired ones are."""
    _, elements = later_iteration(corner, 120)
    assert [1] == elements


@all_corners
def test_a_list_that_is_not_iterated_cleans_nothing(corner):
    """get() alone is no reason to remove anything."""
    state = holding_one(list_, corner)
    state.at(100).run(lambda state, _: state.get() and None)
    assert 1 == state.entries()


def test_an_iteration_that_stops_early_cleans_nothing():
    """Only its end knows whether one was alive."""
    state = quiet(list_, (WRITE, RELAXED))
    state.update([1, 2])
    assert 1 == state.at(100).run(lambda state, _: next(iter(state)))
    assert 2 == state.entries()


def test_what_is_added_while_expired_elements_are_iterated_stays():
    """The clearing at the end takes only what was judged."""

    def add_while_iterating(state, _):
        for element in state.get():
            state.add(element + 10)

    state = holding_one(list_, (WRITE, RELAXED))
    state.at(100).run(add_while_iterating)
    assert [11] == state.get()
