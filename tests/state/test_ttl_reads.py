# SPDX-License-Identifier: Apache-2.0
"""What a read with TTL gives, renews and removes, in every corner."""

import pytest
from ttl_support import (
    NEVER,
    PLAIN_READ,
    READ_WRITE,
    RELAXED,
    WRITE,
    all_corners,
    both_update_types,
    both_visibilities,
    call,
    holding_one,
    map_,
    quiet,
    reads,
)


@reads
@both_visibilities
def test_a_read_refreshes_under_read_and_write(read, visibility):
    """Read at 60, it is alive at 159 and expired at 160."""
    state = holding_one(read.kind, (READ_WRITE, visibility))
    call(state.at(60), read.read)
    state.at(159)
    assert read.seen == call(state, read.read)
    assert 1 == state.entries()


@reads
@both_visibilities
def test_the_refresh_of_a_read_lasts_one_ttl(read, visibility):
    """Read at 60, it is expired at 160, so the next read removes it."""
    state = holding_one(read.kind, (READ_WRITE, visibility))
    call(state.at(60), read.read)
    call(state.at(160), read.read)
    assert 0 == state.entries()


@reads
@both_visibilities
def test_a_read_does_not_refresh_under_create_and_write(read, visibility):
    """Read at 60, it is expired at 100 all the same."""
    state = holding_one(read.kind, (WRITE, visibility))
    call(state.at(60), read.read)
    call(state.at(100), read.read)
    assert 0 == state.entries()


@reads
@both_update_types
def test_a_strict_read_of_what_expired_finds_nothing_and_removes_it(read, update):
    """NeverReturnExpired hides it, and the entry is gone."""
    state = holding_one(read.kind, (update, NEVER)).at(100)
    assert (1, read.gone) == (state.entries(), call(state, read.read))
    assert 0 == state.entries()


@reads
@both_update_types
def test_a_relaxed_read_of_what_expired_finds_it_once_and_removes_it(read, update):
    """ReturnExpiredIfNotCleanedUp gives it one last time; OnReadAndWrite does not save it."""
    state = holding_one(read.kind, (update, RELAXED)).at(100)
    assert read.seen == call(state, read.read)
    assert (0, read.gone) == (state.entries(), call(state, read.read))


@both_update_types
def test_a_relaxed_contains_takes_the_value_with_it(update):
    """contains() of an expired entry is True once; a following get() is None."""
    state = holding_one(map_, (update, RELAXED)).at(100)
    assert (True, None) == (state.contains("u"), state.get("u"))


@reads
@all_corners
def test_a_read_of_one_key_leaves_the_others_alone(read, corner):
    """Neither does it refresh them nor remove them."""
    state = holding_one(read.kind, corner)
    call(state.of("b"), PLAIN_READ[read.kind].write)
    call(state.at(60), read.read)
    assert read.gone == call(state.of("c").at(100), read.read)
    assert 2 == state.entries()


def test_a_read_of_one_map_entry_refreshes_that_one_only():
    """Each entry of a map has its own stamp."""
    state = quiet(map_, (READ_WRITE, NEVER))
    state.put_all({"a": 1, "b": 2})
    state.at(60).get("a")
    assert [("a", 1)] == state.at(100).items()


@both_visibilities
def test_iterating_over_a_map_refreshes_what_it_reaches(visibility):
    """An entry the iteration did not come to keeps its stamp."""
    state = quiet(map_, (READ_WRITE, visibility))
    state.put_all({"a": 1, "b": 2})
    state.at(60).run(lambda state, _: next(iter(state.keys())))
    state.at(100).run(lambda state, _: [state.contains("a"), state.contains("b")])
    assert 1 == state.entries()


@pytest.mark.parametrize(
    ("visibility", "seen"), [(NEVER, ["young"]), (RELAXED, ["old", "young"])], ids=str
)
@both_update_types
def test_a_mixed_map_loses_its_expired_entries_while_it_is_iterated(update, visibility, seen):
    """Relaxed, they are yielded once."""
    state = quiet(map_, (update, visibility))
    state.put("old", 1)
    state.at(50).put("young", 2)
    assert seen == state.at(100).keys()
    assert (1, ["young"]) == (state.entries(), state.keys())


def test_what_is_put_while_a_map_is_iterated_stays():
    """An expired entry that was overwritten since is not removed."""

    def put_while_iterating(state, _):
        for key in state:
            state.put(key, 2)
            state.put("v", 3)

    state = holding_one(map_, (WRITE, RELAXED))
    state.put("v", 1)
    state.at(100).run(put_while_iterating)
    assert {"u": 2, "v": 3} == dict(state.at(150).items())
