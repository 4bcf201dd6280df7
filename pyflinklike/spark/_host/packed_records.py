# SPDX-License-Identifier: Apache-2.0
"""The first stage of a stream, which packs the records of each key group into payloads.

Spark hands a stateful operator the rows of each grouping key as pandas or Arrow batches of their own.
If there are many keys with one row each, that costs more than the function.  So a stage before the
shuffle packs the records of a key group into few rows, and the host unpacks them.
https://github.com/apache/spark/blob/master/python/pyspark/sql/pandas/map_ops.py shows how Spark
calls `mapInArrow`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from pyflinklike.spark._host.collector_freeze import with_imports_frozen
from pyflinklike.spark._host.worker_errors import tell_errors_of_each
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.payloads import (
    PACKED_SCHEMA,
    Packing,
    call_homes,
    partitions_of_state,
)
from pyflinklike.spark._wire.record_readers import Reader

__all__ = ["make_packing_of", "pack_records"]


def pack_records(keyed: DataFrame, plan: Plan) -> DataFrame:
    """Pack records into payloads by grouping key, and add those for homes and the registry.

    Args:
        keyed: The records, with the key group of each in a first column.
        plan: The plan of the query.
    """
    packing = with_imports_frozen(tell_errors_of_each(make_packing_of(plan)))
    return keyed.mapInArrow(packing, PACKED_SCHEMA.ddl)


def make_packing_of(plan: Plan) -> Packing:
    """Return the function that packs an operator's records, in one task of the first stage."""
    groups = plan.task.max_parallelism
    packing = plan.reader.make_packing(group_ids(groups))
    if plan.key_groups is not None:
        packing = _make_packing(plan.reader, groups, plan.key_groups)
    if plan.keeps_former_watermark():
        packing = call_homes(packing, plan.task.parallelism)
    return packing


def _make_packing(reader: Reader, count: int, key_groups: Callable[[int], int]) -> Packing:
    """Make the packing for the number of key groups that the checkpoint was begun with.

    Args:
        reader: The reader of the operator, which makes the packing.
        count: The number of key groups if Spark does not show the partitions of the state.
        key_groups: Returns the number of key groups for a number of partitions.
    """

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partitions = partitions_of_state(TaskContext.get())
        groups = count if partitions is None else key_groups(partitions)
        yield from reader.make_packing(group_ids(groups))(batches)

    return packed
