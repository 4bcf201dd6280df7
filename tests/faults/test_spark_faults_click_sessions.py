# SPDX-License-Identifier: Apache-2.0
"""The example of sessions out of order: a stream that is stopped agrees with a loop over all clicks."""

from __future__ import annotations

from example_support import example

from pyflinklike.spark import main_output


def test_sessions_and_late_clicks_are_those_of_the_loop(spark, tmp_path):
    """Over a stop in the middle, no click is lost, counted twice, or late without being told."""
    sessions = example("click_sessions")
    batches = sessions.batches_of(sessions.clicks(60))
    half = len(batches) // 2
    for numbers in (range(half), range(half, len(batches))):
        for number in numbers:
            sessions.write_input(spark, tmp_path, number, batches[number])
        sessions.run(spark, tmp_path)
    over, late = sessions.expected(batches)
    found = sessions.final_sessions(spark, tmp_path)
    dismissed = spark.read.parquet(str(tmp_path / "late")).drop("batch").collect()

    assert over == found
    assert sorted(click[:3] for click in late) == sorted(map(tuple, dismissed))
    assert sum(map(len, batches)) - 1 == sum(row[3] for row in found) + len(dismissed)


def test_a_batch_of_all_clicks_has_no_late_ones(spark, tmp_path):
    """Its sessions are those of the loop over one micro-batch; the last click ends them there."""
    sessions = example("click_sessions")
    made = sessions.clicks(30)
    sessions.write_input(spark, tmp_path, 0, made)
    bounded = spark.read.schema(sessions.SCHEMA).parquet(str(tmp_path / "clicks" / "00"))
    rows = main_output(sessions.sessions_of(bounded)).drop("window_time").collect()
    over, late = sessions.expected([made])

    assert ([], over) == (late, {tuple(row) for row in rows if row.user != "nobody"})
