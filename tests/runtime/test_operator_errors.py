# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in user code comes out as one error that says where, when and for which key."""

import pytest
from probe import Driver, Probe, Record, drive, harness

from pyflinklike import (
    KeyedProcessFunction,
    Row,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    StateAccessError,
    StateValueError,
    UserFunctionError,
)
from pyflinklike.testing import KeyedProcessHarness

LONG = ValueStateDescriptor("s", Types.LONG())


class Fails(KeyedProcessFunction):
    """Fails where it is told to."""

    def __init__(self, where):
        self.where = where

    def open(self, runtime_context):
        self.fail("open")

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)
        yield "before"
        self.fail("process_element")
        yield "after"

    def on_timer(self, timestamp, ctx):
        self.fail("on_timer")
        yield "timer"

    def close(self):
        self.fail("close")

    def fail(self, here):
        if here == self.where:
            raise ValueError("no good")


RAISES = Fails.fail.__code__.co_firstlineno + 2
"""The line that raises."""


def failing(where):
    """A harness of a function that fails there, keyed by the field `user`."""
    return KeyedProcessHarness(Fails(where), key_selector=lambda row: row.user)


def test_a_failing_element_is_told_with_function_key_element_and_time():
    """And with the cause, in words and chained."""
    with pytest.raises(UserFunctionError) as raised:
        failing("process_element").process_element(Row(user="ann", amount=3), timestamp=1_000)
    assert (
        "Fails.process_element failed for key 'ann', element Row(user='ann', amount=3), "
        f"at time 1000: ValueError: no good ({__file__}:{RAISES}, in fail)"
    ) == str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_failing_timer_is_told_with_function_key_and_time():
    """The timer stands for the element."""
    h = failing("on_timer")
    h.process_element(Row(user="ann"))
    with pytest.raises(UserFunctionError) as raised:
        h.process_watermark(50)
    expected = "Fails.on_timer failed for key 'ann', timer 10, at time 10: ValueError: no good"
    assert f"{expected} ({__file__}:{RAISES}, in fail)" == str(raised.value)
    assert isinstance(raised.value.__cause__, ValueError)


def test_a_failing_open_is_told():
    """When the harness is made."""
    with pytest.raises(UserFunctionError, match=r"Fails\.open failed: ValueError: no good"):
        failing("open")


def test_a_failing_close_is_told():
    """Once: closing again does nothing."""
    h = failing("close")
    with pytest.raises(UserFunctionError, match=r"Fails\.close failed: ValueError: no good"):
        h.close()
    h.close()


def test_a_failing_key_selector_is_told_with_the_element():
    """It is user code too."""
    with pytest.raises(
        UserFunctionError, match=r"key_selector failed for element 7: Attr"
    ) as raised:
        failing("").process_element(7)
    assert isinstance(raised.value.__cause__, AttributeError)


@pytest.mark.parametrize(
    ("key", "shown"), [("a", "'a'"), (1, "1"), (1.5, "1.5"), (("a", 1), r"\('a', 1\)")]
)
def test_an_error_shows_the_key_as_the_user_knows_it(key, shown):
    """However it is kept."""
    with pytest.raises(UserFunctionError, match=f"failed for key {shown}, element"):
        drive().of(key).run(lambda _state, _ctx: 1 // 0)


def test_what_a_failed_call_wrote_stays_in_the_harness():
    """As in Flink's: there is no transaction around an element."""

    def update_and_fail(state, _):
        state.update(1)
        raise ValueError

    state = drive(LONG)
    with pytest.raises(UserFunctionError):
        state.run(update_and_fail)
    assert 1 == state.value()


def test_the_outputs_of_a_failed_call_are_not_those_of_the_next():
    """They are in `output`, and each call returns its own."""
    h = failing("process_element")
    with pytest.raises(UserFunctionError):
        h.process_element(Row(user="ann"))
    assert ["before"] == h.output
    assert ["timer"] == h.process_watermark(10)
    assert ["before", "timer"] == h.output


def test_a_failed_element_leaves_no_key_current():
    """The next one begins anew."""
    probe = Probe(LONG)
    state = Driver(harness(probe))
    with pytest.raises(UserFunctionError):
        state.run(lambda _state, _ctx: 1 // 0)
    with pytest.raises(StateAccessError, match="no current key"):
        probe.state.value()
    assert None is state.value()


def test_the_elements_behind_one_that_failed_are_not_processed():
    """And those before it were."""
    h = harness(Probe(LONG))
    records = [
        Record("a", lambda state, _: state.update(1)),
        Record("b", lambda _state, _ctx: 1 // 0),
        Record("c", lambda state, _: state.update(3)),
    ]
    with pytest.raises(UserFunctionError, match="failed for key 'b'"):
        h.process_elements((record, None) for record in records)
    assert (1, 1) == (Driver(h, "a").value(), h.num_keyed_state_entries("s"))


@pytest.mark.parametrize("outputs", [7, 1.5, True, object()], ids=lambda each: type(each).__name__)
def test_outputs_that_are_no_iterable_are_told(outputs):
    """With the key and the element."""

    class Returns(KeyedProcessFunction):
        def process_element(self, value, ctx):
            return outputs

    with pytest.raises(
        UserFunctionError, match=r"an iterable of outputs, got .*; yield it instead of returning"
    ):
        harness(Returns()).process_element("k")


# Our own errors


def test_our_own_errors_can_be_caught_by_user_code():
    """The function goes on, the state as it was."""

    def careful(state, _):
        try:
            state.update("x")
        except StateValueError:
            return state.value()

    state = drive(LONG)
    state.update(1)
    assert 1 == state.run(careful)


# Keys


def test_a_none_key_is_refused():
    """By process_element itself; the function does not see the element."""
    h = harness(Probe(LONG))
    with pytest.raises(StateValueError, match="Probe: every element needs a key, got None"):
        h.process_element(Record(None, lambda state, _: state.update(1)))
    assert 0 == h.num_keyed_state_entries("s")


@pytest.mark.parametrize(
    "key", [["a"], {"a": 1}, {1}, object()], ids=lambda key: type(key).__name__
)
def test_a_key_of_a_wrong_type_is_refused(key):
    """A key is a plain value or a tuple of plain values."""
    with pytest.raises(StateValueError, match=type(key).__name__):
        drive(LONG).of(key).update(1)


@pytest.mark.parametrize("key", ["1", 1.0, True, None], ids=repr)
def test_a_key_must_be_of_the_declared_type(key):
    """A LONG key is an int and nothing like one."""
    with pytest.raises(StateValueError):
        drive(LONG, key_type=Types.LONG()).of(key).update(1)
