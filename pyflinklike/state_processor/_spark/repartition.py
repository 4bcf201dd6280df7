# SPDX-License-Identifier: Apache-2.0
"""Changes the number of a checkpoint's partitions in place, by Spark's offline repartition.

Spark hashes a grouping key to its partition, so key groups move whole and no entry is rewritten.
The grouping keys of partition watermarks depend on the number of partitions.  So the partition
watermarks of chained operators begin anew: in the first micro-batch no record is late for them.
"""

from __future__ import annotations

import os
from typing import Any

from pyspark import __version__
from pyspark.sql import SparkSession

from pyflinklike._checks import is_int
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.spark._plan.session import prepare_session
from pyflinklike.state_processor._checkpoints.checkpoint import (
    checkpoint_states,
    clone_in_format_of,
    location_of,
    query_id_of,
    refuse_errors,
)


def repartition_state(
    spark: SparkSession, checkpoint: str | os.PathLike[str], partitions: int
) -> None:
    """Spread the state of a stopped query over another number of Spark's partitions, in place.

    The checkpoint gets one more micro-batch, which reads no input.  At its next start the query
    goes on from this micro-batch.  It must keep its `max_parallelism`: pass it to `process()`,
    since the default follows the number of partitions.  All stateful operators of the query
    are repartitioned.  After an interruption Spark refuses to start the query until
    `repartition_state` is called again with the same number.

    This is Spark's offline repartition, which needs PySpark 4.2 or newer and does not work over
    Spark Connect.  Otherwise begin a new checkpoint: `take_savepoint` and
    `process(..., from_savepoint=path)`.

    Args:
        spark: A session that reaches the checkpoint.
        checkpoint: The checkpointLocation of the query.  The query must not run; this call notices
            it only if it runs in this session.
        partitions: The new number of partitions, at most the number of key groups
            (`max_parallelism`), since more partitions would be idle.

    Raises:
        DeclarationTypeError, DeclarationValueError: The number of partitions is wrong.
        SparkSetupError: This Spark has no offline repartition, the query runs, its last batch was not
            committed, or it has that many partitions already.
        UnknownStateError: The query has no operator that `process` made.
        CorruptStateError: An operator's record, registry or head is damaged.
    """
    location = location_of(checkpoint, spark)
    if not is_int(partitions):
        msg = f"repartition_state takes a number of partitions, got {short_repr(partitions)}"
        raise DeclarationTypeError(f"{msg}; give an int")
    manager = _manager(spark, location)
    _refuse_running(spark, location)
    states = checkpoint_states(spark, location, None, None)
    groups = min(each.max_parallelism for each in states)
    if not 1 <= partitions <= groups:
        msg = f"partitions must be 1 to {groups}, the number of key groups, got {partitions}"
        raise DeclarationValueError(
            f"{msg}; for more, begin a new checkpoint from a savepoint, with a larger max_parallelism"
        )
    prepare_session(spark)
    where = f"checkpoint {location!r}"
    with refuse_errors(where):
        clone = clone_in_format_of(spark, location, states[0].batch_id, where)
        if clone is not None:
            manager = type(manager)(clone.streamingCheckpointManager())
        manager.repartition(location, partitions)


def _manager(spark: SparkSession, location: str) -> Any:
    try:
        # Spark calls this interface evolving, so a later version may lack it; then the error names
        # another way.
        return spark._streamingCheckpointManager
    except Exception as error:
        msg = (
            f"checkpoint {location!r}: repartition_state needs Spark 4.2 or newer, without "
            f"Spark Connect, got PySpark {__version__} with {type(spark).__module__}"
        )
        raise SparkSetupError(
            f"{msg}; take_savepoint() and begin a new checkpoint with from_savepoint"
        ) from error


def _refuse_running(spark: SparkSession, location: str) -> None:
    query_id = query_id_of(spark, location)
    if any(query_id == str(query.id) for query in spark.streams.active):
        msg = f"checkpoint {location!r}: its query must not run, got query {query_id}, which does"
        raise SparkSetupError(f"{msg}; stop() it first")
