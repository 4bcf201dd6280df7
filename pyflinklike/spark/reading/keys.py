# SPDX-License-Identifier: Apache-2.0
"""The keys that a reader is asked for: their key groups and their stored form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as st

from pyflinklike.errors import DeclarationTypeError, IncompatibleStateError, StateValueError
from pyflinklike.log.operator_record import OperatorRecord
from pyflinklike.replay.keys import KeyColumns
from pyflinklike.shown import shown
from pyflinklike.spark.reading.jobs import spark_schema
from pyflinklike.spark.wire.key_hash import KeyGroupFinder
from pyflinklike.spark.wire.schema import key_type_of

__all__ = ["WantedKeys", "wanted_keys"]


@attrs.frozen
class WantedKeys:
    """The keys to read.

    Args:
        stored: The stored form of the keys, each once, as an Arrow array.
        groups: The key groups of the keys.
    """

    stored: Any
    groups: frozenset[int]


def wanted_keys(spark: SparkSession, record: OperatorRecord, keys: Iterable[Any]) -> WantedKeys:
    """Find how an operator stores keys, and in which key groups.

    Args:
        spark: Computes the hashes of the keys.
        record: The operator's record, which names its key columns.
        keys: The keys in the user's form, as tuples if there are several key columns.

    Raises:
        DeclarationTypeError: `keys` is a single key.
        StateValueError: A key cannot be a value of the key columns.
    """
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        msg = f"keys takes a list of keys, got {shown(keys)}; write keys=[...]"
        raise DeclarationTypeError(msg)
    wanted, columns = list(keys), KeyColumns.of(record)
    types = {field.name: field.dataType for field in _fields(columns)}
    key_type = key_type_of(list(types.values()), record.time_zone)
    if not record.identity.key_columns:
        msg = "keys are found where a stream is keyed by columns, got a stream that has one key"
        raise StateValueError(f"{msg}; leave keys out")
    finder = KeyGroupFinder(types, key_type, record.identity.max_parallelism, record.time_zone)
    try:
        groups = finder.of(spark, wanted)
        frozen = dict.fromkeys(map(key_type.freeze_key, wanted))
    except IncompatibleStateError as error:
        msg = str(error).replace("savepoint: its keys", "keys")
        raise StateValueError(msg.rpartition(";")[0] + "; give values of these columns") from error
    stored = key_type.to_arrow(list(frozen))
    return WantedKeys(
        stored.combine_chunks() if hasattr(stored, "chunks") else stored, frozenset(groups)
    )


def _fields(columns: KeyColumns) -> list[st.StructField]:
    return spark_schema(pa.schema(columns.fields)).fields
