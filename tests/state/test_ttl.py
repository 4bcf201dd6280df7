# SPDX-License-Identifier: Apache-2.0
"""The TTL matrix: every operation, on what is alive and what is expired, in all four corners.

The TTL is 100 ms throughout, and background cleanup is off but where it is the subject.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest
from probe import Record, Sum, drive

from pyflinklike import (
    MAX_WATERMARK,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import StateValueError

UpdateType = StateTtlConfig.UpdateType
WRITE, READ_WRITE = UpdateType.OnCreateAndWrite, UpdateType.OnReadAndWrite
Visibility = StateTtlConfig.StateVisibility
NEVER, RELAXED = Visibility.NeverReturnExpired, Visibility.ReturnExpiredIfNotCleanedUp
CORNERS = list(product([WRITE, READ_WRITE], [NEVER, RELAXED]))
CORNER_IDS = [f"{update.name}-{visibility.name}" for update, visibility in CORNERS]
all_corners = pytest.mark.parametrize("corner", CORNERS, ids=CORNER_IDS)
both_visibilities = pytest.mark.parametrize("visibility", [NEVER, RELAXED], ids=lambda v: v.name)
both_update_types = pytest.mark.parametrize("update", [WRITE, READ_WRITE], ids=lambda u: u.name)
relaxed_corners = pytest.mark.parametrize("corner", [c for c in CORNERS if c[1] is RELAXED])


def value():
    """Declares a value state."""
    return ValueStateDescriptor("s", Types.LONG())


def list_():
    """Declares a list state."""
    return ListStateDescriptor("s", Types.LONG())


def map_():
    """Declares a map state."""
    return MapStateDescriptor("s", Types.STRING(), Types.LONG())


def reducing():
    """Declares a reducing state that sums."""
    return ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG())


def aggregating():
    """Declares an aggregating state that sums."""
    return AggregatingStateDescriptor("s", Sum(), Types.LONG())


def builder(corner=(WRITE, NEVER), ttl=100):
    """A builder of a TTL in one of the four corners."""
    update, visibility = corner
    return StateTtlConfig.new_builder(ttl).set_update_type(update).set_state_visibility(visibility)


def expiring(kind, config=None, **options):
    """A driver of a state with a TTL."""
    descriptor = kind()
    descriptor.enable_time_to_live(config or builder().disable_cleanup_in_background().build())
    return drive(descriptor, **options)


def quiet(kind, corner):
    """A driver of a state in one corner, without background cleanup."""
    return expiring(kind, builder(corner).disable_cleanup_in_background().build())


class Read(NamedTuple):
    """A way to read a state that holds 1."""

    kind: Callable[[], Any]
    write: tuple[Any, ...]
    read: tuple[Any, ...]
    seen: Any
    gone: Any


class Write(NamedTuple):
    """A way to write to a state that holds 1, and what a read then gives."""

    kind: Callable[[], Any]
    write: tuple[Any, ...]
    alive: Any
    never: Any
    relaxed: Any


VALUE, LIST, MAP = ("update", 1), ("add", 1), ("put", "u", 1)
READS = {
    "value.value": Read(value, VALUE, ("value",), 1, None),
    "map.get": Read(map_, MAP, ("get", "u"), 1, None),
    "map.contains": Read(map_, MAP, ("contains", "u"), True, False),
    "map.items": Read(map_, MAP, ("items",), [("u", 1)], []),
    "map.keys": Read(map_, MAP, ("keys",), ["u"], []),
    "map.values": Read(map_, MAP, ("values",), [1], []),
    "map[]": Read(map_, MAP, ("__getitem__", "u"), 1, None),
    "in map": Read(map_, MAP, ("__contains__", "u"), True, False),
    "iter(map)": Read(map_, MAP, ("__iter__",), ["u"], []),
    "list.get": Read(list_, LIST, ("get",), [1], []),
    "iter(list)": Read(list_, LIST, ("__iter__",), [1], []),
    "reducing.get": Read(reducing, LIST, ("get",), 1, None),
    "aggregating.get": Read(aggregating, LIST, ("get",), 1, None),
}
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
PLAIN_READ = {value: READS["value.value"], map_: READS["map.get"], list_: READS["list.get"]}
PLAIN_READ |= {reducing: READS["reducing.get"], aggregating: READS["aggregating.get"]}
KINDS = pytest.mark.parametrize("kind", PLAIN_READ, ids=lambda kind: kind.__name__.strip("_"))
reads = pytest.mark.parametrize("read", READS.values(), ids=READS)
writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


def call(state, operation):
    """Make one call of a state, in a record of its own."""
    return getattr(state, operation[0])(*operation[1:])


def holding_one(kind, corner):
    """A driver of a state that holds 1 since time 0."""
    state = quiet(kind, corner)
    call(state, PLAIN_READ[kind].write)
    return state


# 2.2: the rule of expiry


@reads
@all_corners
def test_an_entry_is_alive_until_its_last_millisecond(read, corner):
    """Written at 0 with a TTL of 100, it is alive at 99 [2.2]."""
    state = holding_one(read.kind, corner)
    assert read.seen == call(state.at(99), read.read)
    assert 1 == state.entries()


@reads
@both_update_types
def test_the_boundary_belongs_to_the_dead(read, update):
    """Written at 0 with a TTL of 100, it is expired at 100 [2.2]."""
    state = holding_one(read.kind, (update, NEVER))
    assert read.gone == call(state.at(100), read.read)


def test_a_ttl_that_overflows_saturates():
    """An entry that would expire after the end of time expires at the end of time [2.2]."""
    state = expiring(value, builder(ttl=MAX_WATERMARK).build()).at(10)
    state.update(1)
    assert 1 == state.at(MAX_WATERMARK - 1).value()
    assert None is state.at(MAX_WATERMARK).value()


def test_a_ttl_on_a_negative_time_does_not_overflow():
    """Before the epoch there is nothing to clamp [2.2]."""
    state = expiring(value, builder(ttl=MAX_WATERMARK).build()).at(-10)
    state.update(1)
    assert 1 == state.at(MAX_WATERMARK - 11).value()
    assert None is state.at(MAX_WATERMARK - 10).value()


def test_a_clock_that_goes_back_lets_state_live_longer():
    """There is no monotonic guard, and a write then stamps the smaller time [2.2]."""
    state = expiring(value).at(1000)
    state.update(1)
    assert 1 == state.at(500).value()
    state.update(2)
    assert 2 == state.at(599).value()
    assert None is state.at(600).value()


def test_a_disabled_ttl_is_none():
    """UpdateType.Disabled expires nothing [2.2]."""
    state = expiring(value, StateTtlConfig.DISABLED)
    state.update(1)
    assert 1 == state.at(MAX_WATERMARK).value()


def test_the_time_of_a_key_does_not_count_for_another():
    """Each key has its own stamp."""
    state = expiring(value)
    state.update(1)
    state.of("b").at(50).update(2)
    assert (None, 2) == (state.at(100).value(), state.of("b").value())


# 2.3: reading


@reads
@both_visibilities
def test_a_read_refreshes_under_read_and_write(read, visibility):
    """Read at 60, it is alive at 159 and expired at 160 [2.3]."""
    state = holding_one(read.kind, (READ_WRITE, visibility))
    call(state.at(60), read.read)
    state.at(159)
    assert read.seen == call(state, read.read)
    assert 1 == state.entries()


@reads
@both_visibilities
def test_the_refresh_of_a_read_lasts_one_ttl(read, visibility):
    """Read at 60, it is expired at 160, so the next read removes it [2.3]."""
    state = holding_one(read.kind, (READ_WRITE, visibility))
    call(state.at(60), read.read)
    call(state.at(160), read.read)
    assert 0 == state.entries()


@reads
@both_visibilities
def test_a_read_does_not_refresh_under_create_and_write(read, visibility):
    """Read at 60, it is expired at 100 all the same [2.3]."""
    state = holding_one(read.kind, (WRITE, visibility))
    call(state.at(60), read.read)
    call(state.at(100), read.read)
    assert 0 == state.entries()


@reads
@both_update_types
def test_a_strict_read_of_what_expired_finds_nothing_and_removes_it(read, update):
    """NeverReturnExpired hides it, and the entry is gone [2.3]."""
    state = holding_one(read.kind, (update, NEVER)).at(100)
    assert (1, read.gone) == (state.entries(), call(state, read.read))
    assert 0 == state.entries()


@reads
@both_update_types
def test_a_relaxed_read_of_what_expired_finds_it_once_and_removes_it(read, update):
    """ReturnExpiredIfNotCleanedUp gives it one last time; OnReadAndWrite does not save it [2.3]."""
    state = holding_one(read.kind, (update, RELAXED)).at(100)
    assert read.seen == call(state, read.read)
    assert (0, read.gone) == (state.entries(), call(state, read.read))


@both_update_types
def test_a_relaxed_contains_takes_the_value_with_it(update):
    """contains() of an expired entry is True once; a following get() is None [2.3]."""
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
    """Each entry of a map has its own stamp [2.3]."""
    state = quiet(map_, (READ_WRITE, NEVER))
    state.put_all({"a": 1, "b": 2})
    state.at(60).get("a")
    assert [("a", 1)] == state.at(100).items()


@both_visibilities
def test_iterating_over_a_map_refreshes_what_it_reaches(visibility):
    """An entry the iteration did not come to keeps its stamp [2.3]."""
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
    """Relaxed, they are yielded once [2.3]."""
    state = quiet(map_, (update, visibility))
    state.put("old", 1)
    state.at(50).put("young", 2)
    assert seen == state.at(100).keys()
    assert (1, ["young"]) == (state.entries(), state.keys())


# 2.3: writing


@writes
@all_corners
def test_a_write_onto_what_is_alive(write, corner):
    """It overwrites, appends or folds [2.3]."""
    state = holding_one(write.kind, corner)
    call(state.at(99), write.write)
    assert write.alive == call(state, PLAIN_READ[write.kind].read)


@writes
@both_update_types
def test_a_write_onto_what_expired_unseen(write, update):
    """Under NeverReturnExpired it is as if nothing had been there [2.3]."""
    state = holding_one(write.kind, (update, NEVER))
    call(state.at(100), write.write)
    assert write.never == call(state, PLAIN_READ[write.kind].read)


@writes
@both_update_types
def test_a_write_onto_what_expired_in_sight(write, update):
    """Relaxed, what folds takes the expired value in: it lives again [2.3, R3, A3]."""
    state = holding_one(write.kind, (update, RELAXED))
    call(state.at(100), write.write)
    assert write.relaxed == call(state, PLAIN_READ[write.kind].read)


@writes
@all_corners
@pytest.mark.parametrize("written_at", [60, 500], ids=["alive", "expired"])
def test_a_write_lasts_one_ttl(write, corner, written_at):
    """What was written, or folded into, at T lives at T + 99 and is expired at T + 100 [2.3]."""
    plain = PLAIN_READ[write.kind].read
    for later, any_left in ((99, True), (100, False)):
        state = holding_one(write.kind, corner)
        call(state.at(written_at), write.write)
        call(state.at(written_at + later), plain)
        assert any_left == (state.entries() > 0)


@all_corners
def test_a_fold_renews_the_whole_accumulator(corner):
    """Not the added element alone: the first one lives on with it [2.3]."""
    state = holding_one(reducing, corner)
    for time in (90, 180, 270):
        state.at(time).add(1)
    assert 4 == state.at(369).get()


@both_update_types
def test_a_put_leaves_the_stamps_of_other_entries(update):
    """A put_all too stamps what it names only [2.3]."""
    state = quiet(map_, (update, NEVER))
    state.put_all({"a": 1, "b": 2, "c": 3})
    state.at(50).put("a", 4)
    state.put_all({"b": 5})
    assert [("a", 4), ("b", 5)] == state.at(100).items()


def test_a_value_that_does_not_fit_does_not_renew_the_stamp():
    """A refused write is none [DESIGN 9]."""
    state = expiring(value)
    state.update(1)
    with pytest.raises(StateValueError, match="Long"):
        state.at(50).update("x")
    assert None is state.at(100).value()


@pytest.mark.parametrize("kind", [list_, reducing, aggregating])
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_the_refusal_of_none_leaves_value_and_stamp(kind, time, corner):
    """add(None) neither clears nor refreshes, with a TTL as without [2.3, DESIGN 9]."""
    state = holding_one(kind, corner)
    with pytest.raises(StateValueError, match="must not be None"):
        state.at(time).add(None)
    assert 1 == state.entries()
    state.at(100).get()
    assert 0 == state.entries()


# 2.3: what is neither


@KINDS
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_clear_is_a_plain_clear(kind, time, corner):
    """Nothing is left to see, also under relaxed visibility [2.3]."""
    state = holding_one(kind, corner)
    state.at(time).clear()
    assert (0, PLAIN_READ[kind].gone) == (state.entries(), call(state, PLAIN_READ[kind].read))


@pytest.mark.parametrize("nothing", [(value, None), (list_, [])], ids=["None", "[]"])
@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_an_update_with_nothing_clears(nothing, time, corner):
    """update(None) and update([]) do not bring an old value back [2.3 testValueSetNull]."""
    kind, empty = nothing
    state = holding_one(kind, corner)
    state.at(time).update(empty)
    assert (0, PLAIN_READ[kind].gone) == (state.entries(), call(state, PLAIN_READ[kind].read))


@pytest.mark.parametrize("time", [50, 100], ids=["alive", "expired"])
@all_corners
def test_remove_is_a_plain_remove(time, corner):
    """The entry is gone, and the others keep value and stamp [2.3]."""
    state = holding_one(map_, corner)
    state.put("v", 2)
    state.at(time).remove("u")
    assert 1 == state.entries()
    state.at(100).contains("v")
    assert 0 == state.entries()


@all_corners
def test_is_empty_looks_at_no_stamp(corner):
    """It is False while an expired entry is stored, removes nothing, refreshes nothing [2.3]."""
    state = holding_one(map_, corner)
    assert (False, False) == (state.at(50).is_empty(), state.at(100).is_empty())
    assert 1 == state.entries()
    state.get("u")
    assert (True, 0) == (state.is_empty(), state.entries())


@all_corners
def test_a_none_value_in_a_map_lives_and_dies_as_any_other(corner):
    """None is data: contains tells it from nothing [2.3 TtlMapStatePerNullElement]."""
    descriptor = MapStateDescriptor("s", Types.STRING(), Types.STRING())
    state = quiet(lambda: descriptor, corner)
    state.put("u", None)
    assert (True, None) == (state.at(99).contains("u"), state.get("u"))
    state.at(199).contains("u")
    assert (False, 0) == (state.contains("u"), state.entries())


# 2.3: lists


def two_ages(corner):
    """A list with "old" stamped 0 and "new" stamped 50, at time 100: 1 is expired, 2 alive."""
    state = quiet(list_, corner)
    state.add(1)
    state.at(50).add(2)
    return state.at(100)


@both_update_types
def test_a_mixed_list_hides_its_expired_elements(update):
    """Each element has its own stamp [2.3 L2]."""
    assert [2] == two_ages((update, NEVER)).get()


@both_visibilities
def test_a_mixed_list_keeps_its_expired_elements_stored(visibility):
    """Under OnCreateAndWrite reading it removes nothing while one is alive [2.3 L2]."""
    state = two_ages((WRITE, visibility))
    state.get()
    assert 2 == state.entries()


def test_a_mixed_relaxed_list_gives_expired_elements_again_and_again():
    """Until all are expired: then they are returned once, and cleared [2.3 L3]."""
    state = two_ages((WRITE, RELAXED))
    assert ([1, 2], [1, 2]) == (state.get(), state.get())
    assert ([1, 2], []) == (state.at(150).get(), state.get())
    assert 0 == state.entries()


def test_a_strict_list_that_is_all_expired_is_cleared():
    """At the end of an iteration that met no alive element [2.3 L2]."""
    state = two_ages((WRITE, NEVER))
    assert ([], 0) == (state.at(150).get(), state.entries())


def test_a_relaxed_list_under_read_and_write_drops_what_it_gives():
    """This get() still yields the expired element, the next one does not [2.3 L5]."""
    state = two_ages((READ_WRITE, RELAXED))
    assert ([1, 2], 1) == (state.get(), state.entries())
    assert [2] == state.get()


def test_a_strict_list_under_read_and_write_drops_what_it_hides():
    """The backend is left with the alive elements [2.3]."""
    state = two_ages((READ_WRITE, NEVER))
    assert ([2], 1) == (state.get(), state.entries())


@both_visibilities
def test_a_list_under_read_and_write_restamps_all_alive_elements(visibility):
    """With one time, that of the read [2.3]."""
    state = quiet(list_, (READ_WRITE, visibility))
    state.add(1)
    state.at(50).add(2)
    state.at(90).get()
    assert [1, 2] == state.at(189).get()


@both_update_types
def test_adding_to_a_list_touches_no_other_element(update):
    """It neither refreshes nor purges what is there [2.3]."""
    state = holding_one(list_, (update, NEVER))
    state.at(50).add(2)
    state.at(100).add(3)
    assert (3, [2, 3]) == (state.entries(), state.get())


@both_update_types
def test_an_update_stamps_every_element(update):
    """The elements of an update are of one age [2.3]."""
    state = two_ages((update, NEVER))
    state.update([3, 4])
    assert [3, 4] == state.at(199).get()
    assert [] == state.at(299).get()


@both_update_types
def test_an_expired_element_in_the_middle_is_filtered_too(update):
    """A clock that stepped back leaves one; every element is judged, not the head alone [L9]."""
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
    """Got at 50 and iterated at 120 it is empty [2.3 L7]."""
    _, elements = later_iteration((update, NEVER), 120)
    assert [] == elements


@relaxed_corners
def test_a_relaxed_list_iterated_late_gives_what_expired(corner):
    """Judged late, they are given as expired ones are [2.3 L7]."""
    _, elements = later_iteration(corner, 120)
    assert [1] == elements


@all_corners
def test_a_list_that_is_not_iterated_cleans_nothing(corner):
    """get() alone is no reason to remove anything [2.3 L6, DESIGN 9]."""
    state = holding_one(list_, corner)
    state.at(100).run(lambda state, _: state.get() and None)
    assert 1 == state.entries()


def test_an_iteration_that_stops_early_cleans_nothing():
    """Only its end knows whether one was alive [2.3]."""
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


# Event time: ours


def by_event_time(kind=value, corner=(WRITE, NEVER)):
    """A driver of a state whose TTL follows the watermark."""
    return expiring(kind, builder(corner).use_event_time().disable_cleanup_in_background().build())


def test_an_event_time_ttl_follows_the_watermark():
    """Stamped at watermark 0 it is alive at 99 and expired at 100 [DESIGN 9]."""
    state = by_event_time().at_watermark(0)
    state.update(1)
    assert 1 == state.at_watermark(99).value()
    assert None is state.at_watermark(100).value()


def test_an_event_time_ttl_does_not_follow_the_processing_time():
    """However late it is."""
    state = by_event_time().at_watermark(0)
    state.update(1)
    assert 1 == state.at(10**9).value()


def test_a_processing_time_ttl_does_not_follow_the_watermark():
    """However far it is."""
    state = expiring(value)
    state.update(1)
    assert 1 == state.at_watermark(10**9).value()


def test_an_entry_written_ahead_of_the_watermark_does_not_die_young():
    """It is stamped with the time of its element [DESIGN 9]."""
    state = by_event_time().at_watermark(0).stamped(500)
    state.update(1)
    assert 1 == state.at_watermark(599).value()
    assert None is state.at_watermark(600).value()


def test_an_entry_written_late_is_stamped_with_the_watermark():
    """The larger of both times counts [DESIGN 9]."""
    state = by_event_time().at_watermark(500).stamped(0)
    state.update(1)
    assert 1 == state.at_watermark(599).value()
    assert None is state.at_watermark(600).value()


def test_nothing_expires_before_the_first_watermark():
    """Nothing is known of the time yet [DESIGN 9]."""
    state = by_event_time().stamped(0)
    state.update(1)
    assert 1 == state.stamped(10**9).value()


def test_an_entry_written_before_any_time_is_known_stays_until_it_is_written_again():
    """It cannot be said to grow old: neither a watermark nor an element told the time."""
    state = by_event_time()
    state.update(1)
    assert 1 == state.at_watermark(10**9).value()
    state.update(2)
    assert None is state.at_watermark(10**9 + 100).value()


def test_a_read_refreshes_an_event_time_stamp():
    """Under OnReadAndWrite, to the time of the reading element."""
    state = by_event_time(corner=(READ_WRITE, NEVER)).at_watermark(0).stamped(0)
    state.update(1)
    assert 1 == state.stamped(80).value()
    assert 1 == state.stamped(None).at_watermark(179).value()


def test_a_relaxed_event_time_ttl_gives_what_expired_once():
    """The other rules are the same."""
    state = by_event_time(corner=(WRITE, RELAXED)).at_watermark(0)
    state.update(1)
    assert (1, None) == (state.at_watermark(100).value(), state.value())


@pytest.mark.parametrize(("register", "time"), [("processing", 10**6), ("event", 5)])
def test_a_timer_stamps_an_event_time_entry_with_the_watermark(register, time):
    """The time of a processing timer is no event time, and that of the last element is over."""
    descriptor = value()
    descriptor.enable_time_to_live(builder().use_event_time().build())
    state = drive(descriptor, on_timer=lambda state, _time, _ctx: state.update(1))
    name = f"register_{register}_time_timer"
    state.stamped(50).run(lambda _, ctx: getattr(ctx.timer_service(), name)(time))
    state.at_watermark(10).at(10**9)
    state.at_watermark(109)
    assert 1 == state.value()
    assert None is state.at_watermark(110).value()


# 2.4: cleanup


def many(config, kind=value, keys=200):
    """A driver of a state in which so many keys expired, at time 100."""
    state = expiring(kind, config)
    for key in range(keys):
        call(state.of(key), PLAIN_READ[kind].write)
    return state.at(100)


@KINDS
def test_the_default_cleanup_empties_a_state_that_is_accessed(kind):
    """Each access of the state looks at a few entries, whichever key it is of [2.4]."""
    state = many(builder().build(), kind)
    for _ in range(200):
        call(state.of("other"), PLAIN_READ[kind].read)
    assert 0 == state.entries()


@KINDS
def test_without_background_cleanup_what_is_not_read_stays(kind):
    """disable_cleanup_in_background() drops the default [2.4]."""
    state = many(builder().disable_cleanup_in_background().build(), kind)
    for _ in range(200):
        call(state.of("other"), PLAIN_READ[kind].read)
    assert 200 == state.entries()


def test_an_explicit_incremental_cleanup_survives_disabling():
    """Only defaults are disabled [2.4]."""
    config = builder().cleanup_incrementally(5, False).disable_cleanup_in_background().build()
    state = many(config)
    for _ in range(200):
        state.of("other").value()
    assert 0 == state.entries()


@pytest.mark.parametrize(
    "access", [("update", 1), ("value",), ("clear",)], ids=lambda access: access[0]
)
def test_any_access_of_a_value_state_cleans(access):
    """clear() too [2.4]."""
    state = many(builder().build())
    for _ in range(200):
        call(state.of("other"), access)
    assert state.entries() <= 1


@pytest.mark.parametrize(
    "access",
    [("put", "u", 1), ("put_all", {}), ("remove", "u"), ("contains", "u"), ("is_empty",)],
    ids=lambda access: access[0],
)
def test_any_access_of_a_map_state_cleans(access):
    """is_empty() and remove() too [2.4]."""
    state = many(builder().build(), map_)
    for _ in range(200):
        call(state.of("other"), access)
    assert state.entries() <= 1


def test_clear_of_another_state_than_a_value_cleans_nothing():
    """In Flink only ValueState.clear() is an access [2.4]."""
    state = many(builder().build(), map_)
    for _ in range(200):
        state.of("other").clear()
    assert 200 == state.entries()


def test_cleanup_leaves_what_is_alive():
    """Only the expired keys go."""
    state = many(builder().build())
    for key in range(10):
        state.of(key).update(2)
    for _ in range(200):
        state.of("other").value()
    assert 10 == state.entries()
    assert [2] * 10 == [state.of(key).value() for key in range(10)]


def test_cleanup_rewrites_a_list_of_mixed_ages():
    """Its expired elements go, the others keep their order [2.4]."""
    state = expiring(list_, builder((WRITE, RELAXED)).build())
    state.add(1)
    state.at(50).add_all([2, 3])
    state.at(100)
    for _ in range(10):
        state.of("other").get()
    assert ([2, 3], 2) == (state.get(), state.entries())


def test_cleanup_of_one_state_leaves_another_alone():
    """The steps belong to the state that is accessed [2.4]."""
    swept, other = value(), ValueStateDescriptor("t", Types.LONG())
    for descriptor in (swept, other):
        descriptor.enable_time_to_live(builder().build())
    both = drive(swept, other)
    for key in range(20):
        both.of(key).run(lambda states, _: [state.update(1) for state in states])
    both.at(100)
    for _ in range(50):
        both.of("other").run(lambda states, _: states[0].value())
    assert (0, 20) == (both.entries("s"), both.entries("t"))


def test_a_state_cleaned_at_every_record_need_not_be_accessed():
    """cleanup_incrementally(n, True) takes a step at each record [2.4]."""
    state = many(builder().cleanup_incrementally(3, True).build())
    for _ in range(200):
        state.run(lambda _state, _ctx: None)
    assert 0 == state.entries()


def test_a_state_not_cleaned_at_every_record_waits_for_an_access():
    """cleanup_incrementally(n, False) takes a step at each access only [2.4]."""
    state = many(builder().cleanup_incrementally(3, False).build())
    for _ in range(200):
        state.run(lambda _state, _ctx: None)
    assert 200 == state.entries()


def test_a_large_state_is_cleaned_as_well():
    """However many keys there are."""
    state = many(builder().build(), keys=3_000)
    state.harness.process_elements(
        (Record("other", lambda state, _: state.value()), None) for _ in range(3_000)
    )
    assert 0 == state.entries()


def test_a_single_expired_entry_is_still_returned_once_with_cleanup_on():
    """The default cleanup does not get ahead of the first relaxed read [2.4 C6]."""
    state = expiring(value, builder((WRITE, RELAXED)).build())
    state.update(1)
    assert (1, None) == (state.at(500).value(), state.value())


@pytest.mark.parametrize(
    ("entries", "config"),
    [
        (0, builder().build()),
        (200, builder().disable_cleanup_in_background().build()),
        (
            0,
            builder()
            .cleanup_in_rocksdb_compact_filter(1000)
            .disable_cleanup_in_background()
            .build(),
        ),
    ],
    ids=["default", "disabled", "explicit"],
)
def test_compaction_drops_what_expired(entries, config):
    """Unless background cleanup is disabled and nothing explicit is set [2.4, DESIGN 9]."""
    state = many(config)
    state.harness.compact()
    assert entries == state.entries()


def test_compaction_leaves_what_is_alive():
    """It judges by the same rule."""
    state = expiring(value, builder().build())
    state.update(1)
    state.of("b").at(50).update(2)
    state.at(100).harness.compact()
    assert (1, 2) == (state.entries(), state.of("b").value())


# 2.4: full snapshots


def snapshot_of(kind, config, fill):
    """A state that `fill` filled, and the same read from its snapshot, at time 100, with no TTL."""
    state = expiring(kind, config)
    fill(state)
    return state, state.at(100).restored(kind())


FILTERED = builder().cleanup_full_snapshot().disable_cleanup_in_background().build()
UNFILTERED = builder().disable_cleanup_in_background().build()


def two_keys(kind):
    """Fills key "k" at 0 and key "b" at 50."""

    def fill(state):
        call(state, PLAIN_READ[kind].write)
        call(state.at(50).of("b"), PLAIN_READ[kind].write)

    return fill


@KINDS
def test_a_full_snapshot_leaves_expired_entries_out(kind):
    """cleanup_full_snapshot() filters what is written, not what is stored [2.4]."""
    state, restored = snapshot_of(kind, FILTERED, two_keys(kind))
    assert (2, 1) == (state.entries(), restored.entries())
    assert PLAIN_READ[kind].seen == call(restored.of("b"), PLAIN_READ[kind].read)


@KINDS
def test_without_the_filter_a_snapshot_keeps_expired_entries(kind):
    """Only cleanup_full_snapshot() leaves them out [DESIGN 9]."""
    state, restored = snapshot_of(kind, UNFILTERED, two_keys(kind))
    assert (2, 2) == (state.entries(), restored.entries())


def test_a_full_snapshot_drops_the_expired_prefix_of_a_list():
    """Everything from the first alive element on is kept, expired or not [2.4]."""

    def fill(state):
        state.add_all([1, 2])
        state.at(50).add(3)
        state.at(0).add(4)
        state.at(50).add(5)

    _, restored = snapshot_of(list_, FILTERED, fill)
    assert [3, 4, 5] == restored.get()


def test_a_full_snapshot_judges_map_entries_one_by_one():
    """A map has no prefix [2.4]."""

    def fill(state):
        state.at(50).put("a", 1)
        state.at(0).put("b", 2)
        state.at(50).put("c", 3)

    _, restored = snapshot_of(map_, FILTERED, fill)
    assert [("a", 1), ("c", 3)] == restored.items()
