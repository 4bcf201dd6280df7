# SPDX-License-Identifier: Apache-2.0
"""Driving `BroadcastHarness`: rules, elements, time, what may be read and written where, errors."""

import pytest
from broadcast_support import APPLIED, LIMITS, TOTAL, Alert, AlertModel, Flag
from hypothesis import given
from hypothesis import strategies as st
from two_input_support import BACKENDS

from pyflinklike import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import (
    DeclarationError,
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    StateAccessError,
    UserFunctionError,
)
from pyflinklike.testing import BroadcastHarness


def first(element):
    """The key of an element."""
    return element[0]


def alerts(**options):
    """A harness of `Alert`."""
    return BroadcastHarness(Alert(), [LIMITS], first, **options)


@pytest.fixture(params=BACKENDS, ids=str)
def harness(request):
    """A harness of `Alert`."""
    with alerts(state_backend=request.param) as made:
        yield made


def test_a_timer_sees_the_rules_of_its_time(harness):
    """Those that came after the element, too."""
    harness.process_element(("a", 5), 10)
    harness.process_broadcast_element(("low", 3))

    assert [("a", 5, "low")] == harness.process_both_watermarks(11)


def test_a_timer_waits_for_the_broadcast_input(harness):
    """Whose watermark counts, as in Flink; until it ends."""
    harness.process_element(("a", 5), 10)

    assert [] == harness.process_watermark(100)
    assert [("a", 5, "")] == harness.end_of_broadcast_input()


class Report(Alert):
    """Tells the sums of all keys when a rule comes."""

    def process_broadcast_element(self, value, ctx):
        found = []
        ctx.apply_to_keyed_state(TOTAL, lambda key, total: found.append((key, total.value())))
        yield from sorted(found)


def test_the_state_of_every_key_may_be_put_out():
    """Collected first, yielded then."""
    with BroadcastHarness(Report(), [LIMITS], first) as h:
        h.process_element(("b", 6))
        h.process_element(("a", 5))

        assert [("a", 5), ("b", 6)] == h.process_broadcast_element("now")


def test_a_harness_shows_the_broadcast_state(harness):
    """As it is, and not to be changed."""
    harness.process_broadcast_element(("low", 3))
    state = harness.get_broadcast_state(LIMITS)

    assert ({"low": 3}, False, True) == (dict(state.items()), state.is_empty(), "low" in state)
    assert not hasattr(state, "put")


def test_side_outputs_of_a_rule_come_out_once(harness):
    """There is one instance."""
    harness.process_broadcast_element(("low", 3))

    assert ["low"] == harness.side_output(APPLIED)


# Without keys


class Aside(Alert):
    """Gives what its timers find to a side output."""

    def on_timer(self, timestamp, ctx):
        yield APPLIED, f"timer of {ctx.get_current_key()}"


def test_a_side_output_of_a_timer_goes_to_the_side():
    """In PyFlink's thread mode it is in the main output."""
    with BroadcastHarness(Aside(), [LIMITS], first) as harness:
        harness.process_element(("a", 1), 5)
        main = harness.process_both_watermarks(6)

        assert ([], ["timer of a"]) == (main, harness.side_output(APPLIED))


def test_elements_without_keys_see_the_rules():
    """Those that came before them."""
    with BroadcastHarness(Flag(), [LIMITS]) as h:
        outputs = h.process_element(4)
        h.process_broadcast_element(("low", 3))
        outputs += h.process_element(4) + h.process_element(2)

        assert [(4, ""), (4, "low"), (2, "")] == outputs
        blob = h.snapshot()
    with BroadcastHarness(Flag(), [LIMITS], restore=blob) as h:
        assert [(5, "low")] == h.process_element(5)


class KeyedState(Flag):
    """Wants state of a key."""

    def open(self, runtime_context):
        runtime_context.get_state(TOTAL)


def test_without_keys_there_is_no_keyed_state():
    """It would be one state for whatever comes together."""
    with pytest.raises(DeclarationError, match=r"a state belongs to keys, got .*whose elements"):
        BroadcastHarness(KeyedState(), [LIMITS])


class Apply(Flag):
    """Wants the state of all keys."""

    def process_broadcast_element(self, value, ctx):
        ctx.apply_to_keyed_state(TOTAL, lambda *_: None)


def test_without_keys_nothing_is_applied_to_their_state():
    """The remedy is to have keys."""
    with (
        BroadcastHarness(Apply(), [LIMITS]) as h,
        pytest.raises(DeclarationError, match="a call by a function without keys; call key_by"),
    ):
        h.process_broadcast_element(1)


# What is refused


class Calls(KeyedBroadcastProcessFunction):
    """Does what it was made with."""

    def __init__(self, on_element=None, on_rule=None):
        self.on_element, self.on_rule = on_element, on_rule

    def open(self, runtime_context):
        self.total = runtime_context.get_state(TOTAL)

    def process_element(self, value, ctx):
        return self.on_element(self, ctx)

    def process_broadcast_element(self, value, ctx):
        return self.on_rule(self, ctx)


@pytest.mark.parametrize("method", ["put", "put_all", "remove", "clear"])
def test_an_element_cannot_change_the_rules(method):
    """The methods are not there."""
    change = lambda _, ctx: getattr(ctx.get_broadcast_state(LIMITS), method)  # noqa: E731
    with (
        BroadcastHarness(Calls(on_element=change), [LIMITS], first) as h,
        pytest.raises(UserFunctionError, match=f"has no attribute '{method}'"),
    ):
        h.process_element(("a", 1))


@pytest.mark.parametrize("call", [lambda f: f.total.value(), lambda f: f.total.update(1)])
def test_a_rule_has_no_key(call):
    """So it can neither read nor write the state of one."""
    with (
        BroadcastHarness(Calls(on_rule=lambda f, _: call(f)), [LIMITS], first) as h,
        pytest.raises(StateAccessError, match="got an access with no current key"),
    ):
        h.process_broadcast_element(1)


@pytest.mark.parametrize(
    "descriptor",
    [
        MapStateDescriptor("other", Types.STRING(), Types.LONG()),
        MapStateDescriptor("limits", Types.STRING(), Types.INT()),
        ValueStateDescriptor("limits", Types.LONG()),
        "limits",
    ],
)
@pytest.mark.parametrize(
    ("side", "call"), [("on_element", "process_element"), ("on_rule", "process_broadcast_element")]
)
def test_a_descriptor_that_broadcast_was_not_given_is_refused(descriptor, side, call):
    """As in Flink."""
    function = Calls(**{side: lambda _, ctx: ctx.get_broadcast_state(descriptor)})
    with (
        BroadcastHarness(function, [LIMITS], first) as h,
        pytest.raises(DeclarationError, match=r"a descriptor that broadcast\(...\) was given, got"),
    ):
        getattr(h, call)(("a", 1))


def expiring():
    """A map whose entries expire."""
    descriptor = MapStateDescriptor("limits", Types.STRING(), Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
    return descriptor


@pytest.mark.parametrize(
    ("states", "error", "told"),
    [
        ([TOTAL], DeclarationTypeError, "broadcast state takes a MapStateDescriptor, got Value"),
        (["limits"], DeclarationTypeError, "takes a MapStateDescriptor, got 'limits'"),
        ([expiring()], DeclarationValueError, "broadcast state does not expire, as in Flink"),
        (
            [MapStateDescriptor("total", Types.STRING(), Types.LONG())],
            DeclarationError,
            "'total' is already declared as broadcast state, got another state of that name",
        ),
        ([LIMITS, LIMITS], DeclarationError, "'limits' is already declared as broadcast state"),
    ],
)
def test_what_cannot_be_broadcast_state_is_refused(states, error, told):
    """When the harness is made."""
    with pytest.raises(error, match=told):
        BroadcastHarness(Alert(), states, first)


def test_a_key_selector_goes_with_keys():
    """A function without keys has none, and one with keys needs one."""
    with pytest.raises(DeclarationTypeError, match="has no keys, got key_selector="):
        BroadcastHarness(Flag(), [LIMITS], first)
    with pytest.raises(DeclarationTypeError, match="key_selector should be a callable function"):
        BroadcastHarness(Alert(), [LIMITS])


def test_what_is_applied_to_every_key_gives_nothing():
    """What it gave would be lost."""

    def applied(_, ctx):
        ctx.apply_to_keyed_state(TOTAL, lambda key, total: key)

    def stored(function, _):
        function.total.update(1)

    with BroadcastHarness(Calls(stored, applied), [LIMITS], first) as h:
        h.process_element(("a", 1))
        with pytest.raises(OutputError, match="must return None, got 'a' for key 'a'; append"):
            h.process_broadcast_element(1)


def test_an_error_names_the_method_and_the_element():
    """And no key."""
    with (
        BroadcastHarness(Calls(on_rule=lambda *_: 1 / 0), [LIMITS], first) as h,
        pytest.raises(
            UserFunctionError,
            match=r"Calls.process_broadcast_element failed for key none, element 'x', at time 7: Zero",
        ),
    ):
        h.process_broadcast_element("x", 7)


# Against rules over dicts

ELEMENTS = st.tuples(st.just("element"), st.sampled_from("abc"), st.integers(0, 3))
RULES = st.tuples(
    st.just("rule"),
    st.sampled_from(["low", "high", "clear", "reset"]),
    st.none() | st.integers(0, 4),
)
RESTARTS = st.tuples(st.just("restart"), st.integers(0, len(BACKENDS) - 1))
STEPS = st.lists(st.one_of(ELEMENTS, ELEMENTS, RULES, RESTARTS), max_size=20)


@given(STEPS)
def test_rules_and_elements_agree_with_dicts(steps):
    """In any order, restarted anywhere on any backend."""
    model, h = AlertModel(), alerts(state_backend=BACKENDS[0])
    for what, *arguments in steps:
        if what == "element":
            assert [model.element(*arguments)] == h.process_element(tuple(arguments))
        elif what == "rule":
            name, limit = arguments
            limit = 0 if name == "reset" and limit is None else limit
            model.rule(name, limit)
            h.process_broadcast_element((name, limit))
        else:
            blob = h.snapshot()
            h.close()
            h = alerts(state_backend=BACKENDS[arguments[0]], restore=blob)
        assert model.limits == dict(h.get_broadcast_state(LIMITS).items())
    h.close()
