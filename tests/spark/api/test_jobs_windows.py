# SPDX-License-Identifier: Apache-2.0
"""Windows of processing time, which only a stream can show."""

from __future__ import annotations

import pytest
from frame_support import PAYMENTS, Total, in_ms, payments
from relay import Relay
from spark_support import (
    Feed,
    pickle_by_value,
    start,
    until,
)

from pyflinklike.spark import key_by
from pyflinklike.windows import (
    ProcessingTimeSessionWindows,
    SlidingProcessingTimeWindows,
    TumblingProcessingTimeWindows,
)

pickle_by_value(__name__)
pickle_by_value(Relay.__module__)

# By the clock


def _by_the_clock(spark, tmp_path, assigner):
    """Every window of two micro-batches that a query gives by itself, stopped in between."""
    feed = Feed(spark, tmp_path / "input", PAYMENTS)
    windows = key_by(feed.stream(), "user").window(assigner)
    totals = windows.aggregate(Total(), output_type="n long, counted long", max_parallelism=4)
    found = {}
    for number in (1, 2):
        feed.add(payments(("ann", 1, 0), ("bob", 2, 0), ("ann", 2 + number, 0)))
        # A micro-batch that was interrupted comes again, under its number.
        found |= _until_counted(totals, tmp_path / "c", found, 3 * number * _of_each(assigner))
    return [row for rows in found.values() for row in rows]


def _until_counted(totals, checkpoint, before, wanted):
    """The rows of a run by micro-batch, once there are so many records in them and those before."""
    query, batches = start(totals, checkpoint, processingTime="500 milliseconds")

    def counted():
        every = {**before, **dict(batches)}
        return sum(row.counted for rows in every.values() for row in rows)

    try:
        until(query, lambda: counted() >= wanted)
    finally:
        query.stop()
    return dict(batches)


def _of_each(assigner):
    return 2 if isinstance(assigner, SlidingProcessingTimeWindows) else 1


@pytest.mark.parametrize(
    "assigner",
    [
        TumblingProcessingTimeWindows.of(1_000),
        SlidingProcessingTimeWindows.of(2_000, 1_000),
        ProcessingTimeSessionWindows.with_gap(1_000),
    ],
    ids=["tumbling", "sliding", "session"],
)
def test_windows_on_a_stream_end_by_the_clock(spark, tmp_path, assigner):
    """Without further records, also those that were open when the query was stopped; each record is in its windows once."""
    rows = _by_the_clock(spark, tmp_path, assigner)
    of_each = _of_each(assigner)

    sums = {user: sum(row.n for row in rows if row.user == user) for user in ("ann", "bob")}
    spans = {end - begin for _, begin, end, *_ in in_ms(rows)}

    assert {"ann": 9 * of_each, "bob": 4 * of_each} == sums
    assert {2_000 if of_each == 2 else 1_000} == spans


# Over RocksDB


# Behind another operator
