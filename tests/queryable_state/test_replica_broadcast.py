# SPDX-License-Identifier: Apache-2.0
"""Broadcast state of a replica: it belongs to no key, and every key group has all of it."""

from __future__ import annotations

import attrs
import pytest
from replica_support import replica_of

from pyflinklike import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.errors import StateAccessError
from pyflinklike.queryable_state.image import StoredShare
from pyflinklike.queryable_state.savepoint_source import SavepointSource
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.testing import BroadcastHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Ruled(KeyedBroadcastProcessFunction):
    """Keeps rules, and the last number of each key."""

    def open(self, runtime_context):
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value, ctx):
        self.last.update(value[1])
        return []

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(RULES).put(*value)
        return []


@attrs.frozen
class SeveralGroups(SavepointSource):
    """The same log in three key groups, as broadcast state is in a checkpoint."""

    share: StoredShare = attrs.field(factory=StoredShare)

    def latest(self):
        image = super().latest()
        groups = dict.fromkeys(range(3), image.groups[0])
        return attrs.evolve(image, groups=groups, share=self.share)


@pytest.fixture
def directory(tmp_path):
    """A savepoint with two rules and two keys."""
    with BroadcastHarness(
        Ruled(), [RULES], lambda record: record[0], key_type=Types.STRING()
    ) as harness:
        for element in (("low", 1), ("high", 9)):
            harness.process_broadcast_element(element)
        for element in (("a", 5), ("b", 6)):
            harness.process_element(element)
        write_savepoint(harness, tmp_path / "saved")
    return open_savepoint(tmp_path / "saved")


def test_it_is_asked_without_a_key(directory):
    """And a scan gives it once, however many key groups there are."""
    with replica_of(SeveralGroups(directory, None, None)) as replica:
        rules = {"low": 1, "high": 9}
        assert (rules, [(None, rules)]) == (replica["rules"].get(), list(replica["rules"].items()))


def test_a_replica_of_a_part_refuses_it(directory):
    """Its key groups may not be there yet, while others have the rules."""
    part = SeveralGroups(directory, None, None, StoredShare(frozenset([1])))
    with replica_of(part) as replica, pytest.raises(StateAccessError, match="holds a part"):
        replica["rules"]
