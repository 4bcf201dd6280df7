# SPDX-License-Identifier: Apache-2.0
"""The opening of a replica of a running query."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from pyspark.sql import SparkSession

from pyflinklike.clock import DurationLike
from pyflinklike.replica.held import Part
from pyflinklike.replica.queryable import QueryableState
from pyflinklike.replica.settings import CACHE_BYTES, Settings
from pyflinklike.spark.following.source import CheckpointSource
from pyflinklike.spark.reading.checkpoint import location_of
from pyflinklike.spark.reading.states import Location, one_operator

__all__ = ["open_state"]

_TIMEOUT = timedelta(seconds=10)


def open_state(
    spark: SparkSession,
    checkpoint: Location,
    *,
    states: Iterable[str] | None = None,
    operator: int | str = 0,
    keys: Iterable[Any] | None = None,
    key_groups: Iterable[int] | None = None,
    refresh: DurationLike | None = timedelta(seconds=1),
    max_age: DurationLike | None = None,
    timeout: DurationLike = _TIMEOUT,
    clock: str = "batch",
    allow_scan: bool = False,
    allow_pickle: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> QueryableState:
    """Open a replica of a query's state, which follows its micro-batches and answers by key.

    The query may be running, in this process or another.  The logs of all its key groups are read
    once, and after that only the writes of micro-batches.  A key group is decoded when it is first
    asked for.  Each answer is of one committed micro-batch, which `position` names.  If the writes
    cannot be followed, because the batch was purged or the query went back to an earlier one,
    everything is read anew; `metrics.reopens` counts this.

        with open_state(spark, "/checkpoints/visits", states=["pages"]) as state:
            state["pages"].get("ann")

    `pyflinklike.replica.open_state` does the same with a savepoint, without Spark.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        states: The names of the states and stores that will be asked for; by default all.
        operator: Spark's number of the stateful operator, or its uid.
        keys: The keys that will be asked for, as tuples if there are several key columns; only
            their key groups are fetched and held.  By default all.
        key_groups: The indices of the key groups to fetch and hold; `items()` and stores of scope
            "partition" show only these.  By default all.
        refresh: The time between two looks for newer batches, in a thread: a timedelta, or an int
            of ms.  With None only `refresh()` or a bound of a read looks for them.
        max_age: The age beyond which an answer is refused: the time since the replica last knew
            that there was no newer batch, if looking for one fails.  By default any age is
            accepted.
        timeout: The time that a read with `at_least_batch` waits if it gives no timeout itself.
        clock: The clock of processing-time TTL: "batch", the clock of the batch, or "wall".
        allow_scan: Whether `items()`, `all()`, `range()` and the like may read all key groups.
        allow_pickle: Whether pickled values may be unpickled, which may run any code.
        cache_bytes: The limit of decoded state in bytes; the logs are held besides.

    Raises:
        UnknownStateError: There is no such state or operator.
        CorruptStateError: The checkpoint is damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
        StateValueError: A key cannot be a value of the key columns.
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
    """
    options = (clock, allow_scan, allow_pickle, cache_bytes)
    settings = Settings.of(states, refresh, max_age, timeout, *options)
    part = Part.of(keys, key_groups)
    source = CheckpointSource(spark, location_of(checkpoint), one_operator(operator), part)
    return QueryableState(source, settings)
