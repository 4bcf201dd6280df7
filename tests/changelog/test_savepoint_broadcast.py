# SPDX-License-Identifier: Apache-2.0
"""Broadcast state in savepoints: a copy for each key group, and one of them on the way back."""

from __future__ import annotations

import pytest
from broadcast_support import LIMITS, Alert

from pyflinklike import Types
from pyflinklike._changelog.segments import read_segment
from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike.state_processor._logs.checkpoint_logs import merge
from pyflinklike.testing import BroadcastHarness

KEYS = Types.STRING()


def harness(restore=None):
    """Of `Alert`, with keys of a declared type."""
    return BroadcastHarness(Alert(), [LIMITS], lambda each: each[0], restore=restore, key_type=KEYS)


def in_groups(snapshot, count):
    """A snapshot as that many key groups have it."""

    def group_of(keys):
        return [ord(key) % count for key in keys]

    return regroup_snapshot(read_segment(snapshot, "test"), KEYS, group_of, count, "test")


@pytest.fixture
def snapshot():
    """Two rules, one of them changed and one gone, and the sums of two keys."""
    with harness() as h:
        for rule in [("low", 1), ("gone", 2), ("low", 3), ("gone", None), ("high", 9)]:
            h.process_broadcast_element(rule)
        h.process_element(("a", 5))
        h.process_element(("b", 10))
        return h.snapshot()


def limits(segments):
    """The rules in the snapshot of a key group."""
    with harness(restore=merge({"group": segments})) as h:
        return dict(h.get_broadcast_state(LIMITS).items())


@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_key_group_gets_a_copy(snapshot, count):
    """Also one without keys."""
    groups = in_groups(snapshot, count)

    assert list(range(count)) == sorted(groups)
    assert [{"low": 3, "high": 9}] * count == [limits(each) for each in groups.values()]


def test_key_groups_become_one_with_one_copy(snapshot):
    """And with the keys of all."""
    groups = in_groups(snapshot, 3)
    with harness(restore=merge({str(index): each for index, each in groups.items()})) as h:
        assert {"low": 3, "high": 9} == dict(h.get_broadcast_state(LIMITS).items())
        outputs = h.process_element(("a", 0)) + h.process_element(("b", 0))

    assert [("a", 5, "low"), ("b", 10, "high,low")] == outputs


def test_a_savepoint_without_rules_has_none_for_new_key_groups():
    """A key group that has no key and no rule has nothing."""
    with harness() as h:
        h.process_element(("a", 5))
        groups = in_groups(h.snapshot(), 4)

    assert [ord("a") % 4] == list(groups)
