# SPDX-License-Identifier: Apache-2.0
"""Verifies a checkpoint: everything that is stored, against all that says something of it."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from pyflinklike.errors import HostError, UnknownBatchError, UnknownStateError
from pyflinklike.replay.checking import Checked, Finding
from pyflinklike.spark.operator_checks import OperatorCheck
from pyflinklike.spark.reading.sources import is_ours, operators_of

__all__ = ["check_checkpoint"]


def check_checkpoint(
    spark: SparkSession,
    location: str,
    *,
    batch_id: int | None = None,
    operator: int | str | None = None,
    all_batches: bool = False,
) -> tuple[list[Finding], Checked]:
    """What is wrong with a checkpoint, and how much was looked at.

    Args:
        spark: Any session that reaches the checkpoint.
        location: Of the checkpoint.
        batch_id: After which micro-batch; None for the last that was committed.
        operator: Spark's number of an operator, or its uid; None for all that `process` made.
        all_batches: Whether every batch that Spark retains is checked.

    Raises:
        HostError: This is no checkpoint of a query that `process` made, or no batch is committed.
        UnknownBatchError: The batch is not, or no longer, there.
        UnknownStateError: There is no such operator.
    """
    where = f"checkpoint {location!r}"
    rows = [row for row in operators_of(spark, location, where) if is_ours(row)]
    if isinstance(operator, int):
        rows = [row for row in rows if row["operatorId"] == operator]
    if not rows or min(row["maxBatchId"] for row in rows) < 0:
        msg = f"{where}: what is checked is the state of a query that process() made"
        raise HostError(f"{msg}, got none, or none whose first batch is committed; give another")
    found: list[Finding] = []
    checked = Checked()
    for row in rows:
        for batch in _batches(row, batch_id, where, all_batches=all_batches):
            one = OperatorCheck(spark, location, row["operatorId"], batch, operator)
            more, looked_at = one.run()
            found += more
            checked += looked_at
    if not checked.batches:
        msg = f"{where}: operator must be one that process() made, got {operator!r}"
        raise UnknownStateError(f"{msg}; list_states() tells which there are")
    return found, checked


def _batches(row: Any, batch_id: int | None, where: str, *, all_batches: bool) -> range:
    first, last = row["minBatchId"], row["maxBatchId"]
    if all_batches:
        return range(first, last + 1)
    if batch_id is None:
        return range(last, last + 1)
    if not first <= batch_id <= last:
        msg = f"{where}: its batches are {first} to {last}, got {batch_id}; give one of these"
        raise UnknownBatchError(msg)
    return range(batch_id, batch_id + 1)
