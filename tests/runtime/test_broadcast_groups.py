# SPDX-License-Identifier: Apache-2.0
"""One task, several key groups, one broadcast input: who processes an element, and who repeats it."""

from __future__ import annotations

import pytest
from broadcast_support import LIMITS, TOTAL, Alert
from tasks import opened
from two_input_support import BACKENDS

from pyflinklike._changelog.key_group_state import KeyGroupState


class Counted(Alert):
    """`Alert` that counts the calls for rules."""

    calls = 0

    def process_broadcast_element(self, value, ctx):
        self.calls += 1
        return super().process_broadcast_element(value, ctx)


class Groups:
    """Key groups of one task."""

    def __init__(self, backend, count=3):
        self.function = Counted()
        self.operator = opened(self.function, backend, broadcast_states=(LIMITS,))
        self.states = [KeyGroupState(index) for index in range(count)]

    def give(self, *rules, groups=None):
        """A task: every key group is given the rules."""
        for state in self.states if groups is None else groups:
            self.operator.group.enter(state)
            self.operator.process_broadcast([(rule, None) for rule in rules])

    def limits(self):
        """What each key group has."""
        found = []
        for state in self.states:
            self.operator.group.enter(state)
            found.append(dict(self.operator.broadcast_states.to_read(LIMITS).items()))
        return found

    def applied(self):
        """What came out for rules since it was last asked for."""
        side = self.operator.outputs.take().side
        return side["applied"][1] if side else []


@pytest.fixture
def groups():
    """Three key groups on the heap."""
    made = Groups(BACKENDS[0])
    yield made
    made.operator.close()


def test_a_task_processes_a_rule_once_and_stores_it_in_every_key_group(groups):
    """With every kind of change, and its outputs once."""
    groups.give(("low", 1), ("gone", 2), ("low", 3), ("gone", None))

    assert ([{"low": 3}] * 3, 4) == (groups.limits(), groups.function.calls)
    assert ["low", "gone", "low", "gone"] == groups.applied()


def test_clearing_is_repeated(groups):
    """In its place among the other changes."""
    groups.give(("low", 1), ("clear", None), ("high", 2))

    assert [{"high": 2}] * 3 == groups.limits()


def test_the_next_task_has_other_rules(groups):
    """What the former one did is not repeated in it, nor in key groups that it did not have."""
    groups.give(("low", 1), groups=groups.states[:1])
    groups.operator.end_task()
    groups.give(("low", 2), ("high", 9))

    assert ([{"low": 2, "high": 9}] * 3, 3) == (groups.limits(), groups.function.calls)


def test_a_key_group_may_get_its_rules_in_several_parts(groups):
    """As in a batch, whose parts end anywhere."""
    one, two, three = groups.states
    groups.give(("low", 1), ("high", 2), groups=[one])
    groups.operator.group.enter(two)
    groups.operator.process_broadcast([(("low", 1), None)])
    groups.operator.process_broadcast([(("high", 2), None)])
    groups.give(("low", 1), ("high", 2), groups=[three])

    assert ([{"low": 1, "high": 2}] * 3, 2) == (groups.limits(), groups.function.calls)


def test_a_rule_that_looks_at_keys_is_processed_in_every_key_group(groups):
    """For each has other keys; and its outputs come from each."""
    for at, state in enumerate(groups.states):
        groups.operator.group.enter(state)
        groups.operator.process([f"key{at}"], [("key", 5)], [None])
    groups.operator.outputs.take()
    groups.give(("reset", 7), ("low", 1))
    applied, totals = groups.applied(), []
    for at, state in enumerate(groups.states):
        groups.operator.group.enter(state)
        groups.operator.process([f"key{at}"], [("key", 0)], [None])
        totals += [row[1] for row in groups.operator.outputs.take().main]

    assert ([7, 7, 7], [{"low": 1}] * 3) == (totals, groups.limits())
    assert (["reset", "low", "reset", "reset"], 4) == (applied, groups.function.calls)


class LateBinding(Alert):
    """Applies a function that sees a variable which changes afterwards."""

    def process_broadcast_element(self, value, ctx):
        number = value
        ctx.apply_to_keyed_state(TOTAL, lambda _, total: total.update(number))
        number = -1


def test_a_function_is_applied_when_it_is_given(groups):
    """In every key group: its variables are what they were then."""
    groups.operator.function.process_broadcast_element = LateBinding().process_broadcast_element
    totals = []
    for at, state in enumerate(groups.states):
        groups.operator.group.enter(state)
        groups.operator.process([f"key{at}"], [("key", 5)], [None])
    groups.give(2)
    groups.operator.outputs.take()
    for at, state in enumerate(groups.states):
        groups.operator.group.enter(state)
        groups.operator.process([f"key{at}"], [("key", 0)], [None])
        totals += [row[1] for row in groups.operator.outputs.take().main]

    assert [2, 2, 2] == totals
