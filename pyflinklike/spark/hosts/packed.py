# SPDX-License-Identifier: Apache-2.0
"""The first Python stage of a stream: the records of each key group become payloads."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pyflinklike.spark.hosts.cycle_collector import with_imports_frozen
from pyflinklike.spark.hosts.telling import telling_each
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.balanced_ids import group_ids
from pyflinklike.spark.wire.homes import calling_homes
from pyflinklike.spark.wire.packing import PACKED_TYPE

__all__ = ["packed"]


def packed(keyed: DataFrame, plan: Plan) -> DataFrame:
    """Payloads by grouping key (`wire.packing`), those of homes, and the roll call's.

    Args:
        keyed: The records, with the key group of each in a first column.
        plan: Of the query.
    """
    packing = plan.reader.packing(group_ids(plan.task.max_parallelism))
    if plan.keeps_former_watermark():
        packing = calling_homes(packing, plan.task.parallelism)
    return keyed.mapInArrow(with_imports_frozen(telling_each(packing)), PACKED_TYPE)
