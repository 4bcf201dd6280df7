# SPDX-License-Identifier: Apache-2.0
"""The decoding of a DataFrame of Debezium's records.

Each record goes through the decoder of single records, inside `mapInArrow` on the executors.  The
DataFrame adds the types of the columns: a value that does not fit its column is a
`ValueDecodeError` like any other and follows `on_error`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike.cdc.decoder import DebeziumDecoder
from pyflinklike.cdc.event import CdcEvent
from pyflinklike.cdc.unavailable import DEFAULT_PLACEHOLDER
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.shown import shown
from pyflinklike.spark.debezium.frame_decoder import FrameDecoder
from pyflinklike.spark.debezium.json_types import RowConverter
from pyflinklike.spark.setup.shipping import prepare_workers

__all__ = ["decode_debezium", "event_schema"]

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
            `pyflinklike.cdc.source_order`), Kafka's partition and offset ("offset"), or a function
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
    return _decoded(df, decoder, schema, order_type)


def _decoded(df: DataFrame, decoder: DebeziumDecoder, schema: Any, order_type: str) -> DataFrame:
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
