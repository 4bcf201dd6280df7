# SPDX-License-Identifier: Apache-2.0
"""Operators behind each other: what one emits while the watermark moves comes before it at the next."""

from __future__ import annotations

import datetime as dt
from itertools import pairwise

import pytest
from chain_double import ChainOnSpark, Relay, Stage, instant, milliseconds
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Row
from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.errors import CorruptStateError
from pyflinklike.log.former_watermark import WATERMARK_AT
from pyflinklike.spark.savepoints import savepoint_of
from pyflinklike.spark.wire.homes import home_ids, is_home
from pyflinklike.testing import HarnessChain, KeyedProcessHarness

RECORDS = st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 40), st.integers(0, 9))
BATCHES = st.lists(
    st.tuples(st.lists(RECORDS, max_size=4), st.integers(0, 9), st.booleans()), max_size=7
)


def rows(records):
    """Of the schema of the chain."""
    return [(key, instant(time), n, "") for key, time, n in records]


def harnesses(operators):
    """The same functions in harnesses, one behind the other."""

    def harness():
        return KeyedProcessHarness(Relay(3), lambda row: row.key)

    def link(output):
        key, time, n, trace = output
        return Row(key=key, ts=time, n=n, trace=trace), milliseconds(time)

    chain = HarnessChain(harness())
    for _ in range(operators - 1):
        chain.then(harness(), link)
    return chain


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


def test_a_savepoint_of_the_second_operator_is_that_of_its_key_groups():
    """What homes keep is of no use elsewhere; state and timers go on in a harness, of another max parallelism."""
    stream = ChainOnSpark([Stage(Relay(3), 4), Stage(Relay(3), 5, is_first=False)])
    chain = harnesses(2)
    second = chain._last
    for records, watermark in [
        ([("a", 10, 4), ("b", 11, 5), ("c", 12, 8)], MIN_WATERMARK),
        ([("a", 16, 7)], 15),
    ]:
        stream.batch(rows(records), watermark)
        driven(chain, records, watermark)

    savepoint = savepoint_of(stream.checkpoints[1].blobs, "test")

    with KeyedProcessHarness(
        Relay(3), lambda row: row.key, restore=savepoint, max_parallelism=7
    ) as restored:
        assert 0 < second.num_event_time_timers() == restored.num_event_time_timers()
        assert sorted(second.process_watermark(99)) == sorted(restored.process_watermark(99))


def test_a_home_is_called_before_all_key_groups_of_its_partition():
    """Its grouping key is below theirs and the roll call's, and in the partition that it is the home of."""
    for partitions in (1, 2, 7, 200):
        ids = home_ids(partitions)
        assert partitions == len(set(ids))
        assert all(is_home(each) for each in ids)
    assert not any(map(is_home, [-1, 0, 1]))


def test_a_damaged_watermark_is_told():
    """Every byte of it counts: a wrong one would make records late that are not."""
    stream = ChainOnSpark([Stage(Relay(1), 1), Stage(Relay(1), 1, is_first=False)])
    stream.batch(rows([("a", 10, 4)]), 9)
    (home,) = (blobs for key, blobs in stream.checkpoints[1].blobs.items() if is_home(key))
    whole = home[WATERMARK_AT]

    for at in range(len(whole)):
        home[WATERMARK_AT] = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
        with pytest.raises(CorruptStateError, match="former watermark must be"):
            stream.batch(rows([("a", 12, 4)]), 11)
    for short, long in pairwise([whole[:at] for at in range(len(whole))]):
        home[WATERMARK_AT] = short if len(short) else long
        with pytest.raises(CorruptStateError, match="former watermark must be"):
            stream.batch(rows([("a", 12, 4)]), 11)
