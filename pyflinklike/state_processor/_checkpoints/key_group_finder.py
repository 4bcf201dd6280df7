# SPDX-License-Identifier: Apache-2.0
"""The key groups of keys that come without records: Spark computes them, as for records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.spark._wire.key_groups import key_group
from pyflinklike.spark._wire.schema import arrow_type
from pyflinklike.spark._wire.system_columns import frame_of
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.conversions import to_column

__all__ = ["KeyGroupFinder"]


_REMEDY = "key the stream as the savepoint's state was keyed"


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
            spark: The session that computes the hashes, in a job of its own if there are many keys.
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
            return to_column(values, arrow, self.time_zone)
        except StateValueError as error:
            msg = f"{self._rule()}: {error}; {_REMEDY}"
            raise IncompatibleStateError(msg) from error

    def _check_same(self, keys: list[Any], arrays: list[pa.Array]) -> None:
        """Check that records would bring the same keys: a double column has 1.0, which is not 1."""
        columns = [to_python(array, self.time_zone) for array in arrays]
        read = columns[0] if len(columns) == 1 else zip(*columns)
        freeze = self.key_type.freeze_key
        for key, other in zip(keys, read):
            if freeze(key) != freeze(other):
                msg = f"{self._rule()}, got {short_repr(key)}, which becomes {short_repr(other)} there; {_REMEDY}"
                raise IncompatibleStateError(msg)

    def _rule(self) -> str:
        types = ", ".join(f"{name} {kind.simpleString()}" for name, kind in self.columns.items())
        return f"savepoint: its keys must be values of the key columns ({types})"
