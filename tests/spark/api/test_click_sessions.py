# SPDX-License-Identifier: Apache-2.0
"""The example of sessions out of order: its aggregate has the rules of the loop it is compared with."""

from __future__ import annotations

import datetime as dt
from functools import reduce

import pytest
from example_support import example
from hypothesis import given
from hypothesis import strategies as st

_clicks = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), min_size=1, max_size=6)


@given(_clicks)
def test_clicks_of_one_second_are_ordered_as_by_the_loop(made):
    """By their pages, in whatever order they come."""
    sessions = example("click_sessions")
    group = [
        sessions.Click("ann", page, at := sessions.DAY + dt.timedelta(seconds=second), at)
        for page, second in made
    ]
    visit = sessions.Visit()
    accumulator = reduce(
        lambda kept, each: visit.add(each, kept), group, visit.create_accumulator()
    )
    _, _, _, *expected = sessions._row(group)

    assert tuple(expected) == visit.get_result(accumulator)


@pytest.mark.thorough
def test_a_difference_from_the_loop_ends_with_an_error(spark, tmp_path, monkeypatch):
    """A caller such as a test run sees it without reading what is printed."""
    sessions = example("click_sessions")
    monkeypatch.setattr(sessions, "expected", lambda _batches: (set(), []))

    with pytest.raises(SystemExit, match="the stream and the loop differ"):
        sessions.main(tmp_path, 2)
