# SPDX-License-Identifier: Apache-2.0
"""A replica of some keys, or of some key groups: what it answers of them, and what it refuses."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from replica_support import FollowedQuery, replica_of

from pyflinklike import (
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    StateAccessError,
)
from pyflinklike.queryable_state.image import Share, StoredShare
from pyflinklike.queryable_state.savepoint_source import SavepointSource
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.stores import KeyValueStoreDescriptor
from pyflinklike.testing import BroadcastHarness

TEXT, LONG = Types.STRING(), Types.LONG()
KEYS = ["a", "b", "c", "d", "e", "f"]
FEW = settings(max_examples=max(settings().max_examples // 8, 3))
STATES = [
    ListStateDescriptor("all", LONG),
    KeyValueStoreDescriptor("own", TEXT, LONG),
    KeyValueStoreDescriptor("shared", TEXT, LONG, scope="partition"),
]


def add(key, n):
    """A record that writes to everything."""

    def act(on):
        on["all"].add(n)
        on["own"].put(f"k{n % 2}", n)
        on["shared"].put(key, n)

    return key, act


def written(*keys):
    """A query with one batch, a record of each of these keys."""
    query = FollowedQuery(STATES)
    query.batch([add(key, 1) for key in keys])
    return query


RECORDS = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 3)), max_size=4)
BATCHES = st.lists(st.tuples(RECORDS, st.booleans(), st.booleans()), min_size=1, max_size=5)


@given(batches=BATCHES, keys=st.sets(st.sampled_from(KEYS), min_size=1))
@FEW
def test_a_replica_of_some_keys_says_of_them_what_one_of_all_says(batches, keys):
    """Also of keys, and key groups, that come later; and it holds no other key groups."""
    query = FollowedQuery(STATES)
    query.batch([])
    whole = replica_of(query)
    query.share = Share.of(keys, None)
    some = replica_of(query)
    for records, compact, refreshes in batches:
        query.batch([add(*each) for each in records], compact=compact)
        if not refreshes:
            continue
        assert whole.refresh() == some.refresh()
        for key in keys:
            assert whole["all"].get(key) == some["all"].get(key)
            own = [list(each.store("own", key=key).all()) for each in (whole, some)]
            assert own[0] == own[1]
        expected = {key: value for key, value in whole["all"].items() if key in keys}
        assert expected == dict(some["all"].items())
        held = {query.group_of(key) for key in keys}
        assert set(whole._current().image.groups) & held == set(some._current().image.groups)
    assert 0 == some.metrics.reopens


@given(batches=BATCHES, groups=st.sets(st.integers(0, 3), min_size=1))
@FEW
def test_a_replica_of_some_key_groups_has_all_that_lies_in_them(batches, groups):
    """Entries that belong to no key included: Kafka's reads of one partition."""
    query = FollowedQuery(STATES)
    query.batch([])
    query.share = Share.of(None, groups)
    some = replica_of(query)
    last = {}
    for records, compact, _ in batches:
        query.batch([add(*each) for each in records], compact=compact)
        last |= {key: n for key, n in records if query.group_of(key) in groups}
        some.refresh()
        assert sorted(last.items()) == [tuple(each) for each in some.store("shared").all()]
        assert set(last) == dict(some["all"].items()).keys()


def test_another_key_is_refused_even_in_a_key_group_that_is_held():
    """Whether it lies in one depends on how many there are."""
    query = written(*KEYS)
    query.share = Share.of(["a"], None)
    (other, *_) = [key for key in KEYS[1:] if query.group_of(key) == query.group_of("a")]
    with replica_of(query) as replica:
        assert [1] == replica["all"].get("a")
        for ask in (replica["all"].get, lambda key: replica.store("own", key=key).get("k1")):
            with pytest.raises(StateAccessError, match=f"opened with other keys=, got '{other}'"):
                ask(other)
        with pytest.raises(StateAccessError, match="belongs to no key"):
            replica.store("shared")


def test_a_key_of_a_key_group_that_is_not_held_is_refused():
    """And what it is told is which group that is."""
    query = written(*KEYS)
    mine = query.group_of("a")
    query.share = Share.of(None, [mine])
    other = next(key for key in KEYS if query.group_of(key) != mine)
    with replica_of(query) as replica:
        assert [1] == replica["all"].get("a")
        told = f"got '{other}' of key group {query.group_of(other)}"
        with pytest.raises(StateAccessError, match=told):
            replica["all"].get(other)


def test_other_key_groups_are_held_where_there_are_more_of_them():
    """A checkpoint that was begun anew: the keys are the same."""
    query = written(*KEYS)
    query.share = Share.of(["b"], None)
    with replica_of(query) as replica:
        query.begin_anew(STATES, 7)
        query.batch([add("b", 5), add("a", 6)])
        replica.refresh()
        assert ([5], {query.group_of("b")}) == (
            replica["all"].get("b"),
            set(replica._current().image.groups),
        )


def test_a_state_that_a_restart_adds_is_that_of_the_keys():
    """What is held stays the same where the record of the operator changes."""
    query = written("a", "b")
    query.share = Share.of(["a"], None)
    with replica_of(query) as replica:
        query.restart([*STATES, ValueStateDescriptor("more", LONG)])
        query.batch([("a", lambda on: on["more"].update(3))])
        replica.refresh()
        assert 3 == replica["more"].get("a")
        with pytest.raises(StateAccessError):
            replica["more"].get("b")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({"keys": "ann"}, DeclarationTypeError, r"write keys=\[...\]"),
        ({"keys": 5}, DeclarationTypeError, "a list of keys, got 5"),
        ({"keys": []}, DeclarationValueError, "keys must name"),
        ({"key_groups": []}, DeclarationValueError, "key_groups must name"),
        ({"key_groups": 3}, DeclarationTypeError, "a list of numbers, got 3"),
        ({"key_groups": [True]}, DeclarationTypeError, "got True in it"),
        ({"key_groups": [0, -1]}, DeclarationValueError, "got -1"),
        ({"keys": ["a"], "key_groups": [1]}, DeclarationValueError, "leave one out"),
    ],
)
def test_what_names_no_part_is_refused(given, error, says):
    """Before anything is read."""
    with pytest.raises(error, match=says):
        Share.of(**{"keys": None, "key_groups": None, **given})


def test_a_key_group_that_cannot_be_is_refused():
    """Key groups are counted from 0."""
    query = written("a")
    query.share = Share.of(None, [3, 4])
    with pytest.raises(DeclarationValueError, match=r"from 0 to 3, got \[4\]"):
        replica_of(query)


# Broadcast state

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Ruled(KeyedBroadcastProcessFunction):
    """Keeps rules, and the last number of each key."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value[1])
        return []

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        return []


@attrs.frozen
class SeveralGroups(SavepointSource):
    """The same log in three key groups, as broadcast state is in a checkpoint."""

    share: StoredShare = attrs.field(factory=StoredShare)

    def latest(self):
        image = super().latest()
        groups = dict.fromkeys(range(3), image.groups[0])
        return attrs.evolve(image, groups=groups, share=self.share)


@pytest.fixture
def directory(tmp_path):
    """A savepoint with two rules and two keys."""
    with BroadcastHarness(
        Ruled(), [RULES], lambda record: record[0], key_type=Types.STRING()
    ) as harness:
        for element in (("low", 1), ("high", 9)):
            harness.process_broadcast_element(element)
        for element in (("a", 5), ("b", 6)):
            harness.process_element(element)
        write_savepoint(harness, tmp_path / "saved")
    return open_savepoint(tmp_path / "saved")


def test_it_is_asked_without_a_key(directory):
    """And a scan gives it once, however many key groups there are."""
    with replica_of(SeveralGroups(directory, None, None)) as replica:
        rules = {"low": 1, "high": 9}
        assert (rules, [(None, rules)]) == (replica["rules"].get(), list(replica["rules"].items()))


def test_a_replica_of_a_part_refuses_it(directory):
    """Its key groups may not be there yet, while others have the rules."""
    part = SeveralGroups(directory, None, None, StoredShare(frozenset([1])))
    with replica_of(part) as replica, pytest.raises(StateAccessError, match="holds a part"):
        replica["rules"]
