# SPDX-License-Identifier: Apache-2.0
"""Ranges of offsets: rate limits and splitting; and how offsets stand in a checkpoint."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import CorruptStateError, DataLossError
from pyflinklike.kafka.fetch import refuse_new_topics, report_gone
from pyflinklike.kafka.offsets import OffsetRange, Offsets, limit_ends, split_ranges

BACKLOGS = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)


@given(BACKLOGS, st.integers(1, 20_000))
def test_a_limit_is_kept_and_used_up(backlog: list[int], most: int):
    """As many offsets as allowed or there are, and none twice or beyond the end."""
    start = {("t", number): 100 for number in range(len(backlog))}
    end = {("t", number): 100 + size for number, size in enumerate(backlog)}

    taken = limit_ends(start, end, most)

    assert sum(taken.values()) - sum(start.values()) == min(most, sum(backlog))
    assert all(start[each] <= taken[each] <= end[each] for each in end)


def test_a_limit_is_shared_by_what_is_left():
    """As in Spark's own connector."""
    start = {("t", 0): 0, ("t", 1): 0}

    assert limit_ends(start, {("t", 0): 900, ("t", 1): 100}, 100) == {("t", 0): 90, ("t", 1): 10}


@given(BACKLOGS, st.integers(0, 40))
def test_parts_cover_what_was_split(backlog: list[int], least: int):
    """Every offset once, in at least so many parts if there are as many offsets."""
    ranges = [OffsetRange("t", n, 5, 5 + size) for n, size in enumerate(backlog) if size]

    parts = split_ranges(ranges, least)

    assert len(parts) >= min(least, sum(backlog))
    assert all(len(part) > 0 for part in parts)
    for whole in ranges:
        of_it = [(part.start, part.end) for part in parts if part.partition == whole.partition]
        assert [whole.start, *(end for _, end in of_it)] == [*(at for at, _ in of_it), whole.end]


def test_offsets_come_back_from_the_checkpoint():
    """And equal ones are the same text, which is what Spark compares."""
    offsets = Offsets({("b", 10): 7, ("b", 9): 2**40, ("a", 0): 0}, {"b": "x", "a": "y"})
    same = Offsets({("a", 0): 0, ("b", 9): 2**40, ("b", 10): 7}, {"a": "y", "b": "x"})

    assert Offsets.from_json(json.loads(json.dumps(offsets.to_json()))) == offsets
    assert json.dumps(offsets.to_json()) == json.dumps(same.to_json())


@pytest.mark.parametrize(
    "found",
    [
        {"clicks": {"0": 5}},
        {"offsets": {"clicks": {"0": -1}}, "topic_ids": {}},
        {"offsets": {"clicks": {"0": "5"}}, "topic_ids": {}},
        {"offsets": {"clicks": {"zero": 5}}, "topic_ids": {}},
        [],
    ],
)
def test_what_is_no_offset_of_ours_is_refused(found: object):
    """Such as those of Spark's own connector, or a damaged file."""
    with pytest.raises(CorruptStateError, match="start with a new checkpoint"):
        Offsets.from_json(found)


def test_a_topic_that_was_made_anew_is_refused():
    """Even if it is as long as the old one was by now."""
    with pytest.raises(DataLossError, match="topic t was deleted and made anew"):
        refuse_new_topics(Offsets({("t", 0): 5}, {"t": "old"}), {"t": "new"})


def test_a_topic_whose_id_is_not_told_is_taken_for_the_same():
    """Brokers without a controller tell none for a moment."""
    refuse_new_topics(Offsets({("t", 0): 5}, {"t": "old"}), {})


def test_a_partition_that_is_gone_is_an_error_or_a_word(caplog: pytest.LogCaptureFixture):
    """Never nothing."""
    with pytest.raises(DataLossError, match="t/1 were read and are no longer there"):
        report_gone([("t", 0), ("t", 1)], [("t", 0)], fail=True)
    report_gone([("t", 0), ("t", 1)], [("t", 0)], fail=False)

    assert "t/1 were read" in caplog.text
