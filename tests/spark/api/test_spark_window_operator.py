# SPDX-License-Identifier: Apache-2.0
"""Windows on a Spark stream and a Spark batch: what the harness gives, with restarts and late data."""

from __future__ import annotations

import random

import pytest
from host_models import model_stream
from spark_support import (
    Feed,
    at,
    drain,
    milliseconds,
    pickle_by_value,
)

from pyflinklike import AggregateFunction, OutputTag, Types
from pyflinklike.spark import key_by
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
    window,
)

pickle_by_value(__name__)

SCHEMA = "key string, ts timestamp, n long"
RESULT = "key string, opens long, closes long, numbers string"
ELEMENT = Types.ROW_NAMED(["key", "ts", "n"], [Types.STRING(), Types.SQL_TIMESTAMP(), Types.LONG()])
LATE = OutputTag("late", ELEMENT)


class Numbers(ProcessWindowFunction):
    """The numbers of a window in order, and how often it has fired before."""

    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, ",".join(str(each.n) for each in elements)


class Total(AggregateFunction):
    """The sum of numbers."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator + value.n

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


def with_window(key, window, result):
    """A row of key, window and result."""
    return key, window.start, window.end, str(result)


def sessions():
    """Sessions with late data, processed whole."""
    windowed = window(EventTimeSessionWindows.with_gap(7)).allowed_lateness(20)
    return windowed.side_output_late_data(LATE).process(Numbers())


def random_batches(seed, batches, size):
    """Records whose times go up on the whole; some come late, some much too late."""
    chance = random.Random(seed)
    return [
        [
            (
                chance.choice("abcde"),
                at(number * 60 + chance.randint(-80 if chance.random() < 0.3 else 0, 60) + 100),
                number * size + n,
            )
            for n in range(size)
        ]
        for number in range(batches)
    ]


def windowed(feed, operator, **options):
    """Windows on a stream, with their late data."""
    return key_by(feed.stream(), "key").process(
        operator, RESULT, event_time="ts", side_outputs=[LATE], max_parallelism=8, **options
    )


def rows_and_late(*runs):
    """The main rows and the late numbers of runs of a stream, sorted."""
    rows = [row for run in runs for batch in run.values() for row in batch]
    main = [tuple(row)[:4] for row in rows if row.output_tag is None]
    return sorted(main), sorted(
        (row[LATE.tag_id].key, row[LATE.tag_id].n) for row in rows if row.output_tag
    )


def expected(operator, feed):
    """What a harness gives for the batches of a feed."""
    with KeyedProcessHarness(operator, key_selector=lambda value: value.key) as harness:
        model_stream(harness, feed.elements(), "ts")
        return sorted(harness.output), sorted((row.key, row.n) for row in harness.side_output(LATE))


@pytest.mark.telling
@pytest.mark.thorough
def test_windows_go_on_after_a_restart(spark, tmp_path):
    """Sessions that merge, fire again for late elements, and send what is too late to a side output."""
    feed = Feed(spark, tmp_path / "input", SCHEMA)
    batches = random_batches(7, batches=5, size=40)
    feed.add(*batches[:2])
    first = drain(windowed(feed, sessions()), tmp_path / "checkpoint")
    feed.add(*batches[2:])
    second = drain(windowed(feed, sessions()), tmp_path / "checkpoint")

    main, late = rows_and_late(first, second)
    assert late
    assert (main, late) == expected(sessions(), feed)


def test_windows_of_a_batch_fire_at_its_end(spark):
    """Every window once, with all that is in it, however late it came."""
    rows = [row for batch in random_batches(5, batches=3, size=50) for row in batch]
    records = spark.createDataFrame(
        [(key, time, n) for key, time, n in rows], "key string, ts timestamp, n long"
    )
    sliding = window(SlidingEventTimeWindows.of(20, 5)).aggregate(
        Total(), accumulator_type=Types.LONG()
    )
    result = key_by(records, "key").process(
        sliding.collecting(with_window), RESULT, event_time="ts"
    )
    sums: dict = {}
    for key, time, n in rows:
        last = milliseconds(time) // 5 * 5
        for start in range(last, last - 20, -5):
            sums[key, start] = sums.get((key, start), 0) + n
    assert sorted(
        (key, start, start + 20, str(total)) for (key, start), total in sums.items()
    ) == sorted(map(tuple, result.collect()))
