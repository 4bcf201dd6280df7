# SPDX-License-Identifier: Apache-2.0
"""A function with a broadcast input agrees with its rules over dicts."""

from broadcast_support import LIMITS, Alert, AlertModel
from hypothesis import given
from hypothesis import strategies as st
from two_input_support import BACKENDS

from pyflinklike.testing import BroadcastHarness

ELEMENTS = st.tuples(st.just("element"), st.sampled_from("abc"), st.integers(0, 3))
RULES = st.tuples(
    st.just("rule"),
    st.sampled_from(["low", "high", "clear", "reset"]),
    st.none() | st.integers(0, 4),
)
RESTARTS = st.tuples(st.just("restart"), st.integers(0, len(BACKENDS) - 1))
STEPS = st.lists(st.one_of(ELEMENTS, ELEMENTS, RULES, RESTARTS), max_size=20)


def harness(backend, restore=None):
    """Of `Alert`."""
    key = lambda element: element[0]  # noqa: E731
    return BroadcastHarness(Alert(), [LIMITS], key, state_backend=backend, restore=restore)


@given(STEPS)
def test_rules_and_elements_agree_with_dicts(steps):
    """In any order, restarted anywhere on any backend."""
    model, h = AlertModel(), harness(BACKENDS[0])
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
            h = harness(BACKENDS[arguments[0]], restore=blob)
        assert model.limits == dict(h.get_broadcast_state(LIMITS).items())
    h.close()
