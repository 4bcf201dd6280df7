# SPDX-License-Identifier: Apache-2.0
import pytest
from probe import drive

from pyflinklike import MapStateDescriptor, Types
from pyflinklike.errors import StateValueError

LONGS = MapStateDescriptor("s", Types.STRING(), Types.LONG())
STRINGS = MapStateDescriptor("s", Types.STRING(), Types.STRING())
BY_INT = MapStateDescriptor("s", Types.LONG(), Types.LONG())


def filled(**items):
    """A map state that holds these items."""
    state = drive(LONGS)
    state.put_all(items)
    return state


def test_get_of_a_missing_key_is_none():
    """There is no KeyError and no default."""
    assert None is drive(LONGS).get("a")


def test_put_and_get():
    """The last value put under a key is the one it has."""
    state = drive(LONGS)
    state.put("a", 1)
    state.put("a", 2)
    assert (2, 1) == (state.get("a"), state.entries())


def test_a_none_value_is_a_value():
    """contains, get, items and is_empty agree on it."""
    state = drive(STRINGS)
    state.put("a", None)
    assert (True, None) == (state.contains("a"), state.get("a"))
    assert ([("a", None)], False) == (state.items(), state.is_empty())


def test_a_none_value_is_refused_where_the_type_takes_none():
    """LONG takes no None, as in Flink."""
    state = filled(a=1)
    with pytest.raises(StateValueError, match="state 's': type Long"):
        state.put("a", None)
    assert [("a", 1)] == state.items()


@pytest.mark.parametrize(
    "call",
    [("get", None), ("put", None, 1), ("put_all", {None: 1}), ("remove", None), ("contains", None)],
    ids=lambda call: call[0],
)
def test_a_none_user_key_is_refused(call):
    """Also where the key type takes None, and also by those that only look."""
    state = filled(a=1)
    with pytest.raises(StateValueError, match=r"state 's': .*got None"):
        getattr(state, call[0])(*call[1:])
    assert [("a", 1)] == state.items()


def test_contains_tells_keys_that_are_there():
    """And no others."""
    state = filled(a=1)
    assert (True, False) == (state.contains("a"), state.contains("b"))


def test_remove_removes_one_entry():
    """The others stay."""
    state = filled(a=1, b=2)
    state.remove("a")
    assert [("b", 2)] == state.items()


def test_remove_of_a_missing_key_does_nothing():
    """There is no KeyError."""
    state = filled(a=1)
    state.remove("b")
    assert [("a", 1)] == state.items()


def test_remove_of_a_missing_key_after_clear_and_put_does_nothing():
    """PyFlink's process mode raises KeyError here."""

    def clear_put_remove(state, _):
        state.clear()
        state.put("b", 2)
        state.remove("a")

    state = filled(a=1)
    state.run(clear_put_remove)
    assert [("b", 2)] == state.items()


def test_removing_the_last_entry_leaves_nothing_stored():
    """Nothing of the map stays behind."""
    state = filled(a=1)
    state.remove("a")
    assert (True, 0) == (state.is_empty(), state.entries())


def test_put_all_keeps_what_it_does_not_name():
    """It merges."""
    state = filled(a=1, b=2)
    state.put_all({"b": 3, "c": 4})
    assert {"a": 1, "b": 3, "c": 4} == dict(state.items())


def test_put_all_takes_int_keys():
    """PyFlink's process mode cannot unpack them."""
    state = drive(BY_INT)
    state.put_all({1: 10, 2: 20})
    assert [(1, 10), (2, 20)] == state.items()


def test_put_all_does_not_take_keys_of_two_characters_apart():
    """PyFlink's process mode stores {'a': 'b'}."""
    state = drive(STRINGS)
    state.put_all({"ab": "x"})
    assert [("ab", "x")] == state.items()


def test_put_all_takes_pairs():
    """A list of pairs is as good as a dict."""
    state = drive(LONGS)
    state.put_all([("a", 1), ("b", 2)])
    assert [("a", 1), ("b", 2)] == state.items()


@pytest.mark.parametrize("nothing", [{}, []])
def test_put_all_of_nothing_leaves_an_empty_map_empty(nothing):
    """No empty map is stored."""
    state = drive(LONGS)
    state.put_all(nothing)
    assert (True, 0) == (state.is_empty(), state.entries())


def test_put_all_stores_all_or_nothing():
    """One value that does not fit keeps the others out."""
    state = filled(a=1)
    with pytest.raises(StateValueError, match="state 's': type Long"):
        state.put_all({"b": 2, "c": "x"})
    assert [("a", 1)] == state.items()


def test_a_key_that_does_not_fit_is_refused():
    """The error names the state and the type."""
    with pytest.raises(StateValueError, match="state 's': type String"):
        drive(LONGS).put(1, 1)


def test_items_keys_and_values_agree():
    """They iterate in one order, here that of insertion."""
    state = filled(b=1, a=2)
    assert [("b", 1), ("a", 2)] == state.items()
    assert (["b", "a"], [1, 2]) == (state.keys(), state.values())


@pytest.mark.parametrize("method", ["items", "keys", "values"])
def test_an_empty_map_iterates_over_nothing(method):
    """The iterable is empty, never None."""
    assert [] == getattr(drive(LONGS), method)()


@pytest.mark.parametrize("method", ["items", "keys", "values"])
def test_what_a_map_gives_can_be_iterated_again(method):
    """It is no one-shot generator."""
    expected = getattr(filled(a=1), method)()

    def iterate_twice(state, _):
        iterable = getattr(state, method)()
        return list(iterable), list(iterable)

    assert (expected, expected) == filled(a=1).run(iterate_twice)


def test_a_map_can_be_changed_while_it_is_iterated():
    """There is no ConcurrentModificationException; put, remove and clear are allowed."""

    def change(state, _):
        seen = []
        for key, value in state.items():
            seen.append(key)
            state.remove(key)
            state.put(key + key, value)
        return seen

    state = filled(a=1, b=2)
    assert ["a", "b"] == state.run(change)
    assert {"aa": 1, "bb": 2} == dict(state.items())


def test_clear_removes_the_map_of_this_key_only():
    """Another key keeps its map."""
    state = filled(a=1)
    state.of("other").put("a", 2)
    state.clear()
    assert ([], [("a", 2)]) == (state.items(), state.of("other").items())


def test_a_map_state_reads_as_a_dict_does():
    """`[]`, `in` and iteration over keys; a missing key is None and no KeyError."""
    state = filled(a=1)
    assert (1, None) == state.run(lambda state, _: (state["a"], state["b"]))
    assert (True, False) == state.run(lambda state, _: ("a" in state, "b" in state))
    assert ["a"] == state.run(lambda state, _: [*state])


def test_a_map_state_is_written_as_a_dict_is():
    """`[]=` puts and `del` removes, a missing key too."""

    def write(state, _):
        state["b"] = 2
        del state["a"]
        del state["no such key"]

    state = filled(a=1)
    state.run(write)
    assert [("b", 2)] == state.items()


def test_is_empty():
    """Whether there is an entry."""
    assert (True, False) == (drive(LONGS).is_empty(), filled(a=1).is_empty())


def test_entries_are_counted_by_user_key():
    """A map holds as many entries as user keys, over all keys."""
    state = filled(a=1, b=2)
    state.of("other").put("a", 3)
    assert 3 == state.entries()
