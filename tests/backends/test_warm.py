# SPDX-License-Identifier: Apache-2.0
"""The warm cache: what it keeps, what it drops, and what it thinks that weighs."""

import pytest

from pyflinklike._changelog.key_group_state import KeyGroupState, TimerHeap, timers_table
from pyflinklike._changelog.segments import Declaration, Section
from pyflinklike._clock import TimeDomain
from pyflinklike.backends.heap.dict_tables import HeapTableData
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend, WarmGroups, weight_of
from pyflinklike.state.current_key import CurrentKey
from pyflinklike.state.table import Shape, TableSpec
from pyflinklike.types import Types

PLENTY = 10**9
SPEC = TableSpec("t", Shape.SINGLE, "value", Types.LONG())


def group_of(entries):
    """A group of one table."""
    return KeyGroupState(0, tables={"t": HeapTableData(SPEC, entries)})


@pytest.fixture
def warm() -> WarmGroups:
    """An empty cache."""
    return WarmGroups()


def test_a_group_is_kept_until_it_is_taken(warm):
    """It is the same object, and while it is worked on it is gone; an unknown one is no error."""
    group = group_of({})
    warm.keep("a", group, PLENTY)
    assert (group, None, None) == (warm.take("a"), warm.take("a"), warm.take("b"))


def test_the_total_is_the_weight_of_what_is_kept(warm):
    """A group that is kept again counts once; whatever came and went weighs nothing."""
    group = group_of({"k": 1})
    for owner in "aab":
        warm.keep(owner, group, PLENTY)
    assert 2 * weight_of(group) == warm.total_bytes
    for owner in "ab":
        warm.take(owner)
    assert (0, 0) == (len(warm), warm.total_bytes)


def play(warm, rounds, limit, group):
    """Ask for groups and keep them, round by round; how many were found in each."""
    found = []
    for asked in rounds:
        found.append(0)
        for owner in asked:
            found[-1] += warm.take(owner) is not None
            warm.keep(owner, group, limit)
    return found


def test_a_group_that_is_asked_for_more_often_takes_the_place_of_another(warm):
    """By half as often and once more; of the others the least recently used one goes."""
    group = group_of({"k": 1})
    limit = 2 * weight_of(group)
    play(warm, ["abc", "cc"], limit, group)

    assert (None, group, group) == (warm.take("a"), warm.take("b"), warm.take("c"))


def test_groups_that_most_rounds_ask_for_stay_before_others(warm):
    """A few groups of every round, and as much room; all others come in turn, one in a round."""
    group = group_of({"k": 1})
    rounds = [[f"other {number % 20}", "x", "y"] for number in range(40)]

    assert [2] * 30 == play(warm, rounds, 2 * weight_of(group), group)[10:]


def test_what_was_asked_for_long_ago_counts_less(warm):
    """A hundred rounds of one query, and then another's groups, which are as many."""
    group = group_of({"k": 1})
    rounds = ["abcd"] * 100 + ["efgh"] * 20
    found = play(warm, rounds, 4 * weight_of(group), group)

    assert ([4] * 99, [4] * 4) == (found[1:100], found[-4:])


def test_uses_are_counted_of_a_bounded_number_of_groups(warm):
    """However many groups come and go."""
    group = group_of({"k": 1})
    play(warm, [range(100_000)], 2 * weight_of(group), group)

    assert len(warm._uses) <= 5_000


def test_a_group_without_room_is_not_weighed_each_time(warm):
    """A group that comes from its log was never weighed, and that takes as long as a part of it."""
    first = group_of({"k": 1})
    limit = weight_of(first)
    weighed = []
    for _ in range(6):
        warm.take("a")
        warm.keep("a", first, limit)
        for owner, entries in (("b", {"k": 2}), ("larger than the bound", dict.fromkeys("klm", 2))):
            other = group_of(entries)
            warm.keep(owner, other, limit)
            weighed.append(other.tables["t"].weight is not None)

    assert [True, True, *[False] * 10] == weighed


def test_a_group_that_has_shrunk_is_weighed_after_some_rounds(warm):
    """And stays then, where it fits."""
    small = group_of({"k": 1})
    limit = 2 * weight_of(small)
    warm.keep("a", group_of(dict.fromkeys(range(100), 1)), limit)
    found = play(warm, ["abc"] * 20, limit, small)

    assert 2 == max(found)


def test_a_smaller_bound_holds_from_then_on(warm):
    """As after a restart with another one, in a worker that went on."""
    group = group_of({"k": 1})
    weight = weight_of(group)
    play(warm, ["abcdef"] * 3, 6 * weight, group)
    found = play(warm, ["abcdef"] * 3, 2 * weight, group)

    assert ([2, 2], 2 * weight) == (found[1:], warm.total_bytes)


def test_groups_in_rounds_are_found_as_far_as_they_fit():
    """In each round, although there are more than fit."""
    warm, group = WarmGroups(), group_of({"k": 1})
    limit, found = 6 * weight_of(group), []
    for _ in range(5):
        taken = []
        for owner in range(10):
            taken.append(warm.take(owner) is not None)
            warm.keep(owner, group, limit)
        found.append(sum(taken))

    assert [0, 6, 6, 6, 6] == found


def test_groups_that_no_round_asks_for_make_room():
    """Those of a query that has ended, say."""
    warm, group = WarmGroups(), group_of({"k": 1})
    limit = 4 * weight_of(group)
    for owner in "abcd":
        warm.keep(owner, group, limit)
    for _ in range(10):
        for owner in range(6):
            warm.take(owner)
            warm.keep(owner, group, limit)

    assert [None] * 4 == [warm.take(owner) for owner in "abcd"]
    assert 4 == sum(warm.take(owner) is not None for owner in range(6))


def test_the_cache_stays_within_its_limit(warm):
    """Whatever is kept."""
    limit = 50_000
    totals = []
    for number in range(100):
        warm.keep(number, group_of(dict.fromkeys(range(number), 1)), limit)
        totals.append(warm.total_bytes)

    assert max(totals) <= limit


def test_a_limit_of_zero_keeps_nothing(warm):
    """Every batch begins cold."""
    warm.keep("a", group_of({}), 0)

    assert (0, 0) == (len(warm), warm.total_bytes)


def test_a_group_beyond_the_limit_leaves_the_others(warm):
    """It is not kept, and nothing else is dropped for it."""
    small, large = group_of({"k": 1}), group_of(dict.fromkeys(range(10_000), 1))
    warm.keep("small", small, 100_000)
    warm.keep("large", large, 100_000)

    assert (small, None) == (warm.take("small"), warm.take("large"))


def test_a_group_that_grew_beyond_the_limit_is_dropped(warm):
    """Its former, smaller state is dropped, too."""
    warm.keep("a", group_of({}), 100_000)
    warm.keep("a", group_of(dict.fromkeys(range(10_000), 1)), 100_000)

    assert (None, 0) == (warm.take("a"), warm.total_bytes)


def test_clearing_drops_everything(warm):
    """As the loss of the worker."""
    warm.keep("a", group_of({}), PLENTY)
    warm.clear()

    assert (None, 0) == (warm.take("a"), warm.total_bytes)


def table_of(shape, entries, stamped=False):
    """A group of one table of strings."""
    user_key = Types.STRING() if shape is Shape.MAP else None
    spec = TableSpec("t", shape, "value", Types.STRING(), user_key, paired=stamped)
    return KeyGroupState(0, tables={"t": HeapTableData(spec, entries)})


def timers_of(count):
    """A group of so many timers of one key."""
    name = timers_table(TimeDomain.EVENT_TIME)
    spec = TableSpec(name, Shape.MAP, "timers", user_key_type=Types.LONG())
    agenda = TimerHeap({at: {"k": None} for at in range(count)})
    data = HeapTableData(spec, {"k": dict.fromkeys(range(count))} if count else {})
    return KeyGroupState(0, tables={name: data}, timers={TimeDomain.EVENT_TIME: agenda})


@pytest.mark.parametrize(
    ("light", "heavy"),
    [
        pytest.param({"k": "v"}, {"k": "v" * 9_000}, id="value"),
        pytest.param({"k": "v"}, {"k" * 9_000: "v"}, id="key"),
        pytest.param({"k": "v"}, {"k": "\u20ac" + "v" * 4_500}, id="wide"),
    ],
)
def test_every_part_of_an_entry_has_weight(light, heavy):
    """The value, the key, and what Python makes of a text that is not ASCII."""
    light, heavy = table_of(Shape.SINGLE, light), table_of(Shape.SINGLE, heavy)

    assert weight_of(light) + 8_000 < weight_of(heavy)


@pytest.mark.parametrize(
    ("light", "heavy"),
    [
        pytest.param(
            table_of(Shape.SINGLE, {"k": (0, "v")}, stamped=True),
            table_of(Shape.SINGLE, {"k": (0, "v" * 9_000)}, stamped=True),
            id="stamped",
        ),
        pytest.param(
            table_of(Shape.MAP, {"k": {"u": "v"}}),
            table_of(Shape.MAP, {"k": {"u": "v" * 9_000}}),
            id="map",
        ),
        pytest.param(
            table_of(Shape.MAP, {"k": {"u": "v"}}),
            table_of(Shape.MAP, {"k": {"u" * 9_000: "v"}}),
            id="user key",
        ),
        pytest.param(
            table_of(Shape.LIST, {"k": ["v"]}),
            table_of(Shape.LIST, {"k": ["v" * 9_000]}),
            id="list",
        ),
        pytest.param(timers_of(0), timers_of(90), id="timers"),
        pytest.param(
            KeyGroupState(0),
            KeyGroupState(0, pending={"t": [Section(Declaration(*"tttttt"), b"x" * 9_000)]}),
            id="pending",
        ),
    ],
)
def test_everything_a_group_holds_has_weight(light, heavy):
    """Give or take."""
    assert weight_of(light) + 8_000 < weight_of(heavy)


def test_the_weight_grows_with_the_entries():
    """Ten times the entries weigh about ten times as much."""
    some = weight_of(group_of(dict.fromkeys(range(1_000), 1.5)))
    many = weight_of(group_of(dict.fromkeys(range(10_000), 1.5)))

    assert 5 < many / some < 20


@pytest.mark.parametrize("declares", [True, False])
def test_a_group_with_a_state_that_is_not_declared_yet_is_read_from_its_log(declares):
    """A snapshot of what is warm would lose its entries."""
    spec = TableSpec("seldom", Shape.SINGLE, "value", Types.LONG())
    first, other = (
        HashMapStateBackend().create_keyed_state_backend(CurrentKey("k"), "declares/0")
        for _ in range(2)
    )
    tables = {}
    first.enter(0, tables)
    first.table(spec).put(None, 5)
    first.drain()
    first.cache(KeyGroupState(0, b"nonce", 1, tables=tables))
    if declares:
        other.table(spec)

    assert declares is (other.pop_cached(0) is not None)
