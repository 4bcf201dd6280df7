# SPDX-License-Identifier: Apache-2.0
"""What makes micro-batches cheap, where it is decided by us and not by the clock."""

from __future__ import annotations

import pytest
from spark_support import pickle_by_value

from pyflinklike.spark._plan.session import max_parallelism_for, partitions_of

pickle_by_value(__name__)

_PARTITIONS = "spark.sql.shuffle.partitions"


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
