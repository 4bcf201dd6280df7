# SPDX-License-Identifier: Apache-2.0
"""Streams on PySpark 3.5 as Spark cuts them: key groups of many rows, in many Arrow batches."""

from __future__ import annotations

import pytest
from spark_support import Feed, at, drain, pickle_by_value, rows_of

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark import key_by
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE

pickle_by_value(__name__)

pytestmark = pytest.mark.skipif(HAS_TRANSFORM_WITH_STATE, reason="the host of PySpark 3.5")

ARROW_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
KEYS, TASKS = 40, 5


class Total(KeyedProcessFunction):
    """Shows count and sum of a key at the time that its first record names, and nothing before."""

    def open(self, runtime_context):
        self.total = runtime_context.get_state(
            ValueStateDescriptor("total", Types.LIST(Types.LONG()))
        )

    def process_element(self, value, ctx):
        count, total = self.total.value() or (0, 0)
        if not count:
            ctx.timer_service().register_event_time_timer(10_000 + value.n)
        self.total.update([count + 1, total + value.n])
        return []

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, *self.total.value()


@pytest.fixture
def few_rows(spark):
    """Arrow batches of three rows: what five tasks read for a key group is in two of them."""
    former = spark.conf.get(ARROW_ROWS)
    spark.conf.set(ARROW_ROWS, 3)
    yield
    spark.conf.set(ARROW_ROWS, former)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize("max_parallelism", [1, 16])
def test_rows_of_many_tasks_reach_their_key_group(spark, tmp_path, max_parallelism):
    """Each once, and key groups that have none are woken beside those that have."""
    feed = Feed(spark, tmp_path / "input", "key string, ts timestamp, n long")
    records = [(f"k{number % KEYS}", at(1_000), number % KEYS) for number in range(KEYS * TASKS)]
    feed.add(records, records, [("end", at(20_000), 90_000)], [("end", at(20_000), 90_000)])
    stream = feed.stream().repartition(TASKS)
    result = key_by(stream, "key").process(
        Total(),
        "key string, at long, n long, sum long",
        event_time="ts",
        max_parallelism=max_parallelism,
    )
    found = rows_of(drain(result, tmp_path / "checkpoint"))
    seen = 2 * TASKS
    assert sorted((f"k{n}", 10_000 + n, seen, seen * n) for n in range(KEYS)) == found
