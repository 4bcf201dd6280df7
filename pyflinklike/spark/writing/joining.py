# SPDX-License-Identifier: Apache-2.0
"""Joins of states in which null equals null, as in keys of several columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.spark.wire.names import quoted

__all__ = ["joined", "without"]

_OTHER = "__other_"


def joined(frame: DataFrame, other: DataFrame, by: Sequence[str], how: str = "inner") -> DataFrame:
    """Join two DataFrames by equal columns.

    Args:
        frame: The left side.
        other: The right side; shares only the columns `by` with the left side.
        by: The columns that must be equal.
        how: The type of Spark's join, such as "inner" or "left_anti".
    """
    # Both sides may come from one DataFrame, and Spark could not tell their columns apart.
    names = {name: f"{_OTHER}{at}" for at, name in enumerate(by)}
    renamed = other.select(
        *(F.col(quoted(name)).alias(names.get(name, name)) for name in other.columns)
    )
    equal = [F.col(quoted(name)).eqNullSafe(F.col(names[name])) for name in by]
    return frame.join(renamed, reduce(and_, equal), how).drop(*names.values())


def without(frame: DataFrame, other: DataFrame, by: Sequence[str]) -> DataFrame:
    """Return the rows of `frame` for which `other` has no row that is equal in the columns `by`."""
    return joined(frame, other.select(*map(quoted, by)), by, "left_anti")
