# SPDX-License-Identifier: Apache-2.0
import pytest
from probe import drive

from pyflinklike import Types, ValueStateDescriptor
from pyflinklike.errors import StateValueError

LONG = ValueStateDescriptor("s", Types.LONG())


def test_a_value_is_none_before_the_first_update():
    """PyFlink's descriptors have no default value."""
    assert None is drive(LONG).value()


def test_an_update_is_read_back():
    """What was stored last is what is read."""
    state = drive(LONG)
    state.update(1)
    state.update(2)
    assert 2 == state.value()


@pytest.mark.parametrize("falsy", [0, "", b"", False, [], {}, 0.0])
def test_a_falsy_value_is_not_an_absent_one(falsy):
    """Only None means that there is none."""
    state = drive(ValueStateDescriptor("s", Types.PICKLED_BYTE_ARRAY()))
    state.update(falsy)
    assert falsy == state.value()
    assert 1 == state.entries()


def test_clear_removes_the_value():
    """After clear() there is nothing to read and nothing stored."""
    state = drive(LONG)
    state.update(1)
    state.clear()
    assert None is state.value()
    assert 0 == state.entries()


def test_clear_of_nothing_does_nothing():
    """An empty state can be cleared."""
    state = drive(LONG)
    state.clear()
    assert None is state.value()


@pytest.mark.parametrize(
    "type_info", [Types.LONG(), Types.STRING(), Types.PICKLED_BYTE_ARRAY()], ids=repr
)
def test_an_update_with_none_clears(type_info):
    """The entry leaves the backend, also where the type takes a None."""
    state = drive(ValueStateDescriptor("s", type_info))
    state.update(None)
    assert (None, 0) == (state.value(), state.entries())


def test_an_update_with_none_removes_what_was_there():
    """update(None) is clear()."""
    state = drive(LONG)
    state.update(1)
    state.update(None)
    assert (None, 0) == (state.value(), state.entries())


def test_keys_do_not_see_each_other():
    """A state has one value per key."""
    state = drive(LONG)
    state.update(1)
    state.of("b").update(2)
    state.of("b").clear()
    assert (1, None) == (state.value(), state.of("b").value())


def test_states_of_different_names_do_not_see_each_other():
    """Two names are two states."""
    both = drive(LONG, ValueStateDescriptor("t", Types.LONG()))
    both.run(lambda states, _: states[0].update(1))
    assert (1, None) == both.run(lambda states, _: (states[0].value(), states[1].value()))


def test_a_value_that_does_not_fit_is_refused_and_changes_nothing():
    """The refusal names the state."""
    state = drive(LONG)
    state.update(1)
    with pytest.raises(StateValueError, match=r"state 's': type Long takes .* got 'x'"):
        state.update("x")
    assert 1 == state.value()


def test_a_value_is_seen_within_the_call_that_stored_it():
    """There is no commit to wait for."""

    def update_and_read(state, _):
        state.update(5)
        return state.value()

    assert 5 == drive(LONG).run(update_and_read)


def test_repr_names_the_state():
    """A state shows its kind and name."""
    assert "ValueState('s')" == drive(LONG).run(lambda state, _: repr(state))
