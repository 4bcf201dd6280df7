# SPDX-License-Identifier: Apache-2.0
"""Savepoints of streams: out of a checkpoint, and into a new one.

`read_savepoint` reads the logs of all key groups through Spark's `statestore` data
source and merges them; `initial_state` takes a savepoint apart for the key groups
of a new query, which Spark hands to `handleInitialState` in its first batch.
"""

from __future__ import annotations

import os
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.changelog import read_segment
from pyflinklike.errors import HostError
from pyflinklike.group_store import Head
from pyflinklike.pickle_switch import pickle_allowed
from pyflinklike.regrouping import regrouped, timer_domains
from pyflinklike.savepoint import merge, read_log, refuse_pickles
from pyflinklike.spark.batch_time import with_batch_time
from pyflinklike.spark.group_ids import group_ids, index_of
from pyflinklike.spark.group_state import HEAD_AT, LOG_VARIABLE
from pyflinklike.spark.key_groups import KeyGroups
from pyflinklike.spark.packing import KEY_GROUP
from pyflinklike.spark.transform import Plan

__all__ = ["initial_state", "read_savepoint"]


def read_savepoint(
    spark: SparkSession,
    checkpoint_location: str | os.PathLike[str],
    *,
    batch_id: int | None = None,
    operator_id: int = 0,
    allow_pickle: bool = True,
) -> bytes:
    """The state of a streaming query, as `KeyedProcessHarness.snapshot` gives it.

    The query may be running.  Nothing is changed.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint_location: Of the query.
        batch_id: After which micro-batch, as long as Spark retains it
            (`spark.sql.streaming.minBatchesToRetain`); the last committed by default.
        operator_id: Which stateful operator of the query, counted from its sources;
            0 where there is one.
        allow_pickle: Whether the savepoint may hold pickles.  Nothing is unpickled here, but
            whoever restores the savepoint, and declares such a state, will.

    Returns:
        The savepoint: for `process(..., from_savepoint=...)`, or for the `restore` of a
        harness.

    Raises:
        CorruptStateError: A key group's log is damaged or not whole.
        IncompatibleStateError: A state is pickled, and `allow_pickle` is False.
        HostError: Spark cannot read the checkpoint, it has no such batch, or the operator is
            not pyflinklike's; or the savepoint would be larger than 2 GiB.
    """
    allow_pickle = pickle_allowed(allow_pickle)
    location = os.fspath(checkpoint_location)
    place = f"checkpoint {location!r}, operator {operator_id}"
    try:
        operators = spark.read.format("state-metadata").load(location)
        operator = operators.where(F.col("operatorId") == operator_id).first()
    except PySparkException as error:
        raise _unreadable(place, error) from error
    if operator is None:
        msg = (
            f"{place}: a savepoint is read from a stateful operator of a query that has run, got "
            "none there; give the checkpointLocation of the query, and look into Spark's "
            "state-metadata for the operator's id"
        )
        raise HostError(msg)
    properties = operator["operatorProperties"] or ""
    if f'"{LOG_VARIABLE}"' not in properties:
        msg = (
            f"{place}: the operator must be one that process() made, got {operator['operatorName']}"
            "; look into Spark's state-metadata for its id"
        )
        raise HostError(msg)
    batch_id = operator["maxBatchId"] if batch_id is None else batch_id

    reader = spark.read.format("statestore").option("stateVarName", LOG_VARIABLE)
    reader = reader.option("operatorId", operator_id).option("batchId", batch_id)
    columns = (f"key.{KEY_GROUP}", "user_map_key.sequence", "user_map_value.blob")
    try:
        rows: list[dict[str, Any]] = reader.load(location).select(*columns).toArrow().to_pylist()
    except PySparkException as error:
        raise _unreadable(f"{place}, batch {batch_id}", error) from error
    blobs: dict[int, dict[int, bytes]] = {}
    for row in rows:
        blobs.setdefault(row[KEY_GROUP], {})[row["sequence"]] = row["blob"]
    logs = {}
    for group_id, segments in blobs.items():
        head = Head.from_bytes(segments.pop(HEAD_AT, b""), f"{place}, Spark key {group_id}")
        where = f"{place}, key group {index_of(group_id, head.max_parallelism)}"
        logs[where] = read_log(head, segments, where)
    if not allow_pickle:
        refuse_pickles(logs)
    return merge(logs)


def _unreadable(place: str, error: PySparkException) -> HostError:
    return HostError(
        f"{place}: Spark must be able to read its state, got {error}; give the "
        "checkpointLocation of the query and a batch that it retains"
    )


def initial_state(df: DataFrame, plan: Plan, savepoint: bytes) -> Any:
    """A savepoint as Spark takes it for the start of a query: grouped by key group.

    Args:
        df: The stream.
        plan: Of the query.
        savepoint: As `read_savepoint` gives it.

    Returns:
        `GroupedData`, or None where the savepoint is empty.

    Raises:
        CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys
            are not of the key columns' types.
        HostError: It holds timers that the query could not fire.
    """
    spark = df.sparkSession
    key_groups = KeyGroups(
        {column: df.schema[column].dataType for column in plan.reader.key_columns},
        plan.key_type,
        plan.task.max_parallelism,
        plan.reader.time_zone,
    )

    def group_of(keys: list[Any]) -> list[int]:
        return key_groups.of(spark, keys)

    snapshot = read_segment(savepoint, "savepoint")
    max_parallelism = plan.task.max_parallelism
    groups = regrouped(snapshot, plan.key_type, group_of, max_parallelism, "savepoint")
    refused = plan.time_mode.refused_timers()
    for domain in timer_domains(chain.from_iterable(groups.values())) & refused.keys():
        msg = f"the savepoint holds timers that would never fire: {refused[domain]}"
        raise HostError(msg) from refused[domain]
    if not groups:
        return None
    ids = group_ids(plan.task.max_parallelism)
    rows = [(ids[group], each.to_bytes()) for group, mine in groups.items() for each in mine]
    table = pa.table(
        {
            KEY_GROUP: pa.array([group_id for group_id, _ in rows], pa.int32()),
            "payload": pa.array([payload for _, payload in rows], pa.binary()),
        }
    )
    frame = spark.createDataFrame(table, f"{KEY_GROUP} int, payload binary")
    # As for records: without a time mode Spark tells the state operator no time.
    return with_batch_time(frame).groupBy(KEY_GROUP)
