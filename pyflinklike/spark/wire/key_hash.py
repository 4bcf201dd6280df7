# SPDX-License-Identifier: Apache-2.0
"""The key group of a key: one expression decides it, and Spark computes it.

The expression must never change, because a checkpoint finds its keys by it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.shown import shown, shown_message
from pyflinklike.spark.wire.arrow_frames import frame_of
from pyflinklike.spark.wire.columns import to_arrow
from pyflinklike.spark.wire.names import quoted
from pyflinklike.spark.wire.schema import arrow_type
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python

__all__ = ["KeyGroupFinder", "group_or_hash", "key_group"]

_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)
_REMEDY = "key the stream as the savepoint's state was keyed"


def key_group(columns: Sequence[str], max_parallelism: int) -> Column:
    """Return the expression for the key group of a record.

    Args:
        columns: The key columns, whose Spark types are part of the hash.  Without any there is
            one key.
        max_parallelism: The number of key groups.
    """
    if not columns:
        return F.lit(0)
    return F.pmod(_hash(columns), F.lit(max_parallelism)).cast("int")


def group_or_hash(columns: Sequence[str], max_parallelism: int | None) -> Column:
    """The key group of a record, or the hash of its key, of which that is the remainder.

    Args:
        columns: As of `key_group`.
        max_parallelism: The number of key groups; None where only the checkpoint knows it, and
            the remainder is taken where records are packed.
    """
    if max_parallelism is not None:
        return key_group(columns, max_parallelism)
    return _hash(columns) if columns else F.lit(0).cast("long")


def _hash(columns: Sequence[str]) -> Column:
    return F.xxhash64(*(F.col(quoted(column)) for column in columns))


@attrs.frozen
class KeyGroupFinder:
    """Finds the key groups of keys that come without records.

    Args:
        columns: The key columns and their types.
        key_type: The type by which keys are frozen.
        max_parallelism: The number of key groups.
        time_zone: The zone of the Spark session, in which naive datetimes are read.
    """

    columns: Mapping[str, st.DataType]
    key_type: TypeInformation
    max_parallelism: int
    time_zone: str

    def of(self, spark: SparkSession, keys: list[Any]) -> list[int]:
        """Find the key group of each key.

        Args:
            spark: Computes the hash, in a job of its own if there are many keys.
            keys: The keys in the user's form.

        Raises:
            IncompatibleStateError: The columns cannot hold a key.
        """
        if not keys or not self.columns:
            return [0] * len(keys)
        columns = [keys] if len(self.columns) == 1 else list(zip(*keys))
        arrays = [self._array(values, each) for values, each in zip(columns, self.columns.values())]
        self._check_same(keys, arrays)
        names = [f"key_{number}" for number in range(len(arrays))]
        table = pa.table([pa.array(range(len(keys)), pa.int64()), *arrays], ["at", *names])
        fields = [st.StructField(name, each) for name, each in zip(names, self.columns.values())]
        schema = st.StructType([st.StructField("at", st.LongType()), *fields])
        group = key_group(names, self.max_parallelism).alias("group")
        found = frame_of(spark, table, schema).select("at", group)
        return [number for _, number in sorted(found.collect())]

    def _array(self, values: Sequence[Any], kind: st.DataType) -> pa.Array:
        arrow = arrow_type(kind)
        try:
            return to_arrow(values, arrow, self.time_zone)
        except _MISFITS:
            for value in values:
                try:
                    to_arrow([value], arrow, self.time_zone)
                except _MISFITS as error:
                    msg = f"{self._rule()}, got {shown(value)} ({shown_message(error)}); {_REMEDY}"
                    raise IncompatibleStateError(msg) from error
            raise

    def _check_same(self, keys: list[Any], arrays: list[pa.Array]) -> None:
        """Check that records would bring the same keys: 1 is not the 1.0 of a double column."""
        columns = [to_python(array, self.time_zone) for array in arrays]
        read = columns[0] if len(columns) == 1 else zip(*columns)
        freeze = self.key_type.freeze_key
        for key, other in zip(keys, read):
            if freeze(key) != freeze(other):
                msg = f"{self._rule()}, got {shown(key)}, which they hold as {shown(other)}; {_REMEDY}"
                raise IncompatibleStateError(msg)

    def _rule(self) -> str:
        types = ", ".join(f"{name} {kind.simpleString()}" for name, kind in self.columns.items())
        return f"savepoint: its keys must be values of the key columns ({types})"
