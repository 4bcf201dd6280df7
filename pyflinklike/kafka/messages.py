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
        topic: Its topic.
        key: None for none.
        value: None is a tombstone where topics are compacted.
        partition: None to leave it to the partitioner.
        headers: In order.
        timestamp: In ms, above 0; None for the time when it is sent.
    """

    topic: str | None
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


def check_columns(schema: StructType, topic: str | None) -> None:
    """See that a DataFrame can be written.

    Args:
        schema: Of the DataFrame.
        topic: The option.

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
    """The messages of Arrow batches, in their order.

    Args:
        batches: With columns that `check_columns` has seen.
        topic: The option; it goes before the column.
    """
    for batch in batches:
        topics = _held(batch, "topic") if topic is None else repeat(topic, batch.num_rows)
        headers = map(_headers, _held(batch, "headers"))
        keys, values = _binary(batch, "key"), _binary(batch, "value")
        yield from map(Message, topics, keys, values, _held(batch, "partition"), headers)


def of_rows(rows: Iterable[Any], topic: str | None) -> Iterator[Message]:
    """The messages of Spark's rows, in their order; for PySpark 4.0, whose streams have no Arrow."""
    for row in map(methodcaller("asDict"), rows):
        chosen = row["topic"] if topic is None else topic
        key, value = _bytes(row.get("key")), _bytes(row["value"])
        yield Message(chosen, key, value, row.get("partition"), _headers(row.get("headers")))


def _held(batch: pa.RecordBatch, name: str) -> Iterable[Any]:
    """A column's values, or as many None."""
    if name in batch.schema.names:
        held: list[Any] = batch.column(name).to_pylist()
        return held
    return repeat(None, batch.num_rows)


def _binary(batch: pa.RecordBatch, name: str) -> Iterable[bytes | None]:
    """A column of text or bytes as bytes."""
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
