# SPDX-License-Identifier: Apache-2.0
"""The decoding of a DataFrame of Debezium's records on the executors.

Each record goes through the decoder of single records, inside `mapInArrow`.  The DataFrame adds
the types of the columns: a value that does not fit its column is a `ValueDecodeError` like any
other and follows `on_error`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.cdc.change_event import CdcEvent
from pyflinklike.cdc.debezium_decoder import DebeziumDecoder
from pyflinklike.cdc.envelope import DEFAULT_PLACEHOLDER, schema_of
from pyflinklike.engine.shown import shown
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    KeyDecodeError,
    ValueDecodeError,
)
from pyflinklike.spark.debezium.json_values import (
    RowConverter,
    Semantic,
    fields_of,
    json_text,
    needs_semantics,
    semantics_of,
)
from pyflinklike.spark.plan.session import prepare_workers
from pyflinklike.spark.wire.schema import arrow_schema

__all__ = ["FrameDecoder", "decode_debezium", "event_schema"]


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
            `partition` and `offset`, as Spark's Kafka source gives them.  Only `order="offset"`
            needs partition and offset.
        schema: The table's row, as DDL or a `StructType`.
        key: The key's column, or columns.  None takes the first column of `schema`.
        order: The order of a key's events: the position in the database's log ("source", see
            `pyflinklike.cdc.change_event`), Kafka's partition and offset ("offset"), or a function
            of the record with its `key` and `value` parsed and the fields of the envelope beside
            them.
        truncate: The result of a truncation: an "error", nothing ("ignore"), or an event with the
            op `t` and no key ("apply"), which the caller takes out before keying by it.
        unavailable: The result for a column whose value neither `after` nor `before` has: its
            name in the event's `unavailable` ("keep"), None ("null"), or an "error".
        on_error: "raise", "inline" (an event whose `error` tells why) or "drop".
        order_type: The DDL type of what `order` returns, if it is a function.
        placeholder: The connector's `unavailable.value.placeholder`.

    Returns:
        The events: the fields of `CdcEvent` as columns; rows as structs of `schema`, a key of
        several columns as a struct, `event_time` as a timestamp, `source` as JSON text.

    Raises:
        DeclarationTypeError, DeclarationValueError: The DataFrame or an argument is wrong.
        KeyDecodeError, NullKeyError, ValueDecodeError: A record cannot be decoded, with
            `on_error="raise"`; raised when the DataFrame is computed.
    """
    decoder = DebeziumDecoder.of(
        key=key,
        order=order,
        truncate=truncate,
        unavailable=unavailable,
        on_error=on_error,
        placeholder=placeholder,
    )
    if not isinstance(df, DataFrame):
        msg = (
            "pyflinklike.spark.decode_debezium takes a DataFrame with key, value, partition and "
            f"offset, got {shown(df)}; decode a single record with pyflinklike.cdc.decode_debezium"
        )
        raise DeclarationTypeError(msg)
    return _decode(df, decoder, schema, order_type)


def _decode(df: DataFrame, decoder: DebeziumDecoder, schema: Any, order_type: str) -> DataFrame:
    row = _row_schema(df, schema)
    columns = (row.names[0],) if decoder.key is None else decoder.key
    unknown = [name for name in columns if name not in row.names]
    if unknown:
        msg = f"the key must be columns of schema=, got {unknown} and {row.names}"
        raise DeclarationValueError(msg)
    if decoder.key is None:
        decoder = attrs.evolve(decoder, own_key=columns)
    if order_type != _ORDER_TYPE and not callable(decoder.order):
        msg = f"order_type is of an order that is a function, got {order_type!r} with order={decoder.order!r}"
        raise DeclarationValueError(msg)
    order = _row_schema(df, f"order_key {order_type}", "order_type")[0].dataType
    events = event_schema(row, [row[name] for name in columns], order)
    work = FrameDecoder(decoder, columns, row, events)
    prepare_workers(df.sparkSession)
    return df.select(*_record_columns(df, decoder)).mapInArrow(work.batches, events)


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
    """Return the type with every field nullable, as a record may lack columns."""
    if isinstance(data_type, st.StructType):
        return st.StructType([st.StructField(f.name, _nullable(f.dataType)) for f in data_type])
    if isinstance(data_type, st.ArrayType):
        return st.ArrayType(_nullable(data_type.elementType))
    if isinstance(data_type, st.MapType):
        return st.MapType(data_type.keyType, _nullable(data_type.valueType))
    return data_type


def event_schema(
    row: st.StructType, key: Sequence[st.StructField], order: st.DataType
) -> st.StructType:
    """Return the schema of `CdcEvent`.

    Raises:
        DeclarationTypeError: A column has a type for which JSON has no form.
    """
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
    events = st.StructType([st.StructField(name, types[name]) for name in CdcEvent._fields])
    RowConverter(events)  # refuses the types for which JSON has no form
    return events


def _record_columns(df: DataFrame, decoder: DebeziumDecoder) -> list[str]:
    """Return the columns to decode; all of the DataFrame's if `order` is a function."""
    needed = ["key", "value"] + (["partition", "offset"] if decoder.order == "offset" else [])
    lacking = [name for name in needed if name not in df.columns]
    if lacking:
        msg = f"a DataFrame of records must have the columns {needed}, got {df.columns}"
        raise DeclarationValueError(msg)
    for name in ("key", "value"):
        if not isinstance(df.schema[name].dataType, _TEXT):
            msg = (
                f"the column {name!r} must be JSON as STRING or BINARY, got "
                f"{df.schema[name].dataType.simpleString()}; select to_json() of it"
            )
            raise DeclarationTypeError(msg)
    return df.columns if callable(decoder.order) else [c for c in _RECORD if c in df.columns]


_MAX_TIME = 253_402_300_799_999  # the last ms of the year 9999, as far as Spark's literals go


@attrs.frozen
class FrameDecoder:
    """Decodes record batches on the executors, to which it is pickled.

    Args:
        decoder: Decodes single records.
        key_columns: The key columns, in the order of the key's values.
        row: The schema of the table's row.
        events: The schema of the events.
    """

    decoder: DebeziumDecoder
    key_columns: tuple[str, ...]
    row: st.StructType
    events: st.StructType

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
        keys = [st.StructField(name, work.row[name].dataType) for name in work.key_columns]
        self._key = RowConverter(st.StructType(keys))
        self._row = RowConverter(work.row)
        self._order = RowConverter(st.StructType([work.events["order_key"]]))
        self._needs_schema = needs_semantics(work.row)

    def record(self, record: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """Return the fields of a record's event; None if there is nothing to apply."""
        event = self._decoder.record(record)
        if event is None:
            return None
        try:
            return self._fields(event, record)
        except (KeyDecodeError, ValueDecodeError) as error:
            failed = self._decoder.failed(record, error)
        if failed is None:
            return None
        try:
            return self._fields(failed, record)
        except (KeyDecodeError, ValueDecodeError):
            # The event of the failure still has fields of the record that do not fit: drop them.
            return self._fields(failed._replace(key=None, order_key=None, event_time=None), record)

    def _fields(self, event: CdcEvent, record: Mapping[str, Any]) -> tuple[Any, ...]:
        order = event.order_key
        if isinstance(order, tuple):
            order = list(order)
        try:
            sides = self._sides(event, record)
            before = event.before and self._row(event.before, sides.get("before", {}))
            after = event.after and self._row(event.after, sides.get("after", {}))
            order = self._order({"order_key": order}, {})["order_key"]
        except ValueError as error:
            msg = f"a record must fit schema= and the order's type, got another: {error}"
            raise ValueDecodeError(msg) from error
        return (
            event.op,
            self._key_of(event, record, sides),
            before,
            after,
            order,
            _microseconds(event.event_time),
            event.snapshot,
            None if event.source is None else json_text(event.source),
            event.error,
            list(event.unavailable),
        )

    def _sides(
        self, event: CdcEvent, record: Mapping[str, Any]
    ) -> Mapping[str, Mapping[str, Semantic]]:
        try:
            return semantics_of(schema_of(record["value"])) if self._needs_schema else {}
        except ValueError:
            if event.error is None:
                raise
            return {}  # the error may be about the schema

    def _key_of(
        self,
        event: CdcEvent,
        record: Mapping[str, Any],
        sides: Mapping[str, Mapping[str, Semantic]],
    ) -> Any:
        if event.key is None:
            return None
        values = event.key if isinstance(event.key, tuple) else (event.key,)
        if len(values) != len(self._key_columns):
            msg = f"a key must have the columns {list(self._key_columns)}, got {shown(event.key)}; name them with key="
            raise KeyDecodeError(msg)
        try:
            own = fields_of(schema_of(record["key"])) if self._needs_schema else {}
            semantics = {**sides.get("before", {}), **sides.get("after", {}), **own}
            named = self._key(dict(zip(self._key_columns, values)), semantics)
        except ValueError as error:
            msg = f"a key must fit schema=, got one that does not: {error}"
            raise KeyDecodeError(msg) from error
        return named if len(values) > 1 else next(iter(named.values()))


def _microseconds(event_time: int | None) -> int | None:
    if event_time is None:
        return None
    if abs(event_time) > _MAX_TIME:
        msg = f"the time of a change must be in ms since the epoch, got {shown(event_time)}"
        raise ValueDecodeError(msg)
    return event_time * 1000
