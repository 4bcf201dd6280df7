# SPDX-License-Identifier: Apache-2.0
"""Operator state: broadcast state is there; who looks for lists is told what to use instead."""

from __future__ import annotations

import pytest
from broadcast_support import LIMITS, Alert

from pyflinklike import KeyedProcessFunction, ListStateDescriptor, Types
from pyflinklike.errors import DeclarationTypeError, UserFunctionError
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness

BUFFER = ListStateDescriptor("buffer", Types.LONG())
REMEDY = "the only operator state is broadcast state, as in PyFlink: keep a list per key"


class Asking(KeyedProcessFunction):
    """Asks for state by another name."""

    def __init__(self, method):
        self.method = method

    def open(self, runtime_context):
        getattr(runtime_context, self.method)(BUFFER)

    def process_element(self, value, ctx):
        return None


class OfContext(KeyedProcessFunction):
    """Asks the context of an element."""

    def process_element(self, value, ctx):
        return ctx.get_union_list_state(BUFFER)


class OfRule(Alert):
    """Asks the context of a rule."""

    def process_broadcast_element(self, value, ctx):
        ctx.get_union_list_state(BUFFER)


@pytest.mark.parametrize(
    "method", ["get_operator_state_store", "get_operator_list_state", "get_union_list_state"]
)
def test_operator_state_of_a_list_is_refused_with_what_to_use(method):
    """Where a function is opened."""
    with pytest.raises(UserFunctionError, match=f"has no attribute '{method}'.*{REMEDY}"):
        KeyedProcessHarness(Asking(method), key_selector=str)


def test_an_attribute_that_nobody_has_is_told_as_it_is():
    """Without words about operator state."""
    with pytest.raises(UserFunctionError) as raised:
        KeyedProcessHarness(Asking("get_satte"), key_selector=str)

    assert "operator state" not in str(raised.value)


def test_a_context_tells_the_same():
    """That of an element, and that of a broadcast element."""
    with (
        KeyedProcessHarness(OfContext(), key_selector=str) as harness,
        pytest.raises(UserFunctionError, match=REMEDY),
    ):
        harness.process_element(1)
    with (
        BroadcastHarness(OfRule(), [LIMITS], key_selector=str) as harness,
        pytest.raises(UserFunctionError, match=REMEDY),
    ):
        harness.process_broadcast_element(("low", 1))


@pytest.mark.parametrize(
    "names", [("initialize_state", "snapshot_state"), ("initializeState", "snapshotState")]
)
def test_a_checkpointed_function_is_refused(names):
    """Its methods would never be called, and what it keeps would be lost without a word."""
    ported = type("Ported", (Asking,), dict.fromkeys(names, lambda *_: None))

    with pytest.raises(DeclarationTypeError, match=f"nothing calls {' and '.join(names)}, got"):
        KeyedProcessHarness(ported("get_state"), key_selector=str)


def test_a_function_with_one_of_these_names_is_taken():
    """It may mean anything by it."""
    lone = type("Lone", (OfContext,), {"snapshot_state": lambda *_: None})

    with KeyedProcessHarness(lone(), key_selector=str) as harness:
        assert [] == harness.output
