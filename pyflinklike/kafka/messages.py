# SPDX-License-Identifier: Apache-2.0
"""Messages of Kafka as columns, the same as in Spark's own Kafka connector, and ids of messages."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import methodcaller
from typing import Any, Final

import attrs
import pyarrow as pa
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from pyspark import TaskContext
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

from pyflinklike.errors import DeclarationValueError, SparkSetupError

__all__ = [
    "HEADER",
    "Message",
    "RecordColumns",
    "RecordIds",
    "check_columns",
    "of_batches",
    "of_rows",
    "spark_columns",
]


# Messages that are written

_TEXT: Final = ("string", "binary")

HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)

_ALLOWED: Final = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS.simpleString(),),
}


@attrs.define
class Message:
    """One message on its way to a topic.

    Args:
        topic: The name of its topic; a message without a topic is refused when it is sent.
        key: The key; None for a message without a key.
        value: The value; in a compacted topic, None deletes the key.
        partition: The number of the partition; None lets the partitioner choose.
        headers: The names and values of the headers, in order.
        timestamp: The time in ms, above 0; None takes the time when it is sent.
    """

    topic: str | None
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


def check_columns(schema: StructType, topic: str | None) -> None:
    """Check that a DataFrame can be written.

    Args:
        schema: The schema of the DataFrame.
        topic: The option `topic`; None if a column names the topic.

    Raises:
        DeclarationValueError: A column is missing, unknown or of another type.
    """
    kinds = {field.name: field.dataType.simpleString() for field in schema}
    for name, kind in kinds.items():
        if name not in _ALLOWED:
            msg = f"a column {name} would not be written; select only {', '.join(_ALLOWED)}"
            raise DeclarationValueError(msg)
        if kind not in _ALLOWED[name]:
            msg = f"the column {name} must be {' or '.join(_ALLOWED[name])}, got {kind}; cast it"
            raise DeclarationValueError(msg)
    if "value" not in kinds:
        msg = f"a column value is needed, got {', '.join(kinds) or 'none'}; rename a column"
        raise DeclarationValueError(msg)
    if topic is None and "topic" not in kinds:
        msg = "records need a topic; set the option topic, or add a column topic"
        raise DeclarationValueError(msg)


def of_batches(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[Message]:
    """Yield the messages of Arrow batches, in their order.

    Args:
        batches: Record batches whose columns `check_columns` has accepted.
        topic: The option `topic`; it overrides the column.
    """
    for batch in batches:
        topics = _column(batch, "topic") if topic is None else repeat(topic, batch.num_rows)
        headers = map(_headers, _column(batch, "headers"))
        keys, values = _binary(batch, "key"), _binary(batch, "value")
        yield from map(Message, topics, keys, values, _column(batch, "partition"), headers)


def of_rows(rows: Iterable[Any], topic: str | None) -> Iterator[Message]:
    """Yield the messages of Spark's rows in their order; streams of PySpark 4.0 have no Arrow."""
    for row in map(methodcaller("asDict"), rows):
        chosen = row["topic"] if topic is None else topic
        key, value = _bytes(row.get("key")), _bytes(row["value"])
        yield Message(chosen, key, value, row.get("partition"), _headers(row.get("headers")))


def _column(batch: pa.RecordBatch, name: str) -> Iterable[Any]:
    """Return a column's values; if there is no such column, None for each row."""
    if name in batch.schema.names:
        values: list[Any] = batch.column(name).to_pylist()
        return values
    return repeat(None, batch.num_rows)


def _binary(batch: pa.RecordBatch, name: str) -> Iterable[bytes | None]:
    """Return a column of text or bytes as bytes."""
    if name not in batch.schema.names:
        return repeat(None, batch.num_rows)
    values: list[bytes | None] = batch.column(name).cast(pa.binary()).to_pylist()
    return values


def _headers(values: Iterable[Any] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["key"], _bytes(each["value"])) for each in values or ())


def _bytes(value: str | bytes | bytearray | None) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)


# Records that are read

_COLUMNS: Final = [
    StructField("key", BinaryType()),
    StructField("value", BinaryType()),
    StructField("topic", StringType()),
    StructField("partition", IntegerType()),
    StructField("offset", LongType()),
    StructField("timestamp", TimestampType()),
    StructField("timestampType", IntegerType()),
]

_MOST_RECORDS: Final = 10_000
_MOST_BYTES: Final = 16 * 1024 * 1024
_HEADERS_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))
)
_AFTER_ALL: Final = 2**63 // 1000
"""The first time, in ms, that Spark cannot hold: in the year 294,247.  A producer may write any time."""
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
        headers: Whether to add a column of headers.
    """
    return StructType([*_COLUMNS, StructField("headers", HEADERS)] if headers else _COLUMNS)


class RecordColumns:
    """Records of one partition that wait to become a batch.

    Args:
        topic: The topic of all these records.
        partition: The partition of all these records.
        headers: Whether to add a column of headers.
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
        """Return the number of records that wait."""
        return len(self._offsets)

    def full(self) -> bool:
        """Return whether they should become a batch: 10,000 records, or 16 MiB of keys and values."""
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
            # Without headers the client gives None, as the column has it.
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


# Ids

HEADER: Final = "pyflinklike-record-id"
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class RecordIds:
    """Gives each record of a task an id: query, micro-batch, task, digest and number.

    A record has the same id if its micro-batch is written again.  After a shuffle, the rows of a task
    may then come in another order.  So the id is made of the contents of a record and, among equal
    records of the task, of a number.  For each different record this keeps 16 bytes and a count until
    the task ends.

    Args:
        context: The context of Spark's task; None outside a task.

    Raises:
        SparkSetupError: The task does not belong to a stream.
    """

    def __init__(self, context: Any) -> None:
        # Spark sets these two properties of its tasks in every micro-batch.
        names = (_QUERY, _BATCH) if context is not None else ()
        query, batch = [context.getLocalProperty(name) for name in names] or (None, None)
        if query is None or batch is None:
            msg = "recordIds is for streams, got a task of no stream; leave the option out"
            raise SparkSetupError(msg)
        self._prefix = f"{query}/{batch}/{context.partitionId()}"
        self._seen: Counter[bytes] = Counter()

    @staticmethod
    def is_of_stream() -> bool:
        """Return whether a task of a stream runs here, so that its records can have ids."""
        context = TaskContext.get()
        return context is not None and context.getLocalProperty(_BATCH) is not None

    @classmethod
    def of_task(cls) -> RecordIds:
        """Make the ids for the task that is running here."""
        return cls(TaskContext.get())

    def add_to(self, message: Message) -> Message:
        """Return the message with a header that holds its id."""
        digest = _digest(message)
        number = self._seen[digest]
        self._seen[digest] = number + 1
        name = f"{self._prefix}/{digest.hex()}/{number}".encode()
        return attrs.evolve(message, headers=(*message.headers, (HEADER, name)))


def _digest(message: Message) -> bytes:
    """Return a digest of the whole message; lengths keep neighbouring parts apart."""
    state = hashlib.blake2b(digest_size=16)
    parts = [message.topic, message.partition, message.key, message.value]
    for part in [*parts, *(each for header in message.headers for each in header)]:
        data = b"" if part is None else part if isinstance(part, bytes) else str(part).encode()
        state.update(b"-" if part is None else b"%d:" % len(data))
        state.update(data)
    return state.digest()
