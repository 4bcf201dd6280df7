# SPDX-License-Identifier: Apache-2.0
"""Where Spark puts key groups."""

from collections import Counter

import pytest
from pyspark.sql import functions as F

from pyflinklike.spark._wire.key_groups import group_ids


@pytest.mark.parametrize("partitions", [2, 8, 16])
def test_partitions_get_equal_shares(spark, partitions):
    """Computed by Spark itself, for numbers of partitions that divide that of key groups."""
    frame = spark.createDataFrame([(each,) for each in group_ids(128)], "id int")
    placed = frame.repartition(partitions, "id").select(F.spark_partition_id())

    assert [128 // partitions] * partitions == list(
        Counter(row[0] for row in placed.collect()).values()
    )
