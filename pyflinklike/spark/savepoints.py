# SPDX-License-Identifier: Apache-2.0
"""Savepoints of streams: reads one from a checkpoint, and starts a new query with one.

`read_savepoint` merges the logs of all key groups.  `initial_rows` splits a savepoint by the key
groups of a new query; the host sees to it that each gets its parts in the first batch.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyflinklike.errors import CorruptStateError, HostError
from pyflinklike.log.checkpoint_logs import checked_logs, record_and_roll
from pyflinklike.log.regrouping import regrouped, timer_domains
from pyflinklike.log.savepoint import merge, refuse_pickles
from pyflinklike.log.segments import Segment, read_segment
from pyflinklike.log.storage import Head
from pyflinklike.spark.hosts.log_storage import HEAD_AT
from pyflinklike.spark.reading.sources import last_batch, read_blobs
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.balanced_ids import group_ids, index_of
from pyflinklike.spark.wire.homes import is_home
from pyflinklike.spark.wire.key_hash import KeyGroupFinder
from pyflinklike.spark.wire.places import place_of
from pyflinklike.spark.wire.roll_call import ROLL_CALL, roll_payload
from pyflinklike.types.pickle_switch import pickle_allowed

__all__ = ["initial_rows", "read_savepoint", "savepoint_of"]


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
        batch_id: The micro-batch after which the state is read, as long as Spark retains it
            (`spark.sql.streaming.minBatchesToRetain`); by default the last committed one.
        operator_id: Which stateful operator of the query, counted from its sources;
            0 if there is only one.
        allow_pickle: Whether the savepoint may hold pickles.  Nothing is unpickled here, but a
            program that restores the savepoint and declares such a state will do so.

    Returns:
        The savepoint: for `process(..., from_savepoint=...)`, or for the `restore` of a
        harness.

    Raises:
        CorruptStateError: A key group's log is damaged, incomplete, or not the one that the
            operator's record names; or a key group is missing.
        IncompatibleStateError: A state is pickled, and `allow_pickle` is False.
        HostError: Spark cannot read the checkpoint, it has no such batch or no committed one,
            the operator is not pyflinklike's, or the savepoint would be larger than 2 GiB.
    """
    allow_pickle = pickle_allowed(allow_pickle)
    location = os.fspath(checkpoint_location)
    place = f"checkpoint {location!r}, operator {operator_id}"
    last = last_batch(spark, location, operator_id, place)
    batch_id = last if batch_id is None else batch_id
    where = f"{place}, batch {batch_id}"
    blobs = read_blobs(spark, location, operator_id, batch_id, where)
    return savepoint_of(blobs, where, allow_pickle=allow_pickle)


def savepoint_of(
    blobs: Mapping[int, Mapping[int, bytes]], where: str, *, allow_pickle: bool = True
) -> bytes:
    """The savepoint of everything that an operator has stored.

    Args:
        blobs: By grouping key, then by sequence number.
        where: Which operator, for messages.
        allow_pickle: Whether it may hold pickled state.

    Raises:
        CorruptStateError: Something is damaged, missing, or does not belong to the operator.
        IncompatibleStateError: A state is pickled, and `allow_pickle` is False.
        HostError: The savepoint would be larger than 2 GiB.
    """
    record, roll = record_and_roll(blobs.get(ROLL_CALL, {}), where)
    max_parallelism = record.identity.max_parallelism
    groups = {}
    for group_id in blobs.keys() - {ROLL_CALL}:
        if is_home(group_id):
            continue  # what is kept there is of no use to another query
        index = index_of(group_id, max_parallelism)
        if group_id != group_ids(max_parallelism, place_of(group_id))[index]:
            msg = f"{where}: state must be under the numbers of key groups, got {group_id}"
            raise CorruptStateError(f"{msg}; go back to a checkpoint")
        head = Head.from_bytes(blobs[group_id].get(HEAD_AT, b""), f"{where}, key group {index}")
        groups[index] = (head, blobs[group_id])
    logs = checked_logs(record, roll, groups, where)
    if not allow_pickle:
        refuse_pickles(logs)
    return merge(logs)


def initial_rows(df: DataFrame, plan: Plan, savepoint: bytes) -> list[tuple[int, bytes]] | None:
    """A savepoint as rows for the start of a query.

    Args:
        df: The stream.
        plan: Of the query.
        savepoint: As `read_savepoint` gives it.

    Returns:
        Grouping keys with what is for each: the roll call's, then the segments of key groups;
        None if the savepoint is empty.

    Raises:
        CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys
            do not have the key columns' types.
        HostError: It holds timers that the query could not fire.
    """
    groups = _regrouped(df, plan, read_segment(savepoint, "savepoint"))
    refused = plan.time_mode.refused_timers()
    for domain in timer_domains(chain.from_iterable(groups.values())) & refused.keys():
        msg = f"the savepoint holds timers that would never fire: {refused[domain]}"
        raise HostError(msg) from refused[domain]
    if not groups:
        return None
    ids = group_ids(plan.task.max_parallelism)
    rows = [(ids[group], each.to_bytes()) for group, mine in groups.items() for each in mine]
    return [(ROLL_CALL, roll_payload(groups)), *rows]


def _regrouped(df: DataFrame, plan: Plan, snapshot: Segment) -> dict[int, list[Segment]]:
    """The savepoint's entries by the key groups that their keys are in now."""
    key_groups = KeyGroupFinder(
        {column: df.schema[column].dataType for column in plan.reader.key_columns},
        plan.key_type,
        plan.task.max_parallelism,
        plan.reader.time_zone,
    )

    def group_of(keys: list[Any]) -> list[int]:
        return key_groups.of(df.sparkSession, keys)

    return regrouped(snapshot, plan.key_type, group_of, plan.task.max_parallelism, "savepoint")
