# SPDX-License-Identifier: Apache-2.0
import pytest
from probe import drive

from pyflinklike import ListStateDescriptor, Types
from pyflinklike.errors import StateValueError

LONGS = ListStateDescriptor("s", Types.LONG())
PICKLED = ListStateDescriptor("s", Types.PICKLED_BYTE_ARRAY())
ELEMENT_TYPES = pytest.mark.parametrize("descriptor", [LONGS, PICKLED], ids=["long", "pickled"])


@ELEMENT_TYPES
def test_an_empty_list_is_an_empty_iterable(descriptor):
    """get() is never None."""
    assert [] == drive(descriptor).get()


@ELEMENT_TYPES
def test_what_get_gives_can_be_iterated_again(descriptor):
    """It is no one-shot generator."""
    state = drive(descriptor)
    state.update([1, 2])

    def iterate_twice(state, _):
        elements = state.get()
        return list(elements), list(elements)

    assert ([1, 2], [1, 2]) == state.run(iterate_twice)


def test_a_list_state_can_be_iterated():
    """`for x in state` is `for x in state.get()`."""
    state = drive(LONGS)
    state.update([1, 2])
    assert [1, 2] == state.run(lambda state, _: [*state])


def test_add_appends():
    """Elements come in the order they were added."""
    state = drive(LONGS)
    for element in (3, 1, 2, 1):
        state.add(element)
    assert [3, 1, 2, 1] == state.get()


def test_add_all_appends_in_order():
    """add_all is so many adds."""
    state = drive(LONGS)
    state.add(9)
    state.add_all([3, 1])
    assert [9, 3, 1] == state.get()


def test_add_all_of_nothing_changes_nothing():
    """An empty list adds nothing."""
    state = drive(LONGS)
    state.add(9)
    state.add_all([])
    assert [9] == state.get()


def test_update_replaces_all():
    """What was there is gone."""
    state = drive(LONGS)
    state.update([1, 2, 3])
    state.update([4])
    assert ([4], 1) == (state.get(), state.entries())


def test_update_with_an_empty_list_clears():
    """update([]) is clear()."""
    state = drive(LONGS)
    state.update([1])
    state.update([])
    assert ([], 0) == (state.get(), state.entries())


def test_clear_removes_the_list_of_this_key_only():
    """Another key keeps its list."""
    state = drive(LONGS)
    state.add(1)
    state.of("b").add(2)
    state.clear()
    assert ([], [2]) == (state.get(), state.of("b").get())


def test_a_list_can_be_updated_with_what_it_gives():
    """The elements are taken before the old ones go."""
    state = drive(LONGS)
    state.update([1, 2, 3])
    state.run(lambda state, _: state.update(x for x in state if x != 2))
    assert [1, 3] == state.get()


def test_what_get_gave_does_not_grow_with_the_state():
    """It is the list as it was at that call."""

    def get_then_add(state, _):
        elements = state.get()
        state.add(2)
        return list(elements)

    state = drive(LONGS)
    state.add(1)
    assert [1] == state.run(get_then_add)
    assert [1, 2] == state.get()


@pytest.mark.parametrize(
    "refused",
    [
        ("add", None),
        ("add_all", None),
        ("add_all", [2, None]),
        ("update", None),
        ("update", [None]),
        ("update", [2, None]),
    ],
    ids=str,
)
@ELEMENT_TYPES
def test_none_is_refused_and_changes_nothing(descriptor, refused):
    """None is no element and no list of elements; the error names the state."""
    state = drive(descriptor)
    state.add(1)
    method, argument = refused
    with pytest.raises(StateValueError, match=r"state 's': .* must not be None"):
        getattr(state, method)(argument)
    assert [1] == state.get()


def test_the_refusal_of_none_is_a_type_error():
    """As Python's own containers say it."""
    state = drive(LONGS)
    with pytest.raises(TypeError, match="state 's'"):
        state.add(None)


@pytest.mark.parametrize("method", ["add_all", "update"])
@pytest.mark.parametrize("not_a_list", ["ab", b"ab", 7])
def test_what_is_no_list_is_refused(method, not_a_list):
    """A str is one element and not a list of characters."""
    state = drive(PICKLED)
    state.add(1)
    with pytest.raises(StateValueError, match=r"state 's': elements come as a list, got .*add\(\)"):
        getattr(state, method)(not_a_list)
    assert [1] == state.get()


@pytest.mark.parametrize(("method", "argument"), [("add", "x"), ("add_all", [2, "x"])])
def test_an_element_that_does_not_fit_is_refused_and_changes_nothing(method, argument):
    """All elements are added or none."""
    state = drive(LONGS)
    state.add(1)
    with pytest.raises(StateValueError, match="state 's': type Long"):
        getattr(state, method)(argument)
    assert [1] == state.get()


def test_entries_are_counted_by_element():
    """A list holds as many entries as elements, over all keys."""
    state = drive(LONGS)
    state.update([1, 2])
    state.of("b").add(3)
    assert 3 == state.entries()
