# SPDX-License-Identifier: Apache-2.0
"""Joins served batch by batch from their log: what is let go is gone there, too."""

from __future__ import annotations

import pytest
from tasks import Task

from pyflinklike import EmbeddedRocksDBStateBackend, HashMapStateBackend, Types
from pyflinklike._clock import TimeDomain
from pyflinklike.joins import (
    CoGrouping,
    IntervalJoin,
    JoinBounds,
    JoinedGroups,
    ProcessJoinFunction,
    TaggedTypeInfo,
)
from pyflinklike.windows import TumblingEventTimeWindows, window

PAIR = Types.TUPLE([Types.STRING(), Types.LIST(Types.LONG())])
BATCHES = [
    ([("k", 1, 10), ("k", 2, 11), ("j", 1, 10)], 9),
    ([], 11),
    ([("k", 1, 12), ("k", 2, 12), ("j", 2, 12)], 11),
    ([("k", 2, 13)], 13),
    ([], 30),
    ([("k", 1, 31), ("k", 2, 31)], 30),
    ([], 50),
]


class Pairs(ProcessJoinFunction):
    """The times of both."""

    def process_element(self, left, right, ctx):
        yield left and left[1][0], right and right[1][0]


def interval():
    """A full outer join by an interval of a ms on either side."""
    bounds = JoinBounds(-1, 1)
    return IntervalJoin(Pairs(), bounds, "full_outer", left_type=PAIR, right_type=PAIR)


def windowed():
    """A full outer join within windows of 5 ms."""
    groups = JoinedGroups(lambda one, two: (one and one[1][0], two and two[1][0]), "full_outer")
    assigner = TumblingEventTimeWindows.of(5)
    return window(assigner, TaggedTypeInfo(PAIR, PAIR)).process(CoGrouping(groups))


EXPECTED = {
    interval: [
        [(10, 11)],
        [(10, None)],
        [(12, 11), (12, 12)],
        [(None, 12)],
        [(None, 13)],
        [(31, 31)],
        [],
    ],
    windowed: [
        [],
        [],
        [],
        [],
        [(10, 11), (10, 12), (10, 13), (10, 12), (12, 11), (12, 12), (12, 13)],
        [],
        [(31, 31)],
    ],
}


@pytest.mark.parametrize("is_cold", [False, True], ids=["warm", "cold"])
@pytest.mark.parametrize("backend", [HashMapStateBackend, EmbeddedRocksDBStateBackend])
@pytest.mark.parametrize("join", EXPECTED, ids=lambda join: join.__name__)
def test_a_join_goes_on_from_its_log(join, backend, is_cold):
    """In every micro-batch on another worker, or on one; in the end nothing is kept."""
    task, outputs = Task(join(), backend(), TimeDomain.EVENT_TIME), []
    for records, watermark in BATCHES:
        if is_cold:
            task.lose()
        rows = [(key, (side, (key, [at])), at) for key, side, at in records]
        outputs.append(sorted(task.serve(rows, watermark=watermark), key=repr))

    assert [sorted(each, key=repr) for each in EXPECTED[join]] == outputs
    assert (0, 0) == (task.counts["live_entries"], task.counts["timers"])
