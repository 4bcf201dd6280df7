# SPDX-License-Identifier: Apache-2.0
"""Spark's types, Arrow's and ours, without a JVM; PySpark's own conversion is what they agree with."""

from __future__ import annotations

from inspect import signature

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import to_arrow_type

from pyflinklike import Types
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark._wire.schema import (
    InstantKeyTypeInfo,
    arrow_schema,
    arrow_type,
    key_type_of,
    output_schema,
)
from pyflinklike.types.key_codec import AnyKeyTypeInfo

SCALARS = [
    spark_types.BooleanType(),
    spark_types.ByteType(),
    spark_types.ShortType(),
    spark_types.IntegerType(),
    spark_types.LongType(),
    spark_types.FloatType(),
    spark_types.DoubleType(),
    spark_types.StringType(),
    spark_types.BinaryType(),
    spark_types.DateType(),
    spark_types.TimestampType(),
    spark_types.TimestampNTZType(),
    spark_types.DayTimeIntervalType(),
    spark_types.DecimalType(38, 18),
    spark_types.DecimalType(5, 0),
    spark_types.NullType(),
]
NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True)

# PySpark 3.5 has no variants.
NOT_FOR_PYTHON = getattr(spark_types, "VariantType", spark_types.YearMonthIntervalType)()


def nested(kinds):
    """Arrays, maps and structs of types."""
    return st.one_of(
        kinds.map(spark_types.ArrayType),
        st.builds(spark_types.MapType, st.just(spark_types.StringType()), kinds),
        st.builds(
            lambda names, types: spark_types.StructType(
                [spark_types.StructField(name, each) for name, each in zip(names, types)]
            ),
            NAMES,
            st.lists(kinds, min_size=3, max_size=3),
        ),
    )


KINDS = st.recursive(st.sampled_from(SCALARS), nested, max_leaves=5)


@given(KINDS)
def test_arrow_types_are_those_that_spark_takes(kind):
    """Of every type, however nested."""
    # PySpark 3.5 has no such argument, and UTC is what it takes.
    zone = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}
    assert to_arrow_type(kind, **zone) == arrow_type(kind)


def test_every_column_of_an_arrow_schema_is_nullable():
    """A function may yield None in any column, whatever Spark has declared."""
    schema = spark_types.StructType().add("n", spark_types.LongType(), nullable=False)

    assert pa.schema([pa.field("n", pa.int64(), nullable=True)]) == arrow_schema(schema)


@pytest.mark.parametrize("kind", [NOT_FOR_PYTHON, spark_types.ArrayType(NOT_FOR_PYTHON)], ids=repr)
def test_a_type_that_python_cannot_give_is_refused(kind):
    """With the remedy; also within others."""
    with pytest.raises(DeclarationTypeError, match="cast it after process"):
        arrow_type(kind)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (Types.LONG(), "struct<value:bigint>"),
        (Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]), "struct<a:int,b:string>"),
        (Types.ROW([Types.BOOLEAN(), Types.DOUBLE()]), "struct<f0:boolean,f1:double>"),
        (Types.TUPLE([Types.SHORT(), Types.SQL_DATE()]), "struct<f0:smallint,f1:date>"),
        (
            Types.ROW_NAMED(
                ["m", "l"],
                [Types.MAP(Types.STRING(), Types.FLOAT()), Types.LIST(Types.SQL_TIMESTAMP())],
            ),
            "struct<m:map<string,float>,l:array<timestamp_ntz>>",
        ),
        (spark_types.LongType(), "struct<value:bigint>"),
    ],
    ids=str,
)
def test_an_output_type_of_ours_is_a_schema_of_sparks(declared, expected):
    """Rows are structs; a type that is no row is the one column `value`."""
    assert expected == output_schema(None, declared).simpleString()


@pytest.mark.parametrize(
    ("declared", "error"),
    [
        (7, DeclarationTypeError),
        (None, DeclarationTypeError),
        (Types.ROW_NAMED(["a"], [Types.SQL_TIME()]), DeclarationTypeError),
        (spark_types.StructType(), DeclarationValueError),
        (spark_types.StructType().add("v", NOT_FOR_PYTHON), DeclarationTypeError),
    ],
    ids=str,
)
def test_what_is_no_output_type_is_refused(declared, error):
    """By its name in messages: a side output is told from the main one."""
    with pytest.raises(error, match=r"side output 'late'|an output column"):
        output_schema(None, declared, "side output 'late'")


def test_a_key_column_has_the_plain_type_where_there_is_one():
    """Integers of any size are one; several columns are a tuple."""
    long, text = spark_types.LongType(), spark_types.StringType()

    assert Types.LONG() == key_type_of([spark_types.ByteType()], "UTC")
    assert Types.STRING() == key_type_of([text], "UTC")
    assert Types.TUPLE([Types.LONG(), Types.STRING()]) == key_type_of([long, text], "UTC")


def test_other_key_columns_are_kept_encoded():
    """Those with instants by the instant, also where they are within a struct."""
    day, instant = spark_types.DateType(), spark_types.TimestampType()
    struct = spark_types.StructType().add("at", instant)

    assert AnyKeyTypeInfo() == key_type_of([day], "UTC")
    for columns in ([instant], [day, instant], [struct]):
        assert type(key_type_of(columns, "UTC")) is InstantKeyTypeInfo


@pytest.mark.parametrize(
    "kind",
    [
        spark_types.ArrayType(spark_types.LongType()),
        spark_types.MapType(spark_types.LongType(), spark_types.LongType()),
        *([spark_types.VariantType()] if hasattr(spark_types, "VariantType") else []),
    ],
    ids=repr,
)
def test_a_key_must_compare(kind):
    """Arrays, maps and variants have no equality by which Spark could group."""
    with pytest.raises(DeclarationTypeError, match="values can be compared"):
        key_type_of([kind], "UTC")
