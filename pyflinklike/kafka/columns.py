# SPDX-License-Identifier: Apache-2.0
"""The columns of a record that is read, as Arrow: those of Spark's own Kafka connector."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["HEADERS", "Records", "spark_columns"]

_COLUMNS: Final = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]
HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

_MOST_RECORDS: Final = 10_000
_MOST_BYTES: Final = 16 * 1024 * 1024
_HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
_AFTER_ALL: Final = 2**63 // 1000
"""The first time, in ms, that Spark does not have: in the year 294,247.  A producer may write
any."""
_FIELDS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]


def spark_columns(*, headers: bool) -> StructType:
    """Return the columns as Spark's types.

    Args:
        headers: True adds a column of headers.
    """
    return StructType([*_COLUMNS, StructField("headers", HEADERS)] if headers else _COLUMNS)


class Records:
    """Records of one partition that wait to become a batch.

    Args:
        topic: The topic of all of them.
        partition: The partition of all of them.
        headers: True adds a column of headers.
    """

    def __init__(self, topic: str, partition: int, *, headers: bool) -> None:
        self._topic, self._partition, self._with_headers = topic, partition, headers
        fields = [*_FIELDS, pa.field("headers", _HEADERS_TYPE)] if headers else _FIELDS
        self._schema = pa.schema(fields)
        self._clear()

    def _clear(self) -> None:
        self._bytes = 0
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets: list[int] = []
        self._times: list[int | None] = []
        self._kinds: list[int] = []
        self._headers: list[list[dict[str, Any]] | None] = []

    def __len__(self) -> int:
        """Return how many records wait."""
        return len(self._offsets)

    def full(self) -> bool:
        """Return whether they should become a batch: 10,000 records, or 16 MiB of keys, values."""
        return len(self._offsets) >= _MOST_RECORDS or self._bytes >= _MOST_BYTES

    def append(self, message: Any) -> None:
        """Add a message of confluent-kafka."""
        key, value = message.key(), message.value()
        self._bytes += len(key or b"") + len(value or b"")
        self._keys.append(key)
        self._values.append(value)
        self._offsets.append(message.offset())
        kind, milliseconds = message.timestamp()
        is_there = kind != TIMESTAMP_NOT_AVAILABLE and milliseconds < _AFTER_ALL
        self._times.append(milliseconds if is_there else None)
        self._kinds.append(kind - 1)  # Java counts from -1
        if self._with_headers:
            found = message.headers()
            self._headers.append(found and [{"key": name, "value": held} for name, held in found])

    def drain(self) -> pa.RecordBatch:
        """Return all records that wait as one record batch."""
        count = len(self)
        milliseconds = pa.array(self._times, pa.timestamp("ms", tz="UTC"))
        columns = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            pa.array([self._topic] * count, pa.string()),
            pa.array([self._partition] * count, pa.int32()),
            pa.array(self._offsets, pa.int64()),
            milliseconds.cast(pa.timestamp("us", tz="UTC")),
            pa.array(self._kinds, pa.int32()),
        ]
        if self._with_headers:
            columns.append(pa.array(self._headers, _HEADERS_TYPE))
        self._clear()
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)
