# SPDX-License-Identifier: Apache-2.0
"""What the demo says about its speed."""

from datetime import datetime, timedelta

import pytest
from demo.findings import COLD_BATCHES, FlightTables, find_known_silences, print_run
from demo.flights import SILENT_AFTER

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")
from demo import runs

DAYS = FlightTables(
    days=14,
    records=12_000,
    without_tailnum=0,
    cancelled=0,
    start=datetime(2013, 1, 1),
    end=datetime(2013, 1, 14),
)


def said_of(capsys, *seconds):
    """What is printed of a stream whose micro-batches of 1,000 records took so long."""
    batches = [runs.MicroBatch(number, 1_000, each) for number, each in enumerate(seconds)]
    print_run(DAYS, runs.Findings(seconds=50.0, batches=batches), 2.0, 1)
    return capsys.readouterr().out


def test_the_rate_leaves_out_the_micro_batches_that_warm_up(capsys):
    """Five of ten seconds each would make it 118 records per second."""
    said = said_of(capsys, *[10.0] * COLD_BATCHES, 0.5, 0.25, 1.0)

    assert "warm    2,000 records/s: 0.50 s for a micro-batch of 1,000\n" in said
    assert f"(medians of 3 micro-batches, without the first {COLD_BATCHES};" in said


def test_a_short_stream_has_no_rate(capsys):
    """A rate of the warm-up alone would mislead."""
    said = said_of(capsys, *[10.0] * COLD_BATCHES)

    assert "warm    no rate: Spark warms up in the first 5 micro-batches\n" in said
    assert 1 == said.count("records/s")  # the batch's


def test_the_whole_time_and_the_batch_are_told_as_well(capsys):
    """For the reader who looks at the clock."""
    said = said_of(capsys, 10.0)

    assert "stream  50.0 s for 14 days, 1 to a micro-batch, Spark's warm-up included\n" in said
    assert "batch   2.0 s, 6,000 records/s" in said


def test_a_silence_is_known_when_the_watermark_has_passed_it():
    """Which is 1 ms before the last flight: a silence that ends with it is not yet known."""
    end, length = DAYS.end, timedelta(milliseconds=SILENT_AFTER.to_milliseconds())
    silences = [("N1", end - length), ("N2", end - length - timedelta(minutes=1))]

    assert silences[1:] == find_known_silences(silences, end)
