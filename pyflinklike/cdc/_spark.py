# SPDX-License-Identifier: Apache-2.0
"""Decodes a DataFrame of Debezium's records on the executors.

Each record goes through the decoder of single records, inside `mapInArrow`, with the types of the
columns of `schema`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike.cdc.change_event import CdcEvent
from pyflinklike.cdc.column_values import converter_of, json_text
from pyflinklike.cdc.debezium_decoder import DebeziumDecoder
from pyflinklike.cdc.envelope import DEFAULT_PLACEHOLDER
from pyflinklike.cdc.table_row import TableRow, row_of
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, ValueDecodeError
from pyflinklike.spark._plan.session import prepare_workers
from pyflinklike.spark._wire.schema import arrow_schema

_RECORD = ("key", "value", "partition", "offset")
_TEXT = (st.StringType, st.BinaryType)
_ORDER_TYPE = "array<bigint>"


def decode_debezium(
    df: DataFrame,
    *,
    schema: Any,
    key: str | Sequence[str] | None = None,
    order: str | Callable[[Mapping[str, Any]], Any] = "source",
    truncate: str = "error",
    unavailable: str = "keep",
    on_error: str = "raise",
    order_type: str = _ORDER_TYPE,
    placeholder: str = DEFAULT_PLACEHOLDER,
) -> DataFrame:
    """Decode a DataFrame of records of Debezium topics, streaming or not.

    Args:
        df: A DataFrame with the columns `key` and `value` (JSON as STRING or BINARY, or null),
            `partition` and `offset`, as Spark's Kafka source gives them.  `order="offset"` needs
            partition and offset; with "source" they order events whose `source` is unknown.
        schema: The table's row, as DDL or a `StructType`.  Declare times without a zone
            TIMESTAMP_NTZ.
        key: The name of the key column, or names of several.  None takes the first column of
            `schema`.
        order: The order of a key's events: the position in the database's log ("source", see
            `pyflinklike.cdc.change_event`), Kafka's partition and offset ("offset"), or a function
            of the record with its `key` and `value` parsed and the fields of the envelope beside
            them.
        truncate: The result of a truncation: an "error", nothing ("ignore"), or an event with the
            op `t` and no key ("apply"), which the caller filters out before `key_by`.
        unavailable: The result for a column whose value neither `after` nor `before` has: its
            name in the event's `unavailable` ("keep"), None ("null"), or an "error".
        on_error: "raise", "inline" (an event whose `error` has the reason) or "drop".
        order_type: The DDL type of the results of `order`, if it is a function.
        placeholder: The text of the connector's option `unavailable.value.placeholder`.

    Returns:
        The events, with the fields of `CdcEvent` as columns: rows are structs of `schema`, a key of
        several columns is a struct, `event_time` is a timestamp, and `source` is JSON text.

    Raises:
        DeclarationTypeError, DeclarationValueError: The DataFrame or an argument is wrong.
        KeyDecodeError, NullKeyError, ValueDecodeError: A record cannot be decoded, with
            `on_error="raise"`; raised when the DataFrame is computed.
    """
    if not isinstance(df, DataFrame):
        msg = (
            "pyflinklike.spark.decode_debezium takes a DataFrame with key, value, partition and "
            f"offset, got {short_repr(df)}; decode a single record with pyflinklike.cdc.decode_debezium"
        )
        raise DeclarationTypeError(msg)
    row = _row_schema(df, schema)
    decoder = DebeziumDecoder(
        row=row_of(row),
        key=key,
        order=order,
        truncate=truncate,
        unavailable=unavailable,
        on_error=on_error,
        placeholder=placeholder,
    )
    if order_type != _ORDER_TYPE and not callable(order):
        msg = f"order_type needs a function as order, got {order_type!r} with order={short_repr(order)}"
        raise DeclarationValueError(msg)
    work = FrameDecoder.of(decoder, row, _row_schema(df, f"order_key {order_type}", "order_type"))
    prepare_workers(df.sparkSession)
    return df.select(*_record_columns(df, decoder)).mapInArrow(work.batches, work.events)


def _row_schema(df: DataFrame, schema: Any, what: str = "schema") -> st.StructType:
    if isinstance(schema, str):
        try:
            schema = df.sparkSession.createDataFrame([], schema).schema
        except PySparkException as error:
            example = "id int, name string" if what == "schema" else "array<bigint>"
            msg = f"{what} must be DDL such as {example!r}, got {schema!r}"
            raise DeclarationValueError(msg) from error
    if not isinstance(schema, st.StructType) or not schema.fields:
        msg = f'a DataFrame needs schema=, its table\'s row as DDL such as "id int, name string", got {schema!r}'
        raise DeclarationTypeError(msg)
    return schema


def _nullable(data_type: st.DataType) -> st.DataType:
    """Return the type with every field nullable, because a record may lack columns."""
    if isinstance(data_type, st.StructType):
        return st.StructType([st.StructField(f.name, _nullable(f.dataType)) for f in data_type])
    if isinstance(data_type, st.ArrayType):
        return st.ArrayType(_nullable(data_type.elementType))
    if isinstance(data_type, st.MapType):
        return st.MapType(data_type.keyType, _nullable(data_type.valueType))
    return data_type


def _event_schema(
    row: st.StructType, key: Sequence[st.StructField], order: st.DataType
) -> st.StructType:
    """Return the schema of `CdcEvent`."""
    whole = _nullable(row)
    types: dict[str, st.DataType] = {
        "op": st.StringType(),
        "key": _nullable(st.StructType(list(key)) if len(key) > 1 else key[0].dataType),
        "before": whole,
        "after": whole,
        "order_key": _nullable(order),
        "event_time": st.TimestampType(),
        "snapshot": st.BooleanType(),
        "source": st.StringType(),
        "error": st.StringType(),
        "unavailable": st.ArrayType(st.StringType()),
    }
    return st.StructType([st.StructField(name, types[name]) for name in CdcEvent._fields])


def _record_columns(df: DataFrame, decoder: DebeziumDecoder) -> list[str]:
    """Return the columns to decode; if `order` is a function, all columns of the DataFrame."""
    needed = ["key", "value"] + (["partition", "offset"] if decoder.order == "offset" else [])
    lacking = [name for name in needed if name not in df.columns]
    if lacking:
        msg = (
            f"a DataFrame of records must have the columns {needed}, got {df.columns}; if the records "
            'have no key, add one with withColumn("key", lit(None).cast("string")) and pass key='
        )
        raise DeclarationValueError(msg)
    for name in ("key", "value"):
        if not isinstance(df.schema[name].dataType, _TEXT):
            msg = (
                f"the column {name!r} must be JSON as STRING or BINARY, got "
                f"{df.schema[name].dataType.simpleString()}; select to_json() of it"
            )
            raise DeclarationTypeError(msg)
    return df.columns if callable(decoder.order) else [c for c in _RECORD if c in df.columns]


_MAX_TIME = 253_402_300_799_999  # the last ms of the year 9999, which ends Spark's literals


@attrs.frozen
class FrameDecoder:
    """Decodes record batches on the executors; the driver pickles it to them.

    Args:
        decoder: Decodes one record at a time.
        key_columns: The key columns, in the order of the key's values.
        order: A row whose only column has the values of the order.
        events: The Spark schema of the events.
    """

    decoder: DebeziumDecoder
    key_columns: tuple[str, ...]
    order: TableRow
    events: st.StructType

    @classmethod
    def of(cls, decoder: DebeziumDecoder, row: st.StructType, order: st.StructType) -> FrameDecoder:
        """Make the decoder of a table's records.

        Args:
            decoder: Decodes single records to rows of `row`.
            row: The columns of the table, as the user declared them.
            order: A struct whose only field has the type of the order.
        """
        columns = decoder.key or decoder.own_key or ()
        events = _event_schema(row, [row[name] for name in columns], order[0].dataType)
        return cls(decoder, columns, row_of(order), events)

    def batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decode record batches of records to record batches of events."""
        convert = _EventConverter(self)
        schema = arrow_schema(self.events)
        for batch in batches:
            columns: list[list[Any]] = [[] for _ in schema]
            for record in batch.to_pylist():
                event = convert.record(record)
                if event is not None:
                    for column, value in zip(columns, event):
                        column.append(value)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema)]
            yield pa.record_batch(arrays, schema=schema)


class _EventConverter:
    """Decodes records to the values that Arrow takes."""

    def __init__(self, work: FrameDecoder) -> None:
        self._decoder = work.decoder
        self._key_columns = work.key_columns
        ((_, order),) = (work.order.types or {}).items()
        self._order = converter_of(order, None)

    def record(self, record: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the fields of a record's event; None if there is nothing to apply."""
        event = self._decoder.record(record)
        if event is None:
            return None
        try:
            return self._fields(event)
        except ValueDecodeError as error:
            failed = self._decoder.failed(record, error)
        if failed is None:
            return None
        try:
            return self._fields(failed)
        except ValueDecodeError:
            # Fields of the record that do not fit are also in the event of the failure; drop them.
            return self._fields(failed._replace(key=None, order_key=None, event_time=None))

    def _fields(self, event: CdcEvent) -> tuple[Any, ...]:
        key, order = event.key, event.order_key
        if key is not None and len(self._key_columns) > 1:
            key = dict(zip(self._key_columns, key))
        if order is not None:
            try:
                order = self._order(list(order) if isinstance(order, tuple) else order)
            except ValueError as error:
                msg = f"the order of a record must fit order_type: it {error}"
                raise ValueDecodeError(msg) from error
        return (
            event.op,
            key,
            event.before,
            event.after,
            order,
            _microseconds(event.event_time),
            event.snapshot,
            None if event.source is None else json_text(event.source),
            event.error,
            list(event.unavailable),
        )


def _microseconds(event_time: int | None) -> int | None:
    if event_time is None:
        return None
    if abs(event_time) > _MAX_TIME:
        msg = f"the time of a change must be in ms since the epoch, got {short_repr(event_time)}"
        raise ValueDecodeError(msg)
    return event_time * 1000
