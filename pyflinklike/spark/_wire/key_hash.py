# SPDX-License-Identifier: Apache-2.0
"""The key group of a key: the remainder of Spark's `xxhash64` of the key columns.

The expression must never change, because a checkpoint finds its keys by it.  Spark computes it for
records, and for keys that come without records.  Python computes it for single values.
https://github.com/apache/spark/blob/master/sql/catalyst/src/main/java/org/apache/spark/sql/catalyst/expressions/XXH64.java
has the algorithm.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.spark._wire.system_columns import quote

__all__ = ["group_or_hash", "key_group"]


def key_group(columns: Sequence[str], max_parallelism: int) -> Column:
    """Return the expression for the key group of a record.

    Args:
        columns: The key columns; their Spark types are part of the hash.  If there are no columns,
            there is one key.
        max_parallelism: The number of key groups.
    """
    if not columns:
        return F.lit(0)
    return F.pmod(_hash(columns), F.lit(max_parallelism)).cast("int")


def group_or_hash(columns: Sequence[str], max_parallelism: int | None) -> Column:
    """Return the expression for the key group of a record, or for the hash of its key.

    Args:
        columns: The key columns, as `key_group` takes them.
        max_parallelism: The number of key groups.  None if only the checkpoint knows it; packing
            then computes the remainder.
    """
    if max_parallelism is not None:
        return key_group(columns, max_parallelism)
    return _hash(columns) if columns else F.lit(0).cast("long")


def _hash(columns: Sequence[str]) -> Column:
    return F.xxhash64(*(F.col(quote(column)) for column in columns))
