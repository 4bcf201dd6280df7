# SPDX-License-Identifier: Apache-2.0
"""A length of windows that is a plain number is of ms: below a second that is rarely meant."""

from __future__ import annotations

import warnings
from datetime import timedelta

import pytest

from pyflinklike import Duration, Time, _deprecation
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    window,
)

SECOND = timedelta(seconds=1)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    """A process that was told nothing."""
    monkeypatch.setattr(_deprecation, "_SHOWN", set())


def told(assigner):
    """The warnings of a job with such windows, and the files that they are of."""
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stream.key_by(lambda value: value).window(assigner)
    return [(str(each.message), each.filename) for each in caught]


@pytest.mark.parametrize(
    ("assigner", "length"),
    [
        (TumblingEventTimeWindows.of(60), "TumblingEventTimeWindows of 60 ms"),
        (TumblingProcessingTimeWindows.of(999), "TumblingProcessingTimeWindows of 999 ms"),
        (SlidingEventTimeWindows.of(SECOND, 5), "SlidingEventTimeWindows of 5 ms"),
        (SlidingProcessingTimeWindows.of(60, SECOND), "SlidingProcessingTimeWindows of 60 ms"),
        (EventTimeSessionWindows.with_gap(30), "EventTimeSessionWindows of 30 ms"),
        (ProcessingTimeSessionWindows.with_gap(30), "ProcessingTimeSessionWindows of 30 ms"),
    ],
)
def test_a_short_plain_number_is_told_with_the_remedy(assigner, length):
    """Once, at the line of the user's program."""
    ((message, file),) = told(assigner)

    assert f"got {length}, which is less than a second" in message
    assert "Time.minutes(1) or timedelta(minutes=1)" in message
    assert __file__ == file


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingEventTimeWindows.of(1000),
        TumblingEventTimeWindows.of(Time.milliseconds(60)),
        TumblingEventTimeWindows.of(timedelta(milliseconds=60), 5),
        SlidingEventTimeWindows.of(Duration.of_millis(60), Time.milliseconds(5)),
        EventTimeSessionWindows.with_gap(Time.milliseconds(30)),
    ],
    ids=repr,
)
def test_what_names_its_unit_is_not_told(assigner):
    """And a second and more is not either; an offset may be small."""
    assert [] == told(assigner)


def test_windows_of_a_harness_are_not_told():
    """Tests count in small numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert TumblingEventTimeWindows.of(60) == window(TumblingEventTimeWindows.of(60)).assigner
