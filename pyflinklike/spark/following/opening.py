# SPDX-License-Identifier: Apache-2.0
"""`open_state`: a replica of what a running query keeps."""

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
    """A replica of what a query keeps, which follows its micro-batches and is asked by key.

    The query may be running, in this process or another.  The logs of all its key groups are read
    once, and then only what micro-batches have written; a key group is decoded when it is first
    asked for.  Each answer is of one micro-batch that was committed, and `position` says of which.
    Where what came since cannot be followed (the batch was purged, or the query went back to an
    earlier one) all is read anew; `metrics.reopens` counts it.

        with open_state(spark, "/checkpoints/visits", states=["pages"]) as state:
            state["pages"].get("ann")

    `pyflinklike.replica.open_state` does the same with a savepoint, without Spark.

    Args:
        spark: Any session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.
        states: Names of the states and stores that will be asked for; by default all.
        operator: Spark's number of the stateful operator, or its uid.
        keys: Only these will be asked for, and only their key groups are fetched and held; of
            several key columns as tuples.  By default all.
        key_groups: Only these key groups are fetched and held, by index: `items()`, and stores of
            scope "partition", are of these.  By default all.
        refresh: How often to look for newer batches, in a thread: a timedelta, or an int of ms.
            None only looks where `refresh()` or a bound asks for it.
        max_age: An answer is refused if it is longer ago that no newer batch was found, and looking
            for one fails.  By default any age does.
        timeout: How long a read with `at_least_batch` waits where it does not say.
        clock: What processing-time TTL goes by: "batch", the clock of the batch, or "wall".
        allow_scan: Whether `items()`, `all()`, `range()` and the like may read all key groups.
        allow_pickle: Whether values that are pickles may be unpickled, which may run any code.
        cache_bytes: How much may stay decoded, in bytes.  The logs themselves are held besides.

    Raises:
        UnknownStateError: There is no such state or operator.
        CorruptStateError: The checkpoint is damaged.
        HostError: Spark cannot read the checkpoint, or no batch is committed yet.
        StateValueError: A key cannot be a value of the key columns.
        DeclarationTypeError, DeclarationValueError: An argument does not do.
    """
    options = (clock, allow_scan, allow_pickle, cache_bytes)
    settings = Settings.of(states, refresh, max_age, timeout, *options)
    part = Part.of(keys, key_groups)
    source = CheckpointSource(spark, location_of(checkpoint), one_operator(operator), part)
    return QueryableState(source, settings)
