# SPDX-License-Identifier: Apache-2.0
"""Harnesses behind each other."""

from __future__ import annotations

import pytest

from pyflinklike import KeyedProcessFunction, OutputTag, Row
from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK
from pyflinklike.errors import DeclarationError, StateAccessError
from pyflinklike.testing import HarnessChain, KeyedProcessHarness

ASIDE = OutputTag("aside")


class Telling(KeyedProcessFunction):
    """Tells of each element and of timers of both domains 5 ms later, with the watermark."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if ctx.timestamp() is not None:
            timers.register_event_time_timer(ctx.timestamp() + 5)
        timers.register_processing_time_timer(timers.current_processing_time() + 5)
        yield "element", ctx.timestamp(), timers.current_watermark()
        yield ASIDE, (f"aside {value.what}", ctx.timestamp(), 0)

    def on_timer(self, timestamp, ctx):
        yield ctx.time_domain().name, timestamp, ctx.timer_service().current_watermark()


def telling():
    """In a harness."""
    return KeyedProcessHarness(Telling(), key_selector=lambda row: "key")


def link(output):
    """All that an operator tells, as elements of the next."""
    what, time, _ = output
    return Row(what=what), time


def test_what_is_emitted_goes_on_at_once_and_a_watermark_after_what_it_made_due():
    """Through three operators: each sees an element of a timer under the watermark before."""
    chain = HarnessChain(telling()).then(telling(), link).then(telling(), link)

    assert [("element", 10, MIN_WATERMARK)] == chain.process_element(Row(what="first"), 10)
    assert [] == chain.process_watermark(14)
    assert [
        # The timer of the first, passed on by the second, and the timers of second and third.
        ("element", 15, 14),
        ("element", 15, 14),
        ("EVENT_TIME", 15, 15),
    ] == chain.process_watermark(15)
    assert 5 == len(chain.output) + 1


def test_processing_time_moves_in_all_of_them():
    """The first fires first; what it emits then comes before the second's clock moves."""
    chain = HarnessChain(telling()).then(telling(), link)
    chain.process_element(Row(what="first"), None)

    assert [("element", 5, MIN_WATERMARK), ("PROCESSING_TIME", 5, MIN_WATERMARK)] == (
        chain.set_processing_time(5)
    )
    assert [] == chain.set_processing_time(10)


def test_a_chain_may_follow_a_side_output():
    """Each of its values goes on once, in whichever call it was emitted; a link may leave some out."""
    chain = HarnessChain(telling())
    chain.then(
        telling(), lambda out: link(out) if out[0] != "aside no" else None, side_output=ASIDE
    )

    results = chain.process_elements([(Row(what="one"), 1), (Row(what="no"), 2)])
    results += chain.process_element(Row(what="two"), 3)

    assert [("element", 1, MIN_WATERMARK), ("element", 3, MIN_WATERMARK)] == results
    assert ["aside aside one", "aside aside two"] == [what for what, *_ in chain.side_output(ASIDE)]


def test_the_end_of_the_input_fires_all_timers_of_all():
    """Also those that the second sets for what the first gives out at the end."""
    with HarnessChain(telling()).then(telling(), link) as chain:
        chain.process_element(Row(what="first"), 10)

        assert [
            ("element", 15, MIN_WATERMARK),
            ("EVENT_TIME", 15, MAX_WATERMARK),
            ("EVENT_TIME", 20, MAX_WATERMARK),
        ] == chain.end_of_input()


def test_a_chain_closes_its_harnesses():
    """When its block ends; they can be used no more."""
    first, second = telling(), telling()
    with HarnessChain(first).then(second, link) as chain:
        pass

    for harness in (chain, first, second):
        with pytest.raises(StateAccessError, match="until it is closed"):
            harness.process_watermark(1)


@pytest.mark.parametrize("given", ["x", ("x",), ["x", 1], 7], ids=repr)
def test_a_link_gives_an_element_and_its_time(given):
    """What it gave is told, with the output that it gave it for."""
    chain = HarnessChain(telling()).then(telling(), lambda _: given)

    with pytest.raises(
        DeclarationError, match=r"a link gives an element .* for output \('element'"
    ):
        chain.process_element(Row(what="first"), 1)


def test_a_link_is_a_function():
    """It is told when the chain is made."""
    with pytest.raises(DeclarationError, match=r"a link is a function .* got 'row'"):
        HarnessChain(telling()).then(telling(), "row")
