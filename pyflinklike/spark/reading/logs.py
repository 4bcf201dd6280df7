# SPDX-License-Identifier: Apache-2.0
"""The log of a state, as DataFrames of its segments and heads."""

from __future__ import annotations

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyflinklike.replay.segment_rows import SegmentsReader
from pyflinklike.spark.reading.checkpoint import checkpoint_states, location_of
from pyflinklike.spark.reading.jobs import frame_of_groups, spark_schema
from pyflinklike.spark.reading.states import Location, one_operator
from pyflinklike.spark.wire.arrow_frames import frame_of

__all__ = ["read_heads", "read_segments"]


def read_segments(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
) -> DataFrame:
    """Read the log of an operator: a row for each segment from which its state is restored.

    Columns: `key_group`; `place`, the position in the log from 0; `nonce` and `parent`, which is
    null if the segment needs no other one; `is_snapshot`; `bytes` before compression; `entries`
    and `entry_bytes` by table, older writes of an entry included.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        batch_id: The micro-batch after which the log is read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, roll or heads are damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = checkpoint_states(spark, location_of(checkpoint), one_operator(operator), batch_id)
    return frame_of_groups(found, SegmentsReader())


_HEADS = pa.schema(
    [
        pa.field("key_group", pa.int32()),
        *(
            pa.field(name, pa.int64())
            for name in (
                *("log_bytes", "log_entries", "snapshot_bytes", "snapshot_entries"),
                *("compacted_at", "wake_at", "sweep_at", "served_at"),
            )
        ),
    ]
)


def read_heads(
    spark: SparkSession,
    checkpoint: Location,
    *,
    batch_id: int | None = None,
    operator: int | str = 0,
) -> DataFrame:
    """Read the head of each key group: a row each, without a look at the segments.

    Columns: `key_group`; `log_bytes` and `log_entries` of the segments that count,
    `snapshot_bytes` and `snapshot_entries` of the last compaction; and in ms `compacted_at`,
    `wake_at` (when the group is called without records), `sweep_at` (when expired entries are
    looked for) and `served_at` (when the group last had records).

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        batch_id: The micro-batch after which the heads are read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.

    Raises:
        UnknownStateError: There is no such operator.
        UnknownBatchError: The batch is not, or no longer, there.
        CorruptStateError: The operator's record, roll or heads are damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = checkpoint_states(spark, location_of(checkpoint), one_operator(operator), batch_id)
    rows = [
        {"key_group": index, **attrs.asdict(head)} for index, head in sorted(found.heads.items())
    ]
    table = pa.Table.from_pylist(rows, _HEADS)
    return frame_of(spark, table, spark_schema(_HEADS))
