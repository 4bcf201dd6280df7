# SPDX-License-Identifier: Apache-2.0
"""The key group of a key: the remainder of Spark's `xxhash64` of the key columns.

The expression must never change, because a checkpoint finds its keys by it.  Spark computes it for
records, and for keys that come without records.  Python computes it for single values.
https://github.com/apache/spark/blob/master/sql/catalyst/src/main/java/org/apache/spark/sql/catalyst/expressions/XXH64.java
has the algorithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.spark._wire.schema import arrow_type
from pyflinklike.spark._wire.system_columns import frame_of, quote
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.conversions import to_column

__all__ = [
    "SEED",
    "KeyGroupFinder",
    "add_sign",
    "group_or_hash",
    "hash_bytes",
    "hash_int",
    "hash_long",
    "key_group",
]


_REMEDY = "key the stream as the savepoint's state was keyed"


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


# `xxhash64` in Python is XXH64 of a value's bytes.  If there are several columns, the hash of the
# columns before is the seed of the next column, and null leaves the hash unchanged.  Numbers of up
# to 32 bits are hashed as four bytes, others as eight, in little-endian order.

SEED = 42
"""The seed that Spark's `xxhash64` begins with."""

_MASK = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
_STRIPE, _WORDS, _WORD, _HALF = 32, Struct("<4Q"), Struct("<Q"), Struct("<I")


def add_sign(value: int) -> int:
    """Return a hash as Spark shows it: 64 bits with a sign."""
    return value - (1 << 64) if value >> 63 else value


def hash_int(value: int, seed: int = SEED) -> int:
    """Hash a number of up to 32 bits, a bool, or a date as days since the epoch."""
    mixed = (seed + _P5 + 4 & _MASK) ^ (value & 0xFFFFFFFF) * _P1 & _MASK
    mixed = (_rotate(mixed, 23) * _P2 + _P3) & _MASK
    return _final(mixed)


def hash_long(value: int, seed: int = SEED) -> int:
    """Hash a number of 64 bits, or a timestamp as microseconds since the epoch."""
    mixed = (seed + _P5 + 8 & _MASK) ^ _round(0, value & _MASK)
    mixed = (_rotate(mixed, 27) * _P1 + _P4) & _MASK
    return _final(mixed)


def hash_bytes(data: bytes, seed: int = SEED) -> int:
    """Hash bytes, or a text as UTF-8."""
    size, at = len(data), 0
    if size >= _STRIPE:
        mixed, at = _stripes(data, seed)
    else:
        mixed = seed + _P5
    mixed = mixed + size & _MASK
    while at + 8 <= size:
        mixed ^= _round(0, _WORD.unpack_from(data, at)[0])
        mixed = (_rotate(mixed, 27) * _P1 + _P4) & _MASK
        at += 8
    if at + 4 <= size:
        mixed ^= _HALF.unpack_from(data, at)[0] * _P1 & _MASK
        mixed = (_rotate(mixed, 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        mixed ^= byte * _P5 & _MASK
        mixed = _rotate(mixed, 11) * _P1 & _MASK
    return _final(mixed)


def _stripes(data: bytes, seed: int) -> tuple[int, int]:
    """Mix all whole stripes; return the mix and the position behind them."""
    lanes = [seed + _P1 + _P2 & _MASK, seed + _P2 & _MASK, seed, seed - _P1 & _MASK]
    end = len(data) - len(data) % _STRIPE
    for words in _WORDS.iter_unpack(data[:end]):
        lanes = [_round(lane, word) for lane, word in zip(lanes, words)]
    mixed = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18))) & _MASK
    for lane in lanes:
        mixed = ((mixed ^ _round(0, lane)) * _P1 + _P4) & _MASK
    return mixed, end


def _round(lane: int, word: int) -> int:
    return _rotate(lane + word * _P2 & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> 64 - by) & _MASK


def _final(mixed: int) -> int:
    mixed = (mixed ^ mixed >> 33) * _P2 & _MASK
    mixed = (mixed ^ mixed >> 29) * _P3 & _MASK
    return mixed ^ mixed >> 32
