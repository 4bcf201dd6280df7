# SPDX-License-Identifier: Apache-2.0
"""Homes: one grouping key in each of Spark's partitions that is no key group.

A home is called in every micro-batch, also in one without data.  It keeps the state that all key
groups of a partition share.  An operator behind another one needs the watermark of the micro-batch
before, and Spark tells it to nobody.  A key group cannot keep that watermark, since it may not
have been called in that micro-batch.

Spark calls the grouping keys of a partition in ascending order.  The grouping keys of homes are
below all others, so a home is called first.

A home must lie in its partition, and the hash of a grouping key decides its partition.  So the
grouping keys of homes depend on the number of partitions.  The checkpoint fixes that number,
whatever the session is set to at a restart, and Spark tells it to its tasks.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from functools import lru_cache

import pyarrow as pa
from pyspark import TaskContext

from pyflinklike.errors import HostError
from pyflinklike.spark.wire.balanced_ids import index_of
from pyflinklike.spark.wire.packing import Packing, packed_rows
from pyflinklike.spark.wire.roll_call import ROLL_CALL

__all__ = ["calling_homes", "home_ids", "is_home", "partitions_of_state", "refuse_foreign_home"]

_PARTITION = struct.Struct("<i")
_OF_STATE = "spark.sql.streaming.internal.stateStore.partitions"
"""The number of partitions of a query's state as its checkpoint has it; from Spark 4.1 on."""
_OF_SESSION = "spark.sql.shuffle.partitions"
"""The same as its session has it: a `foreachBatch` may set that for its own joins."""


def is_home(grouping_key: int) -> bool:
    """Return whether a grouping key is that of a home."""
    return grouping_key < ROLL_CALL


@lru_cache(maxsize=4)
def home_ids(partitions: int) -> tuple[int, ...]:
    """Find the grouping key of the home of each partition."""
    found: dict[int, int] = {}
    candidate = ROLL_CALL
    while len(found) < partitions:
        candidate -= 1
        found.setdefault(index_of(candidate, partitions), candidate)
    return tuple(found[partition] for partition in range(partitions))


def calling_homes(packing: Packing, default: int) -> Packing:
    """Extend a packing so that the first task also calls every home.

    Args:
        packing: Packs the records of a task.
        default: The number of partitions to use if Spark does not tell its tasks.
    """

    def called(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from packing(batches)
        yield from _calls(default)

    return called


def _calls(default: int) -> Iterator[pa.RecordBatch]:
    context = TaskContext.get()
    # One task suffices, and the first one is there in every micro-batch.
    if context is None or context.partitionId() == 0:
        ids = home_ids(_partitions(context, default))
        yield packed_rows((key, _PARTITION.pack(at)) for at, key in enumerate(ids))


def _partitions(context: TaskContext | None, default: int) -> int:
    return partitions_of_state(context) or _told(context, _OF_SESSION) or default


def partitions_of_state(context: TaskContext | None) -> int | None:
    """The number of partitions that a query's checkpoint was begun with, or None if Spark does not tell.

    Args:
        context: Of a task of the query; None where no task runs.
    """
    return _told(context, _OF_STATE)


def _told(context: TaskContext | None, name: str) -> int | None:
    told = context.getLocalProperty(name) if context else None
    return int(told) if told and told.isdigit() else None


def refuse_foreign_home(payloads: Iterable[bytes]) -> None:
    """Check that a home was called in its own partition.

    Args:
        payloads: The payloads with which the home was called.

    Raises:
        HostError: The home was called in another partition.
    """
    context = TaskContext.get()
    homes = {_PARTITION.unpack(payload)[0] for payload in payloads}
    if context is not None and homes != {context.partitionId()}:
        msg = (
            "an operator behind another one keeps the former watermark in each of Spark's "
            f"partitions, got that of {sorted(homes)} in partition {context.partitionId()}; set "
            "spark.sql.shuffle.partitions to the number that the checkpoint was begun with"
        )
        raise HostError(msg)
