# SPDX-License-Identifier: Apache-2.0
"""Tables that convert between Spark's types, Arrow's and ours."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._messages import instance_of, short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, IncompatibleStateError
from pyflinklike.functions.output_tag import ChangelogTag
from pyflinklike.types import (
    ListTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from pyflinklike.types.arrow_rows import to_python
from pyflinklike.types.catalog import PLAIN
from pyflinklike.types.key_codec import AnyKeyTypeInfo, decode_key
from pyflinklike.types.time_types import local_time, to_instant

# PySpark 3.5 has no VariantType; the second MapType stands in for it.
_NO_KEYS = (st.ArrayType, st.MapType, getattr(st, "VariantType", st.MapType))

_KEYS: dict[type[st.DataType], TypeInformation] = {
    st.BooleanType: Types.BOOLEAN(),
    st.ByteType: Types.LONG(),
    st.ShortType: Types.LONG(),
    st.IntegerType: Types.LONG(),
    st.LongType: Types.LONG(),
    st.StringType: Types.STRING(),
}

_SPARK: dict[TypeInformation, st.DataType] = {
    Types.BOOLEAN(): st.BooleanType(),
    Types.BYTE(): st.ByteType(),
    Types.SHORT(): st.ShortType(),
    Types.INT(): st.IntegerType(),
    Types.LONG(): st.LongType(),
    Types.FLOAT(): st.FloatType(),
    Types.DOUBLE(): st.DoubleType(),
    Types.STRING(): st.StringType(),
    Types.CHAR(): st.StringType(),
    Types.BIG_INT(): st.DecimalType(38, 0),
    Types.BIG_DEC(): st.DecimalType(38, 18),
    Types.SQL_DATE(): st.DateType(),
    Types.SQL_TIMESTAMP(): st.TimestampNTZType(),
    Types.PICKLED_BYTE_ARRAY(): st.BinaryType(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.BinaryType(),
}


def arrow_type(spark_type: st.DataType) -> pa.DataType:
    """Return the Arrow type by which Spark exchanges values of a Spark type.

    Raises:
        DeclarationTypeError: Python functions cannot give values of this type.
    """
    if isinstance(spark_type, st.DecimalType):
        return pa.decimal128(spark_type.precision, spark_type.scale)
    if isinstance(spark_type, st.ArrayType):
        return pa.list_(arrow_type(spark_type.elementType))
    if isinstance(spark_type, st.MapType):
        return pa.map_(arrow_type(spark_type.keyType), arrow_type(spark_type.valueType))
    if isinstance(spark_type, st.StructType):
        return pa.struct(list(arrow_schema(spark_type)))
    if isinstance(spark_type, st.StringType):  # of any collation
        return pa.string()
    if isinstance(spark_type, st.DayTimeIntervalType):
        return pa.duration("us")
    if isinstance(spark_type, st.NullType):
        return pa.null()
    name = spark_type.simpleString()
    if name in PLAIN:
        return PLAIN[name]
    msg = f"an output column must have a type that Arrow knows, got {name}; cast it after process()"
    raise DeclarationTypeError(msg)


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """Return the Arrow schema of a Spark schema, with all fields nullable."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


@attrs.frozen
class WireSchema:
    """The columns of rows that go from one of our Python stages to another, through Spark.

    Args:
        arrow: The schema of the record batches that a stage makes.
    """

    arrow: pa.Schema

    @property
    def ddl(self) -> str:
        """The same columns in DDL, as Spark takes them."""
        return ", ".join(f"{each.name} {_ddl(each.type)}" for each in self.arrow)

    def and_also(self, *fields: tuple[str, pa.DataType]) -> WireSchema:
        """Return a schema with further columns behind these."""
        return WireSchema(pa.schema([*self.arrow, *(pa.field(*each) for each in fields)]))

    def batch(self, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
        """Make a record batch of one or more rows."""
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows), self.arrow.types)]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)


_DDL: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.timestamp("us", tz="UTC"): "timestamp",
}


def _ddl(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"array<{_ddl(kind.value_type)}>"
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{', '.join(f'{each.name} {_ddl(each.type)}' for each in fields)}>"
    return _DDL[kind]


def key_type_of(types: list[st.DataType], time_zone: str) -> TypeInformation:
    """Return the type that freezes and writes keys.

    Args:
        types: The types of the key columns; several columns make the key a tuple.
        time_zone: The zone of the Spark session, in which a function sees keys that hold instants.

    Raises:
        DeclarationTypeError: A column cannot be a key.
    """
    for each in types:
        if isinstance(each, _NO_KEYS):
            msg = (
                f"a key column must have a type whose values can be compared, got "
                f"{each.simpleString()}; key by a field of it, or by to_json() of it"
            )
            raise DeclarationTypeError(msg)
    keys = [_KEYS.get(type(each)) for each in types]
    if any(each is None for each in keys):
        kinds = [arrow_type(each) for each in types]
        several = pa.struct([(f"f{at}", kind) for at, kind in enumerate(kinds)])
        kind = kinds[0] if len(kinds) == 1 else several
        return InstantKeyTypeInfo(kind, time_zone) if _holds_instants(kind) else AnyKeyTypeInfo()
    known = [each for each in keys if each is not None]
    return known[0] if len(known) == 1 else Types.TUPLE(known)


def output_schema(df: DataFrame, output_type: Any, what: str = "output_type") -> st.StructType:
    """Return the Spark schema of a user's output type.

    Args:
        df: Any DataFrame of the session, which parses DDL.
        output_type: DDL, a Spark type, or a TypeInformation.  A type that is not a row
            becomes a single column `value`.
        what: The argument's name, for messages.

    Raises:
        DeclarationTypeError: `output_type` is something else.
        DeclarationValueError: The DDL does not parse.
    """
    if isinstance(output_type, str):
        schema: Any = ddl_type(df, output_type, what)
    elif isinstance(output_type, st.DataType):
        schema = output_type
    elif isinstance(output_type, TypeInformation):
        schema = _spark_type(output_type, what)
    else:
        remedy = instance_of((st.DataType, TypeInformation), output_type, "write it as DDL")
        msg = (
            f"{what} must be DDL, a StructType or Types.ROW_NAMED(...), "
            f"got {short_repr(output_type)}; {remedy}"
        )
        raise DeclarationTypeError(msg)
    if not isinstance(schema, st.StructType):
        schema = st.StructType([st.StructField("value", schema)])
    if not schema.fields:
        msg = f"{what} must have at least one column, got {short_repr(output_type)}"
        raise DeclarationValueError(msg)
    arrow_schema(schema)
    checked: st.StructType = schema
    return checked


def ddl_type(df: DataFrame, ddl: str, what: str) -> st.DataType:
    """Return the Spark type that DDL declares.

    Args:
        df: Any DataFrame of the session, which parses the DDL.
        ddl: Several columns, or a single type.
        what: The argument's name, for messages.

    Raises:
        DeclarationValueError: The DDL does not parse.
    """
    try:
        return df.sparkSession.createDataFrame([], ddl).schema
    except PySparkException as error:
        msg = (
            f'{what} must be DDL such as "user string, total long", got {short_repr(ddl)}: '
            f"{_wrong_word(error)}"
        )
        raise DeclarationValueError(msg) from error


def _wrong_word(error: PySparkException) -> str:
    """Return Spark's reason for refusing DDL, without its error class and SQLSTATE."""
    said = str(error).strip().partition("\n")[0]
    return re.sub(r"^\[[\w.]+\] | SQLSTATE: \w+.*$", "", said).rstrip(". ")


def changelog_schema(df: DataFrame, key_columns: Sequence[str], tag: ChangelogTag) -> st.StructType:
    """Return the Spark schema of a store's `ChangelogRecord`s.

    Args:
        df: The DataFrame that is keyed, which gives the types of the key columns.
        key_columns: The columns that make the key.
        tag: The side output of the store's changes.

    Raises:
        DeclarationTypeError: Spark does not have the type of the store's keys or values.
    """
    what = f"side output {tag.tag_id!r}"
    parts = [st.StructField(name, _spark_type(each, what)) for name, each in tag.key_fields]
    if tag.has_current_key:
        columns = [df.schema[column] for column in key_columns]
        current = columns[0].dataType if len(columns) == 1 else st.StructType(columns)
        parts.insert(0, st.StructField("current_key", current))
    return st.StructType(
        [
            st.StructField("store", st.StringType()),
            st.StructField("key", parts[0].dataType if len(parts) == 1 else st.StructType(parts)),
            st.StructField("value", _spark_type(tag.value_type, what)),
            st.StructField("ts", st.LongType()),
            st.StructField("op", st.StringType()),
        ]
    )


def _spark_type(type_info: TypeInformation, what: str) -> st.DataType:
    known = _SPARK.get(type_info)
    if known is not None:
        return known
    of_column: st.DataType | None = getattr(type_info, "spark_type", None)
    if of_column is not None:  # a `ColumnTypeInfo`, whose module imports this one
        return of_column
    if isinstance(type_info, (RowTypeInfo, TupleTypeInfo)):
        names = getattr(type_info, "field_names", None) or [
            f"f{index}" for index in range(len(type_info.field_types))
        ]
        return st.StructType(
            [
                st.StructField(name, _spark_type(each, what))
                for name, each in zip(names, type_info.field_types)
            ]
        )
    if isinstance(type_info, MapTypeInfo):
        key, value = type_info._key_type_info, type_info._value_type_info
        return st.MapType(_spark_type(key, what), _spark_type(value, what))
    if isinstance(type_info, ListTypeInfo):
        return st.ArrayType(_spark_type(type_info.elem_type, what))
    msg = f"{what} must be of types that Spark has, got {type_info!r}; write it as DDL"
    raise DeclarationTypeError(msg)


# Keys that hold instants are TIMESTAMP columns, by themselves, among others or within structs.  State
# is kept by the instant, whatever the session's time zone.  So keys are neither mixed up nor lost in
# the hour that comes twice when clocks go back, or after a restart in another zone.  A function sees
# such a key as a local time, as it sees the column.


def _holds_instants(kind: pa.DataType) -> bool:
    """Return whether values of an Arrow type are instants, or structs with instants in them."""
    if pa.types.is_struct(kind):
        return any(_holds_instants(kind.field(at).type) for at in range(kind.num_fields))
    return pa.types.is_timestamp(kind) and kind.tz is not None


@attrs.frozen(repr=False)
class InstantKeyTypeInfo(AnyKeyTypeInfo):
    """The type of keys that `AnyKeyTypeInfo` writes, with instants as datetimes in UTC.

    Args:
        kind: The type of the key column; a struct for several columns.
        time_zone: The zone of the Spark session.  It is not written to state.
    """

    kind: pa.DataType
    time_zone: str = attrs.field(eq=False)

    def freeze(self, value: Any) -> Any:
        """Encode a key in the user's form, or a key that holds instants already."""
        return super().freeze(self._with_instants(value, self.kind))

    freeze_key = freeze

    def thaw(self, stored: Any) -> Any:
        """Return the key in the user's form."""
        return self._with_local_times(super().thaw(stored))

    def from_arrow(self, column: pa.Array) -> list[Any]:
        """Read the keys of a binary column.

        Raises:
            IncompatibleStateError: A key holds a local time, whose zone is unknown.
        """
        for key in map(decode_key, column.to_pylist()):
            if self._with_instants(key, self.kind) != key:
                msg = (
                    "state of a timestamp key is kept by the instant, got a key that holds a "
                    f"local time: {short_repr(key)}; its zone is unknown, so begin without this state"
                )
                raise IncompatibleStateError(msg)
        return super().from_arrow(column)

    def frozen(self, columns: Sequence[pa.Array]) -> list[Any]:
        """Return the stored keys of records.

        Args:
            columns: The key columns of the records.
        """
        values = [_instants_of(column) for column in columns]
        keys: Sequence[Any] = values[0] if len(values) == 1 else list(zip(*values))
        return [super(InstantKeyTypeInfo, self).freeze(key) for key in keys]

    def _with_instants(self, value: Any, kind: pa.DataType) -> Any:
        if isinstance(value, tuple) and pa.types.is_struct(kind) and len(value) == kind.num_fields:
            return tuple(
                self._with_instants(part, kind.field(at).type) for at, part in enumerate(value)
            )
        if isinstance(value, dt.datetime) and _holds_instants(kind):
            return to_instant(value, self.time_zone)
        return value

    def _with_local_times(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._with_local_times, value))
        if isinstance(value, dt.datetime) and value.tzinfo is not None:
            return local_time(value, self.time_zone)
        return value


def _instants_of(column: pa.Array) -> list[Any]:
    """Return the values of a column, instants as datetimes in UTC and structs as tuples."""
    kind = column.type
    if not _holds_instants(kind):
        return to_python(column, "UTC")
    if pa.types.is_timestamp(kind):
        naive = to_python(column, "UTC")
        return [each and each.replace(tzinfo=dt.timezone.utc) for each in naive]
    parts = list(zip(*map(_instants_of, column.flatten())))
    valid = column.is_valid().to_pylist()
    return [part if is_valid else None for part, is_valid in zip(parts, valid)]
