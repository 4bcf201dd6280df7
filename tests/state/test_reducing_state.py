# SPDX-License-Identifier: Apache-2.0
import pytest
from probe import drive

from pyflinklike import ReduceFunction, ReducingStateDescriptor, Types
from pyflinklike.errors import StateValueError, UserFunctionError


class Concatenate(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


TEXT = ReducingStateDescriptor("s", Concatenate(), Types.STRING())
SUM = ReducingStateDescriptor("s", lambda a, b: a + b, Types.LONG())


def test_get_of_an_empty_state_is_none():
    """There is no neutral element."""
    assert None is drive(SUM).get()


def test_the_first_element_is_stored_as_it_is():
    """The function is not called for it."""

    def never(_a, _b):
        raise AssertionError

    state = drive(ReducingStateDescriptor("s", never, Types.LONG()))
    state.add(1)
    assert 1 == state.get()


def test_the_current_value_is_the_first_argument():
    """reduce(current, added), in this order."""
    state = drive(TEXT)
    for text in "abc":
        state.add(text)
    assert "abc" == state.get()


def test_a_callable_is_a_reduce_function():
    """A lambda will do."""
    state = drive(SUM)
    state.add(1)
    state.add(2)
    assert 3 == state.get()


def test_get_changes_nothing():
    """It can be called again and again."""
    state = drive(SUM)
    state.add(1)
    assert (1, 1) == (state.get(), state.get())


def test_clear_begins_anew():
    """The next element is a first one."""
    state = drive(SUM)
    state.add(1)
    state.clear()
    assert (None, 0) == (state.get(), state.entries())
    state.add(5)
    assert 5 == state.get()


def test_keys_are_reduced_apart():
    """One value per key."""
    state = drive(SUM)
    state.add(1)
    state.of("b").add(2)
    assert (1, 2, 2) == (state.get(), state.of("b").get(), state.entries())


@pytest.mark.parametrize("before", [[], [1]], ids=["empty", "filled"])
def test_none_is_refused_and_changes_nothing(before):
    """Flink's backends disagree on add(null); ours refuses it."""
    state = drive(SUM)
    for element in before:
        state.add(element)
    with pytest.raises(StateValueError, match="state 's': an element must not be None") as raised:
        state.add(None)
    assert isinstance(raised.value, TypeError)
    assert (sum(before) or None, len(before)) == (state.get(), state.entries())


def test_an_element_that_does_not_fit_is_refused_and_changes_nothing():
    """The function does not see it."""
    state = drive(SUM)
    state.add(1)
    with pytest.raises(StateValueError, match="state 's': type Long"):
        state.add("x")
    assert 1 == state.get()


def test_a_result_that_does_not_fit_is_refused_and_changes_nothing():
    """What the function returns must be of the declared type."""
    state = drive(ReducingStateDescriptor("s", lambda a, b: f"{a}{b}", Types.LONG()))
    state.add(1)
    with pytest.raises(StateValueError, match="state 's': type Long"):
        state.add(2)
    assert 1 == state.get()


def test_an_error_of_the_function_names_the_state_and_changes_nothing():
    """The user's own exception is the cause."""
    state = drive(ReducingStateDescriptor("s", lambda a, b: a // b, Types.LONG()))
    state.add(1)
    with pytest.raises(UserFunctionError, match="state 's': ZeroDivisionError") as raised:
        state.add(0)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    assert 1 == state.get()


def test_a_function_that_forgets_its_return_is_refused_and_changes_nothing():
    """As in windows: Flink's heap drops what was kept, in silence."""
    state = drive(ReducingStateDescriptor("s", lambda _a, _b: None, Types.LONG()))
    state.add(1)
    with pytest.raises(StateValueError, match=r"state 's': reduce must return .* from <function"):
        state.add(2)
    assert 1 == state.get()
