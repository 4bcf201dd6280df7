# SPDX-License-Identifier: Apache-2.0
"""How a stream on PySpark 3.5 begins with a savepoint: `applyInPandasWithState` takes no state.

The first micro-batch of a checkpoint has number 0, also if it is tried again.  In it, and only in
it, the savepoint's parts travel among the payloads of the stream's own records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from pyflinklike.errors import HostError
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.packing import PACKED_TYPE

__all__ = ["begun", "check_began", "is_initial"]

_FIRST_INITIAL = -2
"""Places among the arrivals, downwards; -1 is the roll call's own."""
_BATCH_ID = "streaming.sql.batchId"


def begun(packed: DataFrame, initial: list[tuple[int, bytes]]) -> DataFrame:
    """Payloads, and in the first micro-batch what the state begins with before them.

    Args:
        packed: The stream's payloads.
        initial: Grouping keys with roll call or segment.

    Raises:
        HostError: The session is one of Spark Connect.
    """
    try:
        context = packed.sparkSession.sparkContext
    except (AttributeError, NotImplementedError) as error:
        msg = (
            "on PySpark 3.5 a stream begins with a savepoint in a classic session, got one of "
            "Spark Connect; start it in a classic session, or use PySpark 4"
        )
        raise HostError(msg) from error
    # Read by one task of one batch, and else not even unpickled.
    return packed.mapInArrow(_with_initial(context.broadcast(initial)), PACKED_TYPE)


def is_initial(origin: int) -> bool:
    """Whether a row is of the savepoint, by its place among the arrivals."""
    return origin <= _FIRST_INITIAL


def check_began(*, is_new: bool) -> None:
    """See that a checkpoint did not come past its first micro-batch without the savepoint.

    Args:
        is_new: Whether nothing is stored yet.

    Raises:
        HostError: It did.
    """
    if is_new and _batch_id() != 0:
        msg = (
            "a stream begins with its savepoint in the first micro-batch of its checkpoint, got "
            f"micro-batch {_batch_id()} and no state yet, for the first one had no partitions; "
            "start again with a new checkpoint when the source has data"
        )
        raise HostError(msg)


def _with_initial(rows: Any) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def with_initial(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0 and _batch_id() == 0:
            for at, (number, payload) in enumerate(rows.value):
                yield _row(number, _FIRST_INITIAL - at, payload)
        yield from batches

    return with_initial


def _row(number: int, origin: int, payload: bytes) -> pa.RecordBatch:
    columns = {
        KEY_GROUP: pa.array([number], pa.int32()),
        "origin": pa.array([origin], pa.int64()),
        "payload": pa.array([payload], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(columns)


def _batch_id() -> int | None:
    context = TaskContext.get()
    number = context.getLocalProperty(_BATCH_ID) if context else None
    return None if number is None else int(number)
