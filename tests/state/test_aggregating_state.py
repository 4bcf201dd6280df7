# SPDX-License-Identifier: Apache-2.0
import pytest
from probe import Mean, Sum, drive

from pyflinklike import AggregatingStateDescriptor, Types
from pyflinklike.errors import StateValueError, UserFunctionError

MEAN = AggregatingStateDescriptor("s", Mean(), Types.LIST(Types.LONG()))
SUM = AggregatingStateDescriptor("s", Sum(), Types.LONG())


class Stubborn(Sum):
    """Fails in every method that sees a negative number, and forgets all at 99."""

    def add(self, value, accumulator):
        if value < 0:
            raise ArithmeticError(value)
        return None if value == 99 else accumulator + value

    def get_result(self, accumulator):
        return 12 // (accumulator - 12)


STUBBORN = AggregatingStateDescriptor("s", Stubborn(), Types.LONG())


class CountsCalls(Sum):
    """Tells in its accumulator how often one was made."""

    created = 0

    def create_accumulator(self):
        self.created += 1
        return 100 * self.created


def test_get_of_an_empty_state_is_none():
    """get_result is not called."""
    assert None is drive(MEAN).get()


def test_get_gives_the_result_of_the_accumulator():
    """An accumulator changed in place and returned is stored."""
    state = drive(MEAN)
    state.add(1)
    state.add(4)
    assert 2.5 == state.get()


def test_an_accumulator_is_created_for_the_first_element_only():
    """Then it is the stored one."""
    state = drive(AggregatingStateDescriptor("s", CountsCalls(), Types.LONG()))
    state.add(1)
    state.add(2)
    assert 103 == state.get()


def test_a_new_accumulator_replaces_the_old_one():
    """What add() returns is stored."""
    state = drive(SUM)
    state.add(1)
    state.add(2)
    assert 3 == state.get()


def test_get_changes_nothing():
    """get_result may be called many times."""
    state = drive(MEAN)
    state.add(1)
    assert (1.0, 1.0) == (state.get(), state.get())


def test_clear_begins_anew():
    """The next element gets a new accumulator."""
    state = drive(SUM)
    state.add(1)
    state.clear()
    assert (None, 0) == (state.get(), state.entries())
    state.add(5)
    assert 5 == state.get()


def test_keys_are_aggregated_apart():
    """One accumulator per key."""
    state = drive(SUM)
    state.add(1)
    state.of("b").add(2)
    assert (1, 2, 2) == (state.get(), state.of("b").get(), state.entries())


def test_a_result_of_zero_is_not_an_absent_one():
    """Only None means that nothing was added."""
    state = drive(SUM)
    state.add(0)
    assert 0 == state.get()


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


def test_an_accumulator_that_does_not_fit_is_refused_and_changes_nothing():
    """The error names the state."""
    state = drive(SUM)
    state.add(1)
    with pytest.raises(StateValueError, match="state 's': type Long"):
        state.add(0.5)
    assert 1 == state.get()


def test_an_error_of_add_names_the_state_and_changes_nothing():
    """The user's own exception is the cause."""
    state = drive(STUBBORN)
    state.add(1)
    with pytest.raises(UserFunctionError, match="state 's': ArithmeticError: -1") as raised:
        state.add(-1)
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert 12 // -11 == state.get()


def test_an_error_of_get_result_names_the_state():
    """The accumulator stays."""
    state = drive(STUBBORN)
    state.add(12)
    with pytest.raises(UserFunctionError, match="state 's': ZeroDivisionError"):
        state.get()
    state.add(12)
    assert 1 == state.get()


def test_an_add_that_forgets_its_return_is_refused_and_changes_nothing():
    """As in windows: Flink's heap drops what was kept, in silence."""
    state = drive(STUBBORN)
    state.add(14)
    with pytest.raises(
        StateValueError, match=r"state 's': add must return .* got None from Stubborn"
    ):
        state.add(99)
    assert 12 // (14 - 12) == state.get()


def test_an_accumulator_may_begin_as_none():
    """As in Flink: `add` gets it, and returns one that is kept."""

    class FromNothing(Sum):
        def create_accumulator(self):
            return None

        def add(self, value, accumulator):
            return value if accumulator is None else accumulator + value

    state = drive(AggregatingStateDescriptor("s", FromNothing(), Types.LONG()))
    state.add(1)
    state.add(2)
    assert 3 == state.get()
