# SPDX-License-Identifier: Apache-2.0
"""`open_state` without Spark: the states and stores of a savepoint, with their own semantics."""

from __future__ import annotations

import os
from collections.abc import Iterable

from pyflinklike.replica.queryable import QueryableState
from pyflinklike.replica.savepoint_source import SavepointSource
from pyflinklike.replica.settings import CACHE_BYTES, Settings
from pyflinklike.savepoints.directory import open_savepoint

__all__ = ["open_state"]


def open_state(
    savepoint: str | os.PathLike[str],
    *,
    states: Iterable[str] | None = None,
    operator: str | None = None,
    clock: str = "batch",
    allow_scan: bool = False,
    allow_pickle: bool = False,
    cache_bytes: int = CACHE_BYTES,
) -> QueryableState:
    """Open states and stores of a savepoint, to read them by key; needs neither Spark nor Java.

    A savepoint stays at its micro-batch; `pyflinklike.spark.open_state` follows a running query.

    Args:
        savepoint: The directory, or its address (such as `s3://...`).
        states: Names of the states and stores that will be asked for; by default all.
        operator: Uid of the operator; may be left out if there is only one.
        clock: The time by which processing-time TTL expires: "batch", the time of the savepoint's
            micro-batch (without a batch nothing has expired), or "wall", the machine's clock.
        allow_scan: Whether `items()`, `all()`, `range()` and the like may read all key groups.
        allow_pickle: Whether values that are pickles may be unpickled, which may run any code.
        cache_bytes: The most bytes that may stay decoded.

    Raises:
        CorruptStateError: There is no savepoint at that place, or it is damaged.
        UnknownStateError: There is no such state or operator.
        DeclarationTypeError, DeclarationValueError: An argument has a wrong type or value.
    """
    options = (clock, allow_scan, allow_pickle, cache_bytes)
    settings = Settings.of(states, None, None, 0, *options)
    source = SavepointSource(open_savepoint(savepoint), operator, settings.states)
    return QueryableState(source, settings)
