# SPDX-License-Identifier: Apache-2.0
"""Messages of Kafka as columns, the same as in Spark's own Kafka connector, and the ids of messages.

A writer may give each message an id; `drop_repeats` drops the messages whose id has come before.
"""

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
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql
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

from pyflinklike import KeyedProcessFunction, StateTtlConfig, Types, ValueStateDescriptor
from pyflinklike._clock import DurationLike
from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.spark import key_by

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
    ("key", BinaryType(), pa.binary()),
    ("value", BinaryType(), pa.binary()),
    ("topic", StringType(), pa.string()),
    ("partition", IntegerType(), pa.int32()),
    ("offset", LongType(), pa.int64()),
    ("timestamp", TimestampType(), pa.timestamp("us", tz="UTC")),
    ("timestampType", IntegerType(), pa.int32()),
    (
        "headers",
        HEADERS,
        pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ),
]
"""The columns, and their types for Spark and for Arrow; the last one comes only if it is asked for."""

_MOST_RECORDS: Final = 10_000
_MOST_BYTES: Final = 16 * 1024 * 1024
_AFTER_ALL: Final = 2**63 // 1000
"""The first time, in ms, that Spark cannot hold: in the year 294,247.  A producer may write any time."""


def spark_columns(*, headers: bool) -> StructType:
    """Return the columns as Spark's types.

    Args:
        headers: Whether to add a column of headers.
    """
    columns = _COLUMNS if headers else _COLUMNS[:-1]
    return StructType([StructField(name, kind) for name, kind, _ in columns])


class RecordColumns:
    """Records of one partition that wait to become a batch.

    Args:
        topic: The topic of all these records.
        partition: The partition of all these records.
        headers: Whether to add a column of headers.
    """

    def __init__(self, topic: str, partition: int, *, headers: bool) -> None:
        self._topic, self._partition, self._with_headers = topic, partition, headers
        columns = _COLUMNS if headers else _COLUMNS[:-1]
        self._schema = pa.schema([(name, kind) for name, _, kind in columns])
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
        self._times.append(milliseconds * 1000 if is_there else None)
        self._kinds.append(kind - 1)  # Java counts from -1
        if self._with_headers:
            found = message.headers()
            # Without headers the client gives None, as the column has it.
            self._headers.append(found and [{"key": name, "value": held} for name, held in found])

    def drain(self) -> pa.RecordBatch:
        """Return all records that wait as one record batch."""
        topics, partitions = [self._topic] * len(self), [self._partition] * len(self)
        columns = (self._keys, self._values, topics, partitions, self._offsets, self._times)
        arrays = [
            pa.array(values, field.type)
            for values, field in zip((*columns, self._kinds, self._headers), self._schema)
        ]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


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


# A topic without the records that were written twice


_ID: Final = "pyflinklike_record_id"


class DropRepeats(KeyedProcessFunction):
    """Passes the first record of each id on, and drops the others.

    Args:
        within: How long an id is remembered, in processing time.
    """

    def __init__(self, within: DurationLike) -> None:
        self._within = within

    def open(self, runtime_context: Any) -> None:
        """Declare the state: one flag per id, forgotten after that time."""
        seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        seen.enable_time_to_live(StateTtlConfig.new_builder(self._within).build())
        self._seen = runtime_context.get_state(seen)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        """Yield the record, unless one with the same id has come before."""
        del ctx
        if self._seen.value() is None:
            self._seen.update(True)
            # The last column is the id, which `drop_repeats` has added.
            yield tuple(value)[:-1]


def drop_repeats(
    records: DataFrame, within: DurationLike, *, uid: str = "drop_repeats"
) -> DataFrame:
    """Drop records that a writer with `recordIds` wrote again.

    A record without such an id always passes.  A repeat that is read later than `within` after the
    first one passes, too; no other record is ever dropped.  The state is one small entry per record for
    that time.

    Args:
        records: A stream or a batch of Kafka's columns, read with `includeHeaders`.
        within: How long ids are remembered, in processing time; a duration, or ms.  It must be longer
            than the writing query may be down between two attempts at a micro-batch.
        uid: The name of the operator in the checkpoint.

    Returns:
        The records with the same columns.

    Raises:
        DeclarationValueError: The DataFrame has no column of headers.
    """
    if "headers" not in records.columns:
        msg = (
            "repeats are recognised by their headers, got no column headers; read with "
            'option("includeHeaders", "true")'
        )
        raise DeclarationValueError(msg)
    given = sql.expr(f"filter(headers, each -> each.key = '{HEADER}')[0].value").cast("string")
    # A record without an id gets its own position as its id, so it is never a repeat.
    place = sql.concat_ws("/", "topic", "partition", "offset")
    named = records.withColumn(_ID, sql.coalesce(given, place))
    return key_by(named, _ID).process(DropRepeats(within), records.schema, uid=uid)
