# SPDX-License-Identifier: Apache-2.0
"""The first Python stage of a stream: the records of each key group become payloads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from pyflinklike.spark.hosts.cycle_collector import with_imports_frozen
from pyflinklike.spark.hosts.telling import telling_each
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.balanced_ids import group_ids
from pyflinklike.spark.wire.homes import calling_homes, partitions_of_state
from pyflinklike.spark.wire.packing import PACKED_TYPE, Packing
from pyflinklike.spark.wire.reader import Reader

__all__ = ["packed"]


def packed(keyed: DataFrame, plan: Plan) -> DataFrame:
    """Payloads by grouping key (`wire.packing`), those of homes, and the roll call's.

    Args:
        keyed: The records, with the key group of each in a first column.
        plan: Of the query.
    """
    groups = plan.task.max_parallelism
    packing = plan.reader.packing(group_ids(groups))
    if plan.key_groups is not None:
        packing = _packing_as_begun(plan.reader, groups, plan.key_groups)
    if plan.keeps_former_watermark():
        packing = calling_homes(packing, plan.task.parallelism)
    return keyed.mapInArrow(with_imports_frozen(telling_each(packing)), PACKED_TYPE)


def _packing_as_begun(reader: Reader, count: int, key_groups: Callable[[int], int]) -> Packing:
    """What packs records for as many key groups as the checkpoint was begun with.

    Args:
        reader: Of the records.
        count: How many key groups there are where Spark does not tell the partitions.
        key_groups: How many there are for a number of partitions.
    """

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partitions = partitions_of_state(TaskContext.get())
        groups = count if partitions is None else key_groups(partitions)
        yield from reader.packing(group_ids(groups))(batches)

    return packed
