# SPDX-License-Identifier: Apache-2.0
"""Which key group a key is in: the one expression that decides it, computed by Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

__all__ = ["key_group", "quoted"]


def key_group(columns: Sequence[str], max_parallelism: int) -> Column:
    """The key group of a record.

    Args:
        columns: Names of the key columns; their Spark types are part of the hash.
        max_parallelism: The number of key groups.
    """
    keys = [F.col(quoted(column)) for column in columns]
    return F.pmod(F.xxhash64(*keys), F.lit(max_parallelism)).cast("int")


def quoted(name: str) -> str:
    """A column's name as Spark parses it."""
    return "`" + name.replace("`", "``") + "`"
