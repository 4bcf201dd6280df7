# SPDX-License-Identifier: Apache-2.0
"""Operators behind each other: what one emits while the watermark moves comes before it at the next."""

from __future__ import annotations

import datetime as dt
import struct

import pytest
from chain_support import ChainOnSpark, Stage
from checkpoint_support import Checkpoint, Times
from hypothesis import given, settings
from hypothesis import strategies as st
from relay import Relay, instant, relays

from pyflinklike import KeyedProcessFunction, Row
from pyflinklike._changelog.log_storage import WATERMARK_AT
from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError, SparkSetupError
from pyflinklike.spark._plan.operator_plan import TimeMode
from pyflinklike.spark._wire.payloads import Home, home_ids, is_home
from pyflinklike.state_processor._spark.initial_state import savepoint_of

RECORDS = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 40), st.integers(0, 9))
BATCHES = st.lists(
    st.tuples(st.lists(RECORDS, max_size=4), st.integers(0, 9), st.booleans()), max_size=7
)


def rows(records):
    """Of the schema of the chain."""
    return [(key, instant(time), n, "") for key, time, n in records]


def harnesses(operators):
    """The same functions in harnesses, one behind the other."""
    return relays([Relay(3) for _ in range(operators)])


def driven(chain, records, watermark):
    """What Flink would do: the watermark of the records before, the records one by one, and the same watermark again."""
    results = chain.process_watermark(watermark)
    for key, time, n in records:
        results += chain.process_element(Row(key=key, ts=None, n=n, trace=""), time)
    return results + (chain.process_watermark(watermark) if records else [])


def plain(results):
    """Without the time zone that Arrow adds."""
    return sorted((key, time.replace(tzinfo=None), n, trace) for key, time, n, trace in results)


@given(
    operators=st.sampled_from([2, 2, 3]),
    batches=BATCHES,
    groups=st.lists(st.sampled_from([1, 2, 5]), min_size=3, max_size=3),
    pandas=st.booleans(),
)
def test_a_chain_gives_what_its_operators_give_element_by_element(
    operators, batches, groups, pandas
):
    """With the same watermarks at the same records, wherever the input is cut into micro-batches, attempted twice or empty, and however many key groups each operator has."""
    stream = ChainOnSpark(
        [Stage(Relay(3), groups[at], is_first=not at, pandas=pandas) for at in range(operators)]
    )
    with harnesses(operators) as chain:
        watermark = MIN_WATERMARK
        for records, step, is_attempted in batches:
            watermark = watermark if not step else max(watermark, 0) + step
            if is_attempted:
                stream.attempt(rows(records), watermark)

            given_out = stream.batch(rows(records), watermark)

            assert plain(driven(chain, records, watermark)) == plain(given_out)


class Unchanged(KeyedProcessFunction):
    """Yields what it is given."""

    def process_element(self, value, ctx):
        yield tuple(value)


@settings(max_examples=settings().max_examples // 2)
@given(batches=BATCHES)
def test_an_operator_without_event_time_passes_on_what_came_before_the_watermark(batches):
    """It knows of no watermark, and the operator behind it sees what it would see without it."""
    middle = Stage(Unchanged(), 3, is_first=False, time_mode=TimeMode.NONE)
    stream = ChainOnSpark([Stage(Relay(3), 2), middle, Stage(Relay(3), 2, is_first=False)])
    with harnesses(2) as chain:
        watermark = MIN_WATERMARK
        for records, step, _ in batches:
            watermark = watermark if not step else max(watermark, 0) + step

            given_out = stream.batch(rows(records), watermark)

            assert plain(driven(chain, records, watermark)) == plain(given_out)


def test_what_a_timer_emits_is_not_late_for_the_next_operator():
    """It comes under the watermark of the micro-batch before, also where its key group was not called in that one."""
    stream = ChainOnSpark([Stage(Relay(1), 4), Stage(Relay(1), 4, is_first=False)])
    stream.batch(rows([("a", 10, 4)]), MIN_WATERMARK)
    stream.batch(rows([("b", 12, 0)]), 9)

    outputs = stream.batch([], 14)

    early = dt.datetime(1970, 1, 1, 0, 0, 0, 14_000)
    # The sum 4 becomes 5, which is odd: the second passes it on, and sets a timer for 14 + 5.
    assert [("k0", early, 6, "timer of a 14 under 14/element 14 under 9")] == [
        (key, time.replace(tzinfo=None), n, trace) for key, time, n, trace in outputs
    ]


def test_a_chain_goes_on_from_savepoints_with_other_numbers_of_key_groups():
    """Of both operators, state and timers; only the watermark begins anew, as in Flink, so homes have no part in it."""
    stream = ChainOnSpark([Stage(Relay(3), 4), Stage(Relay(3), 5, is_first=False)])
    chain = harnesses(2)
    for records, watermark in [
        ([("a", 10, 4), ("b", 11, 5), ("c", 12, 8)], MIN_WATERMARK),
        ([("a", 16, 7)], 15),
    ]:
        stream.batch(rows(records), watermark)
        driven(chain, records, watermark)
    savepoints = [savepoint_of(each.blobs, "test") for each in stream.checkpoints]
    stages = [Stage(Relay(3), 7), Stage(Relay(3), 2, is_first=False)]

    again = ChainOnSpark(stages, savepoints)
    chain = relays([Relay(3), Relay(3)], restored=[each.snapshot() for each in chain.harnesses])

    for records, watermark in [([("b", 20, 5), ("c", 21, 7)], MIN_WATERMARK), ([], 18), ([], 99)]:
        expected = driven(chain, records, watermark)
        assert plain(expected) == plain(again.batch(rows(records), watermark))
    assert expected


def test_a_home_is_called_before_all_key_groups_of_its_partition():
    """Its grouping key is below theirs and the registry's, and in the partition that it is the home of."""
    for partitions in (1, 2, 7, 200):
        ids = home_ids(partitions)
        assert partitions == len(set(ids))
        assert all(is_home(each) for each in ids)
    assert not any(map(is_home, [-1, 0, 1]))


def test_a_damaged_watermark_is_told():
    """Every byte of it counts: a wrong one would make records late that are not."""
    stream = ChainOnSpark([Stage(Relay(1), 1), Stage(Relay(1), 1, is_first=False)])
    stream.batch(rows([("a", 10, 4)]), 9)
    second = stream.checkpoints[1]
    (home,) = filter(is_home, second.blobs)
    whole = second.blobs[home][WATERMARK_AT]
    flipped = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    short = [whole[:at] for at in range(1, len(whole))]

    for damaged in flipped + short:
        with second.edit_blobs() as blobs:
            blobs[home][WATERMARK_AT] = damaged
        with pytest.raises(CorruptStateError, match="former watermark must be"):
            stream.batch(rows([("a", 12, 4)]), 11)


def test_a_home_refuses_a_grouping_key_of_another_partition():
    """Whatever number Spark gives the task: behind a union it is not that of the partition."""
    ids = home_ids(5)

    for partition, key in enumerate(ids):
        home = Home(partition, 5)
        home.check_holds(key)
        for other in {*ids} - {key}:
            with pytest.raises(
                SparkSetupError, match=f"got partition {partition} of 5 in one task"
            ):
                home.check_holds(other)


def test_a_task_that_two_homes_are_called_for_is_refused():
    """As where a micro-batch has fewer partitions than the one that called them counted."""
    stage = Stage(Relay(1), 1, is_first=False)
    checkpoint = Checkpoint()
    rows = {key: [(0, struct.pack("<ii", at, 2))] for at, key in enumerate(home_ids(2))}

    with pytest.raises(SparkSetupError, match="keeps the former watermark"):
        checkpoint.serve(stage.plan(), stage.time_mode, Times(1, 5), rows)
