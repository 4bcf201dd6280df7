# SPDX-License-Identifier: Apache-2.0
"""Savepoints that are refused, and checkpoints that cannot be read."""

from __future__ import annotations

import pytest
from spark_savepoints import Sum, sums
from spark_support import Feed, at, bounded, drain, pickle_by_value, reads_state

from pyflinklike import Row
from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    SparkSetupError,
    UnknownBatchError,
    UnknownStateError,
)
from pyflinklike.spark import key_by
from pyflinklike.state_processor import read_savepoint
from pyflinklike.testing import KeyedProcessHarness

pickle_by_value(__name__)


def test_what_is_no_savepoint_is_refused(spark, tmp_path):
    """When the query is made."""
    stream = Feed(spark, tmp_path, "key string, n int").stream()
    batch = bounded(spark, [("a", 1)], "key string, n int")
    blob = sums("a").snapshot()

    def begin(df, savepoint):
        key_by(df, "key").process(Sum(), "key string, n long", from_savepoint=savepoint)

    with pytest.raises(DeclarationTypeError, match="savepoint"):
        begin(stream, 3)
    with pytest.raises(CorruptStateError, match=r"_manifest\.json"):
        begin(stream, str(tmp_path))
    with pytest.raises(CorruptStateError, match="savepoint: "):
        begin(stream, blob[:-1])
    with pytest.raises(DeclarationValueError, match="batch DataFrame"):
        begin(batch, blob)


class Timed(Sum):
    """Registers a timer of either domain."""

    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        if value.n:
            timers.register_event_time_timer(value.n)
        else:
            timers.register_processing_time_timer(1)


@pytest.mark.parametrize(("n", "remedy"), [(1, "event_time="), (0, "processing_time_timers=True")])
def test_timers_that_would_never_fire_are_refused(spark, tmp_path, n, remedy):
    """When the query is made, with what makes them fire."""
    timed = KeyedProcessHarness(Timed(), key_selector=lambda value: value.key)
    timed.process_element(Row(key="a", n=n))
    stream = Feed(spark, tmp_path, "key string, n int").stream()
    with pytest.raises(SparkSetupError, match=remedy):
        key_by(stream, "key").process(Sum(), "key string, n long", from_savepoint=timed.snapshot())


@reads_state
def test_what_cannot_be_read_is_a_clear_error(spark, tmp_path):
    """No checkpoint, another operator, another batch, an operator that is not ours."""
    with pytest.raises(SparkSetupError, match="query that has run"):
        read_savepoint(spark, tmp_path / "nothing")

    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n int")
    feed.add([("a", at(1), 1)])
    drain(
        feed.stream().withWatermark("ts", "0 seconds").dropDuplicates(["key"]), tmp_path / "other"
    )
    with pytest.raises(UnknownStateError, match=r"one that process\(\) made"):
        read_savepoint(spark, tmp_path / "other")
    drain(
        key_by(feed.stream(), "key").process(Sum(), "key string, n long", max_parallelism=2),
        tmp_path / "ours",
    )
    with pytest.raises(UnknownStateError, match=r"got 1; there are \['0'\]"):
        read_savepoint(spark, tmp_path / "ours", operator_id=1)
    with pytest.raises(UnknownBatchError, match="its batches are 0 to 0, got 7"):
        read_savepoint(spark, tmp_path / "ours", batch_id=7)
