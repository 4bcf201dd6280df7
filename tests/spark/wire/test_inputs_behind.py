# SPDX-License-Identifier: Apache-2.0
"""Operators of two inputs, of which one is behind another operator: Flink's order of what it emits."""

from __future__ import annotations

import pytest
from chain_support import Behind, ChainOnSpark, Stage
from hypothesis import example, given, settings
from hypothesis import strategies as st
from relay import ORDER, Relay, RelayOfTwo, RelayUnderRules, element, instant

from pyflinklike import Row
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.testing import BroadcastHarness, KeyedProcessHarness, KeyedTwoInputHarness

RECORDS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 40), st.integers(0, 9)), max_size=3
)
BATCHES = st.lists(st.tuples(RECORDS, RECORDS, st.integers(0, 9)), max_size=6)


class Apart(Relay):
    """`Relay` whose keys have no two timers of one time, which fire in any order."""

    def _due(self, time, ctx):
        return time + (ord(ctx.get_current_key()) - time) % 3


def rows(records):
    """Of the schema of the chain."""
    return [(key, instant(time), n, "") for key, time, n in records]


def by_time(records):
    """As a micro-batch is processed."""
    return [(Row(key=k, ts=None, n=n, trace=""), time) for k, time, n in sorted(records, key=_time)]


def _time(record):
    return record[1]


def plain(results):
    """Without the time zone that Arrow adds."""
    return sorted((key, time.replace(tzinfo=None), n, trace) for key, time, n, trace in results)


class Flink:
    """What Flink would do, in harnesses.

    Args:
        second: The harness behind.
        methods: Its methods that take an element of what the first emits, and of the other input.
        rules_first: Whether the other input comes before what the first emits for its records.
    """

    def __init__(self, second, methods, *, rules_first=False):
        self.first = KeyedProcessHarness(Apart(3), lambda row: row.key)
        self.second = second
        self.emitted, self.other = (getattr(second, each) for each in methods)
        self.rules_first = rules_first

    def micro_batch(self, records, others, watermark):
        """The watermark of the records before, the records one by one, and the same watermark again."""
        results = self._pass_on(self.first.process_watermark(watermark))
        results += self.second.process_both_watermarks(watermark)
        steps = [(self._records, records), (self._others, others)]
        for step, given_now in reversed(steps) if self.rules_first else steps:
            results += step(given_now, watermark)
        return results + self.second.process_both_watermarks(watermark)

    def _records(self, records, watermark):
        results = []
        for row, time in by_time(records):
            results += self._pass_on(self.first.process_element(row, time))
        return results + self._pass_on(self.first.process_watermark(watermark))

    def _others(self, others, _):
        return [out for row, time in by_time(others) for out in self.other(row, time)]

    def _pass_on(self, emitted):
        return [out for each in emitted for out in self.emitted(*element(each))]


def connected(number):
    """An operator of two inputs on Spark's side and in a harness; which input is behind."""
    methods = [f"process_element{number}", f"process_element{3 - number}"]
    harness = KeyedTwoInputHarness(RelayOfTwo(3), lambda row: row.key)
    return RelayOfTwo(3), (), Flink(harness, methods)


def ruled(number):
    """One with a broadcast input, likewise."""
    harness = BroadcastHarness(RelayUnderRules(3), [ORDER], key_selector=lambda row: row.key)
    methods = ["process_element", "process_broadcast_element"]
    flink = Flink(harness, methods if number == 1 else methods[::-1], rules_first=number == 1)
    return RelayUnderRules(3), (ORDER,), flink


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("kind", [connected, ruled])
@settings(max_examples=settings().max_examples // 4 + 1)
@example(  # with `Relay` both keys have a timer at 12, and either may fire first
    batches=[([], [], 5), ([("a", 4, 5), ("b", 10, 2)], [], 5), ([], [("a", 1, 1)], 4)], groups=1
)
@given(batches=BATCHES, groups=st.sampled_from([1, 3]))
def test_what_is_emitted_while_the_watermark_moves_comes_before_it_in_either_input(
    kind, number, batches, groups
):
    """Rules keep their order, those before the watermark first, and a timer that it makes due finds them; the other input comes after it. Restarted after every micro-batch."""
    function, states, flink = kind(number)
    # Of one key group the outputs have an order, which rules keep.
    first = Stage(Apart(3), 1)
    second = Behind(function, groups, number=number, states=states)
    stream, watermark = ChainOnSpark([first, second]), MIN_WATERMARK
    for records, others, step in batches:
        watermark = watermark if not step else max(watermark, 0) + step
        others = sorted(others, key=_time)

        given_out = stream.batch(rows(records), watermark, rows(others))

        assert plain(flink.micro_batch(records, others, watermark)) == plain(given_out)
