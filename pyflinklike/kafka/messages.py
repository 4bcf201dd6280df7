# SPDX-License-Identifier: Apache-2.0
"""The columns of a DataFrame as messages of Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import repeat
from operator import methodcaller
from typing import Any, Final

import attrs
import pyarrow as pa
from pyspark.sql.types import StructType

from pyflinklike.errors import DeclarationValueError
from pyflinklike.kafka.columns import HEADERS

__all__ = ["Message", "check_columns", "of_batches", "of_rows"]

_TEXT: Final = ("string", "binary")
_ALLOWED: Final = {
    "key": _TEXT,
    "value": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS.simpleString(),),
}


@attrs.define
class Message:
    """One message to be written.

    Args:
        topic: The name of its topic; None is refused when it is sent.
        key: The key; None for none.
        value: The value; None is a tombstone where topics are compacted.
        partition: The number of the partition; None leaves it to the partitioner.
        headers: Names and values, in order.
        timestamp: The time in ms, above 0; None for the time when it is sent.
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
        topic: The option `topic`; None where a column names the topic.

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
        msg = f"a column value is needed, got {', '.join(kinds) or 'none'}; name one so"
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
        topics = _held(batch, "topic") if topic is None else repeat(topic, batch.num_rows)
        headers = map(_headers, _held(batch, "headers"))
        keys, values = _binary(batch, "key"), _binary(batch, "value")
        yield from map(Message, topics, keys, values, _held(batch, "partition"), headers)


def of_rows(rows: Iterable[Any], topic: str | None) -> Iterator[Message]:
    """Yield the messages of Spark's rows in their order; PySpark 4.0's streams have no Arrow."""
    for row in map(methodcaller("asDict"), rows):
        chosen = row["topic"] if topic is None else topic
        key, value = _bytes(row.get("key")), _bytes(row["value"])
        yield Message(chosen, key, value, row.get("partition"), _headers(row.get("headers")))


def _held(batch: pa.RecordBatch, name: str) -> Iterable[Any]:
    """Return a column's values, or as many None."""
    if name in batch.schema.names:
        held: list[Any] = batch.column(name).to_pylist()
        return held
    return repeat(None, batch.num_rows)


def _binary(batch: pa.RecordBatch, name: str) -> Iterable[bytes | None]:
    """Return a column of text or bytes as bytes."""
    if name not in batch.schema.names:
        return repeat(None, batch.num_rows)
    held: list[bytes | None] = batch.column(name).cast(pa.binary()).to_pylist()
    return held


def _headers(held: Iterable[Any] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["key"], _bytes(each["value"])) for each in held or ())


def _bytes(value: str | bytes | bytearray | None) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)
