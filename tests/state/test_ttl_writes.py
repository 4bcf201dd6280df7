# SPDX-License-Identifier: Apache-2.0
"""What a write with TTL gives and stamps, and what neither reads nor writes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from ttl_support import (
    KINDS,
    NEVER,
    PLAIN_READ,
    RELAXED,
    aggregating,
    all_corners,
    both_update_types,
    call,
    expiring,
    holding_one,
    list_,
    map_,
    quiet,
    reducing,
    value,
)

from pyflinklike import MapStateDescriptor, Types
from pyflinklike.errors import StateValueError


class Write(NamedTuple):
    """A way to write to a state that holds 1, and what a read then gives."""

    kind: Callable[[], Any]
    write: tuple[Any, ...]
    alive: Any
    never: Any
    relaxed: Any


WRITES = {
    "value.update": Write(value, ("update", 2), 2, 2, 2),
    "map.put": Write(map_, ("put", "u", 2), 2, 2, 2),
    "map.put_all": Write(map_, ("put_all", {"u": 2}), 2, 2, 2),
    "map[]=": Write(map_, ("__setitem__", "u", 2), 2, 2, 2),
    "list.add": Write(list_, ("add", 2), [1, 2], [2], [1, 2]),
    "list.add_all": Write(list_, ("add_all", [2, 3]), [1, 2, 3], [2, 3], [1, 2, 3]),
    "list.update": Write(list_, ("update", [2]), [2], [2], [2]),
    "reducing.add": Write(reducing, ("add", 2), 3, 2, 3),
    "aggregating.add": Write(aggregating, ("add", 2), 3, 2, 3),
}


writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


# What a write gives and stamps


@writes
@all_corners
def test_a_write_onto_what_is_alive(write, corner):
    """It overwrites, appends or folds."""
    state = holding_one(write.kind, corner)
    call(state.at(99), write.write)
    assert write.alive == call(state, PLAIN_READ[write.kind].read)


@writes
@both_update_types
def test_a_write_onto_what_expired_unseen(write, update):
    """Under NeverReturnExpired it is as if nothing had been there."""
    state = holding_one(write.kind, (update, NEVER))
    call(state.at(100), write.write)
    assert write.never == call(state, PLAIN_READ[write.kind].read)


@writes
@both_update_types
def test_a_write_onto_what_expired_in_sight(write, update):
    """Relaxed, what folds takes the expired value in: it lives again."""
    state = holding_one(write.kind, (update, RELAXED))
    call(state.at(100), write.write)
    assert write.relaxed == call(state, PLAIN_READ[write.kind].read)


@writes
@all_corners
@pytest.mark.parametrize("written_at", [60, 500], ids=["alive", "expired"])
def test_a_write_lasts_one_ttl(write, corner, written_at):
    """What was written, or folded into, at T lives at T + 99 and is expired at T + 100."""
    plain = PLAIN_READ[write.kind].read
    for later, any_left in ((99, True), (100, False)):
        state = holding_one(write.kind, corner)
        call(state.at(written_at), write.write)
        call(state.at(written_at + later), plain)
        assert any_left == (state.entries() > 0)


@all_corners
def test_a_fold_renews_the_whole_accumulator(corner):
    """Not the added element alone: the first one lives on with it."""
    state = holding_one(reducing, corner)
    for time in (90, 180, 270):
        state.at(time).add(1)
    assert 4 == state.at(369).get()


@both_update_types
def test_a_put_leaves_the_stamps_of_other_entries(update):
    """A put_all too stamps what it names only."""
    state = quiet(map_, (update, NEVER))
    state.put_all({"a": 1, "b": 2, "c": 3})
    state.at(50).put("a", 4)
    state.put_all({"b": 5})
    assert [("a", 4), ("b", 5)] == state.at(100).items()


def test_a_value_that_does_not_fit_does_not_renew_the_stamp():
    """A write that is refused renews nothing."""
    state = expiring(value)
    state.update(1)
    with pytest.raises(StateValueError, match="Long"):
        state.at(50).update("x")
    assert None is state.at(100).value()


@pytest.mark.parametrize("kind", [list_, reducing, aggregating])
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_the_refusal_of_none_leaves_value_and_stamp(kind, time, corner):
    """add(None) neither clears nor refreshes, with a TTL as without."""
    state = holding_one(kind, corner)
    with pytest.raises(StateValueError, match="must not be None"):
        state.at(time).add(None)
    assert 1 == state.entries()
    state.at(100).get()
    assert 0 == state.entries()


# What is neither read nor write


@KINDS
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_clear_is_a_plain_clear(kind, time, corner):
    """Nothing is left to see, also under relaxed visibility."""
    state = holding_one(kind, corner)
    state.at(time).clear()
    assert (0, PLAIN_READ[kind].gone) == (state.entries(), call(state, PLAIN_READ[kind].read))


@pytest.mark.parametrize("nothing", [(value, None), (list_, [])], ids=["None", "[]"])
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_an_update_with_nothing_clears(nothing, time, corner):
    """update(None) and update([]) do not bring an old value back."""
    kind, empty = nothing
    state = holding_one(kind, corner)
    state.at(time).update(empty)
    assert (0, PLAIN_READ[kind].gone) == (state.entries(), call(state, PLAIN_READ[kind].read))


@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_remove_is_a_plain_remove(time, corner):
    """The entry is gone, and the others keep value and stamp."""
    state = holding_one(map_, corner)
    state.put("v", 2)
    state.at(time).remove("u")
    assert 1 == state.entries()
    state.at(100).contains("v")
    assert 0 == state.entries()


@all_corners
def test_is_empty_looks_at_no_stamp(corner):
    """It is False while an expired entry is stored, removes nothing, refreshes nothing."""
    state = holding_one(map_, corner)
    assert (False, False) == (state.at(50).is_empty(), state.at(100).is_empty())
    assert 1 == state.entries()
    state.get("u")
    assert (True, 0) == (state.is_empty(), state.entries())


@all_corners
def test_a_none_value_in_a_map_lives_and_dies_as_any_other(corner):
    """None is data: contains tells it from nothing."""
    descriptor = MapStateDescriptor("s", Types.STRING(), Types.STRING())
    state = quiet(lambda: descriptor, corner)
    state.put("u", None)
    assert (True, None) == (state.at(99).contains("u"), state.get("u"))
    state.at(199).contains("u")
    assert (False, 0) == (state.contains("u"), state.entries())
