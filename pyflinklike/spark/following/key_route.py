# SPDX-License-Identifier: Apache-2.0
"""The key group of a single key, found in Python: a job of Spark for each lookup would be slow.

Values of the most common key types are hashed here as Spark hashes them.  Spark hashes the others,
and names the fault of a value that does not fit.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from pyflinklike.errors import StateValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.spark.reading.jobs import spark_schema
from pyflinklike.spark.reading.keys import wanted_keys
from pyflinklike.spark.wire.columns import to_arrow
from pyflinklike.spark.wire.schema import arrow_type, key_type_of
from pyflinklike.spark.wire.xxhash64 import SEED, hash_bytes, hash_int, hash_long, signed
from pyflinklike.types import TypeInformation
from pyflinklike.types.signature import type_of

__all__ = ["KeyRoute", "key_type_of_record"]

_Hash = Callable[[Any, int], int | None]
"""Hashes a value with the hash before it as the seed; None if Spark has to be asked."""

_EPOCH = dt.date(1970, 1, 1)
_MISFITS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class KeyRoute:
    """Finds the stored form and the key group of an operator's keys.

    Args:
        spark: Hashes values of the types that Python does not hash here.
        record: The record of the operator.
    """

    def __init__(self, spark: SparkSession, record: OperatorRecord) -> None:
        self._spark, self._record = spark, record
        self._freeze = key_type_of_record(record).freeze_key
        self._max_parallelism = record.identity.max_parallelism
        self._has_columns = bool(record.identity.key_columns)
        types = _types(record) if self._has_columns else []
        self._hashes = [_hash_of(kind, record.time_zone) for kind in types]

    def __call__(self, key: Any) -> tuple[Any, int]:
        """Return a key as it is stored, and its key group.

        Raises:
            StateValueError: The key is no value of the key columns.
        """
        if not self._has_columns:
            return self._freeze(key), 0
        if key is None:
            msg = "a key must not be None, got None; give a value of the key columns"
            raise StateValueError(msg)
        found = self._hashed(key)
        if found is None:
            (group,) = wanted_keys(self._spark, self._record, [key]).groups
            return self._freeze(key), group
        return self._freeze(key), signed(found) % self._max_parallelism

    def _hashed(self, key: Any) -> int | None:
        parts = (key,) if len(self._hashes) == 1 else key
        if not isinstance(parts, tuple) or len(parts) != len(self._hashes):
            return None
        found = SEED
        for part, hash_of in zip(parts, self._hashes):
            # As in Spark, null leaves the hash unchanged.
            if part is not None:
                hashed = hash_of(part, found)
                if hashed is None:
                    return None
                found = hashed
        return found


def key_type_of_record(record: OperatorRecord) -> TypeInformation:
    """Return the type of an operator's keys, in the form that its function sees."""
    if not record.identity.key_columns:
        return type_of(record.identity.key)
    return key_type_of(_types(record), record.time_zone)


def _types(record: OperatorRecord) -> list[st.DataType]:
    fields = spark_schema(pa.schema(KeyColumns.of(record).fields)).fields
    return [each.dataType for each in fields]


def _asked(value: Any, seed: int) -> int | None:  # noqa: ARG001
    return None


def _hash_of(kind: st.DataType, time_zone: str) -> _Hash:
    if isinstance(kind, (st.TimestampType, st.TimestampNTZType)):
        arrow = arrow_type(kind)

        def of_timestamp(value: Any, seed: int) -> int | None:
            if not isinstance(value, dt.datetime):
                return None
            try:
                micros = to_arrow([value], arrow, time_zone).cast(pa.int64())[0].as_py()
            except _MISFITS:
                return None
            return hash_long(micros, seed)

        return of_timestamp
    if type(kind) in _BITS:
        bits = _BITS[type(kind)]
        hashed = hash_long if bits == 64 else hash_int
        limit = 1 << bits - 1

        def of_int(value: Any, seed: int) -> int | None:
            # A bool is an int to Python, but no value of the column: Spark names the fault.
            fits = type(value) is int and -limit <= value < limit
            return hashed(value, seed) if fits else None

        return of_int
    return _PLAIN.get(type(kind), _asked)


_BITS: dict[type[st.DataType], int] = {
    st.ByteType: 8,
    st.ShortType: 16,
    st.IntegerType: 32,
    st.LongType: 64,
}


def _of_text(value: Any, seed: int) -> int | None:
    try:
        return hash_bytes(value.encode(), seed) if type(value) is str else None
    except UnicodeEncodeError:
        return None


def _of_bytes(value: Any, seed: int) -> int | None:
    return hash_bytes(value, seed) if type(value) is bytes else None


def _of_bool(value: Any, seed: int) -> int | None:
    return hash_int(value, seed) if type(value) is bool else None


def _of_date(value: Any, seed: int) -> int | None:
    return hash_int((value - _EPOCH).days, seed) if type(value) is dt.date else None


_PLAIN: dict[type[st.DataType], _Hash] = {
    st.StringType: _of_text,
    st.BinaryType: _of_bytes,
    st.BooleanType: _of_bool,
    st.DateType: _of_date,
}
