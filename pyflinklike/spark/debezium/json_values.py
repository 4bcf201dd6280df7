# SPDX-License-Identifier: Apache-2.0
"""The conversion of Debezium's JSON values to the types of a Spark schema.

JSON has fewer types than a table, so Kafka Connect's converter writes dates as days, times as
numbers in some unit, and decimals and bytes as base64.  The schema of a wrapped envelope says
what a number or a text means.  A bare envelope has no schema, so only plain forms are accepted:

    DATE                     days since the epoch, or ISO 8601 text
    TIMESTAMP, TIMESTAMP_NTZ ISO 8601 text; a number only where the schema tells its unit
    DECIMAL                  a number, or its digits as text; base64 only where the schema says
    BINARY                   base64
    STRING                   text; an object or an array as its JSON

Nothing is guessed: 1700000000000 is one time in ms and another one in us, and "1234" may be a
number or base64.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec
from pyspark.sql import types as st

from pyflinklike.engine.checks import is_int, is_number
from pyflinklike.engine.shown import shown
from pyflinklike.errors import DeclarationTypeError

__all__ = ["RowConverter", "Semantic", "fields_of", "json_text", "needs_semantics", "semantics_of"]


class Semantic(msgspec.Struct):
    """The schema of one field of a wrapped envelope."""

    field: str = ""
    name: str | None = None
    parameters: dict[str, str] = {}
    fields: list[Semantic] = []
    items: Semantic | None = None
    values: Semantic | None = None


Convert: TypeAlias = Callable[[Any, Semantic | None], Any]
"""Converts a JSON value that is not None, with its schema if there is one, to the typed value."""

_FRACTION = re.compile(r"\.\d+")
_EPOCH = dt.datetime(1970, 1, 1)
_DAY_ZERO = dt.date(1970, 1, 1)
_UTC = dt.timezone.utc
_PER_MICROSECOND = {
    "org.apache.kafka.connect.data.Timestamp": (1000, 1),
    "io.debezium.time.Timestamp": (1000, 1),
    "io.debezium.time.MicroTimestamp": (1, 1),
    "io.debezium.time.NanoTimestamp": (1, 1000),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_WIDE = Context(prec=100)  # the default context would round decimals that Spark can hold
# JSON has no numbers for these, so they come as text.
_NOT_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}


def json_text(value: Any) -> str:
    """Write a value that was read from JSON as JSON text."""
    try:
        return msgspec.json.encode(value).decode()
    except OverflowError:  # msgspec reads ints of any size, but writes only ints of 64 bits
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def needs_semantics(data_type: st.DataType) -> bool:
    """Return whether a type has parts whose JSON values may need a schema to be understood."""
    if isinstance(data_type, st.StructType):
        return any(needs_semantics(each.dataType) for each in data_type.fields)
    if isinstance(data_type, st.ArrayType):
        return needs_semantics(data_type.elementType)
    if isinstance(data_type, st.MapType):
        return needs_semantics(data_type.valueType)
    return isinstance(data_type, (st.DecimalType, st.TimestampType, st.TimestampNTZType))


class RowConverter:
    """Converts the columns of a row.

    Args:
        schema: The wanted columns; other columns of a row are dropped, and missing ones are None.

    Raises:
        DeclarationTypeError: A column has a type for which JSON has no form.
    """

    def __init__(self, schema: st.StructType) -> None:
        self._columns = [
            (each.name, _AS_THEY_ARE.get(type(each.dataType)), _converter(each.dataType))
            for each in schema.fields
        ]

    def __call__(self, row: Mapping[str, Any], semantics: Mapping[str, Semantic]) -> dict[str, Any]:
        """Convert a row to values that Arrow takes.

        Raises:
            ValueError: A value does not fit its column, which the message names.
        """
        converted = {}
        for name, as_it_is, convert in self._columns:
            value = row.get(name)
            if value is not None and type(value) is not as_it_is:
                try:
                    value = convert(value, semantics.get(name))
                except (TypeError, ValueError, ArithmeticError) as error:
                    msg = f"column {name!r}: {error}"
                    raise ValueError(msg) from error
            converted[name] = value
        return converted


def _boolean(value: Any, _: Semantic | None) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit("BOOLEAN", value)


def _integer(bits: int) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any, _: Semantic | None) -> int:
        if is_int(value) and -limit <= value < limit:
            return value
        raise _misfit(f"an integer of {bits} bits", value)

    return convert


def _float(value: Any, _: Semantic | None) -> float:
    if is_number(value):
        return float(value)
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    raise _misfit("a number", value)


def _string(value: Any, _: Semantic | None) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, (dict, list)):
        return json_text(value)
    raise _misfit("STRING", value)


def _binary(value: Any, _: Semantic | None) -> bytes:
    if isinstance(value, str):
        return base64.b64decode(value, validate=True)
    raise _misfit("BINARY in base64", value)


def _decimal(precision: int, scale: int) -> Convert:
    quantum = Decimal(1).scaleb(-scale)

    def convert(value: Any, semantic: Semantic | None) -> Decimal:
        if isinstance(value, dict) and value.keys() == {"scale", "value"}:
            # Debezium's VariableScaleDecimal, for columns without a fixed scale.
            number = _decode_unscaled(value["value"], value["scale"])
        elif isinstance(value, str) and semantic is not None and semantic.name == _DECIMAL:
            number = _decode_unscaled(value, int(semantic.parameters.get("scale", 0)))
        elif isinstance(value, str) or is_number(value):
            number = Decimal(str(value))
        else:
            raise _misfit("a decimal number", value)
        if not number.is_finite():
            raise _misfit("a finite decimal number", value)
        fits = number.adjusted() < precision - scale
        fitted = number.quantize(quantum, context=_WIDE) if fits else number
        if fitted != number or not fits:
            raise _misfit(f"DECIMAL({precision},{scale})", value)
        return fitted

    return convert


def _decode_unscaled(value: str, scale: int) -> Decimal:
    number = int.from_bytes(base64.b64decode(value, validate=True), "big", signed=True)
    return Decimal(number).scaleb(-scale, context=_WIDE)


def _date(value: Any, _: Semantic | None) -> dt.date:
    if is_int(value):
        return _DAY_ZERO + dt.timedelta(days=value)
    if isinstance(value, str):
        # Debezium's type IsoDate ends in a Z.
        return dt.date.fromisoformat(value.removesuffix("Z"))
    raise _misfit("DATE as days or ISO 8601", value)


def _timestamp(value: Any, semantic: Semantic | None) -> dt.datetime:
    """Read a time without a zone; a time that has a zone is converted to UTC."""
    if isinstance(value, str):
        # Python 3.10 reads neither a Z nor a fraction of other than 3 or 6 digits.
        text = _FRACTION.sub(lambda found: f"{found[0]:0<7.7}", value.replace("Z", "+00:00"))
        parsed = dt.datetime.fromisoformat(text)
        return parsed if parsed.tzinfo is None else parsed.astimezone(_UTC).replace(tzinfo=None)
    unit = _PER_MICROSECOND.get(semantic.name or "") if semantic is not None else None
    if is_int(value) and unit is not None:
        return _EPOCH + dt.timedelta(microseconds=value * unit[0] // unit[1])
    expected = (
        "a timestamp as ISO 8601, or as a number whose unit a schema tells "
        "(let the converter write schemas, or declare the column BIGINT)"
    )
    raise _misfit(expected, value)


_PLAIN: dict[type[st.DataType], Convert] = {
    st.BooleanType: _boolean,
    st.ByteType: _integer(8),
    st.ShortType: _integer(16),
    st.IntegerType: _integer(32),
    st.LongType: _integer(64),
    st.FloatType: _float,
    st.DoubleType: _float,
    st.StringType: _string,
    st.BinaryType: _binary,
    st.DateType: _date,
    st.TimestampType: _timestamp,
    st.TimestampNTZType: _timestamp,
}
# Values of these types need no call; most columns have one of them.
_AS_THEY_ARE = {st.StringType: str, st.BooleanType: bool, st.DoubleType: float}


def _converter(spark_type: st.DataType) -> Convert:
    if isinstance(spark_type, st.DecimalType):
        return _decimal(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, st.ArrayType):
        return _array(_converter(spark_type.elementType))
    if isinstance(spark_type, st.MapType):
        if not isinstance(spark_type.keyType, st.StringType):
            raise _unknown(spark_type)
        return _map(_converter(spark_type.valueType))
    if isinstance(spark_type, st.StructType):
        return _struct(RowConverter(spark_type))
    for known, convert in _PLAIN.items():
        if isinstance(spark_type, known):
            return convert
    raise _unknown(spark_type)


def _unknown(spark_type: st.DataType) -> DeclarationTypeError:
    return DeclarationTypeError(
        "a column of schema= must have a type that Debezium's JSON has a form for, got "
        f"{spark_type.simpleString()}; declare it STRING and cast it"
    )


def _array(element: Convert) -> Convert:
    def convert(value: Any, semantic: Semantic | None) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit("an array", value)
        items = None if semantic is None else semantic.items
        return [None if each is None else element(each, items) for each in value]

    return convert


def _map(element: Convert) -> Convert:
    def convert(value: Any, semantic: Semantic | None) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _misfit("an object", value)
        values = None if semantic is None else semantic.values
        return [(k, None if v is None else element(v, values)) for k, v in value.items()]

    return convert


def _struct(row: RowConverter) -> Convert:
    def convert(value: Any, semantic: Semantic | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit("an object", value)
        fields = {} if semantic is None else {each.field: each for each in semantic.fields}
        return row(value, fields)

    return convert


def _misfit(expected: str, value: Any) -> ValueError:
    return ValueError(f"must be {expected}, got {shown(value)}")


_SEMANTIC = msgspec.json.Decoder(Semantic)


# Every wrapped record brings the schema of its table, so a few schemas come again and again.
@lru_cache(maxsize=256)
def fields_of(schema: bytes) -> Mapping[str, Semantic]:
    """Read the fields of a schema of Kafka Connect, by name; none if it is empty.

    Raises:
        ValueError: `schema` is not such a schema.
    """
    try:
        fields = _SEMANTIC.decode(schema).fields if schema else []
    except RecursionError as error:
        msg = f"the schema is nested too deeply: {error}"
        raise ValueError(msg) from error
    return {each.field: each for each in fields}


# Every wrapped record brings the schema of its table, so a few schemas come again and again.
@lru_cache(maxsize=256)
def semantics_of(schema: bytes) -> Mapping[str, Mapping[str, Semantic]]:
    """Read the fields of each struct of an envelope's schema, such as `before` and `after`.

    Raises:
        ValueError: `schema` is not such a schema.
    """
    return {
        name: {each.field: each for each in side.fields} for name, side in fields_of(schema).items()
    }
