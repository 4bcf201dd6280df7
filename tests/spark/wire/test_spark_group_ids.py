# SPDX-License-Identifier: Apache-2.0
"""Key groups are spread evenly over Spark's partitions."""

from collections import Counter

import pytest
from pyspark.sql import functions as F

from pyflinklike.spark._wire.key_groups import group_ids, index_of


@pytest.mark.parametrize("max_parallelism", [1, 2, 6, 100, 128])
def test_each_key_group_has_a_number_of_its_own(max_parallelism):
    """And a number tells its key group."""
    ids = group_ids(max_parallelism)

    assert list(range(max_parallelism)) == [index_of(each, max_parallelism) for each in ids]
    assert max_parallelism == len(set(ids))


@pytest.mark.parametrize("partitions", [2, 8, 16])
def test_partitions_get_equal_shares(spark, partitions):
    """Computed by Spark itself, for numbers of partitions that divide that of key groups."""
    frame = spark.createDataFrame([(each,) for each in group_ids(128)], "id int")
    placed = frame.repartition(partitions, "id").select(F.spark_partition_id())

    assert [128 // partitions] * partitions == list(
        Counter(row[0] for row in placed.collect()).values()
    )
