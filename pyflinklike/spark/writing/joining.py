# SPDX-License-Identifier: Apache-2.0
"""Joins of states by columns in which a null equals a null, as in keys of several columns."""

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
    """The rows of one DataFrame with the further columns of those of another that are equal in some.

    Args:
        frame: Has these columns.
        other: Has them too, and none else of the same name.
        by: The columns.
        how: As in Spark; "inner", "left_anti" ...
    """
    # By names of their own: both may come from one DataFrame, and Spark could not tell them apart.
    names = {name: f"{_OTHER}{at}" for at, name in enumerate(by)}
    renamed = other.select(
        *(F.col(quoted(name)).alias(names.get(name, name)) for name in other.columns)
    )
    equal = [F.col(quoted(name)).eqNullSafe(F.col(names[name])) for name in by]
    return frame.join(renamed, reduce(and_, equal), how).drop(*names.values())


def without(frame: DataFrame, other: DataFrame, by: Sequence[str]) -> DataFrame:
    """The rows of one DataFrame for which another has none that is equal in some columns.

    Args:
        frame: Has these columns.
        other: Has them too.
        by: The columns.
    """
    return joined(frame, other.select(*map(quoted, by)), by, "left_anti")
