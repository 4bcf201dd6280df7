# SPDX-License-Identifier: Apache-2.0
"""All states of each key in one row."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from pyflinklike.errors import DeclarationValueError
from pyflinklike.replay.described import described, state_of
from pyflinklike.replay.keyed_rows import KeyedReader
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.replay.rows import StateRows
from pyflinklike.spark.reading.checkpoint import checkpoint_states, location_of
from pyflinklike.spark.reading.differences import STATE_COLUMN
from pyflinklike.spark.reading.jobs import frame_of_groups
from pyflinklike.spark.reading.keys import wanted_keys
from pyflinklike.spark.reading.states import Location, clock_at, one_operator

__all__ = ["read_keyed_state"]


def read_keyed_state(
    spark: SparkSession,
    checkpoint: Location,
    *,
    states: Iterable[str] | None = None,
    batch_id: int | None = None,
    operator: int | str = 0,
    keys: Iterable[Any] | None = None,
    now: datetime | int | None = None,
) -> DataFrame:
    """Read the state of each key as one row: key columns, a column for each state, `key_group`.

    A column of a state holds the value.  Of a list it is an array in the order of the list, of a
    map it is a map; of a store or of state of windows it is an array of structs with the columns
    of `read_state`.  It is null if the key has nothing.  Expired entries are left out.  All states
    of a key lie in one key group, so nothing is shuffled.  A state with the name of a key column
    gets the prefix `state_`.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query, which may be running.
        states: The names of the states and stores; by default all that belong to keys.
        batch_id: The micro-batch after which state is read; by default the last committed one.
        operator: Spark's number of the stateful operator, or its uid.
        keys: The keys to read, as tuples if there are several key columns; by default all.
        now: The time by which entries are expired, in ms or as a datetime (in UTC if it has no
            zone); by default the clock of the batch.

    Raises:
        UnknownStateError: There is no such state or operator.
        DeclarationValueError: A state belongs to no key, or no state belongs to keys.
        UnknownBatchError: The batch is not, or no longer, there.
        StateValueError: A key cannot be a value of the key columns.
        CorruptStateError: The operator's record, roll or heads are damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
    """
    (found,) = checkpoint_states(spark, location_of(checkpoint), one_operator(operator), batch_id)
    infos = described(found.record, found.operator_id)
    names = [info.name for info in infos if info.key_type] if states is None else list(states)
    chosen = [state_of(infos, name, found.where) for name in names]
    shared = [info.name for info in chosen if info.key_type is None]
    if shared or not chosen:
        msg = f"{found.where}: read_keyed_state gives state that belongs to keys, got {shared or names}"
        raise DeclarationValueError(f"{msg}; use read_state() for other state")
    wanted = None if keys is None else wanted_keys(spark, found.record, keys)
    reader = KeyedReader(
        tuple(StateRows.of(found.record, info) for info in chosen),
        KeyColumns.of(found.record),
        found.clock() if now is None else clock_at(now),
        None if wanted is None else wanted.stored,
    )
    frame = frame_of_groups(found, reader, None if wanted is None else wanted.groups)
    for field in reader.schema.names[len(reader.keys.names) : -1]:
        frame = frame.withMetadata(field, {STATE_COLUMN: True})
    return frame
