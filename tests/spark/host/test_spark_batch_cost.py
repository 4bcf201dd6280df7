# SPDX-License-Identifier: Apache-2.0
"""What makes micro-batches cheap, where it is decided by us and not by the clock."""

from __future__ import annotations

import pytest
from spark_support import Feed, pickle_by_value

from pyflinklike import KeyedProcessFunction, Types, ValueStateDescriptor
from pyflinklike.spark import key_by
from pyflinklike.spark._plan.session import max_parallelism_for, partitions_of

pickle_by_value(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value.user, self.count.value()


def _compilations(spark):
    return spark._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME().getCount()


@pytest.mark.thorough
@pytest.mark.classic(reason="reads a counter of the JVM")
def test_later_micro_batches_run_the_code_that_the_first_has_compiled(spark, tmp_path):
    """Spark writes literals into the code it compiles: none of ours may change from batch to batch, as the time of the batch does."""
    feed = Feed(spark, tmp_path / "input", "user string, n int")
    feed.add(*([(user, batch) for user in "abcdef"] for batch in range(4)))
    counted = key_by(feed.stream(), "user").process(Count(), "user string, total long")
    compilations = []

    def collect(batch, _):
        batch.collect()
        compilations.append(_compilations(spark))

    writer = counted.writeStream.foreachBatch(collect).trigger(availableNow=True)
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    assert 4 == len(compilations)
    assert compilations[1] == compilations[-1]


@pytest.mark.parametrize(
    ("partitions", "key_groups"),
    [(1, 16), (2, 16), (3, 18), (16, 16), (17, 17), (200, 200), (40_000, 32_768)],
)
def test_key_groups_are_few_and_the_same_number_in_each_partition(spark, partitions, key_groups):
    """Where max_parallelism is not given: the smallest multiple of the partitions that is at least 16."""
    former = spark.conf.get(_PARTITIONS)
    spark.conf.set(_PARTITIONS, str(partitions))
    try:
        assert key_groups == max_parallelism_for(partitions_of(spark))
    finally:
        spark.conf.set(_PARTITIONS, former)
