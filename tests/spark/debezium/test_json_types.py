# SPDX-License-Identifier: Apache-2.0
"""Debezium's JSON as the values of a Spark schema, without a JVM."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import types as st

from pyflinklike.errors import DeclarationTypeError
from pyflinklike.spark.debezium.json_values import RowConverter, Semantic

NUMERIC = [
    st.ByteType(),
    st.LongType(),
    st.FloatType(),
    st.DoubleType(),
    st.DecimalType(10, 2),
    st.DateType(),
    st.TimestampType(),
    st.TimestampNTZType(),
]
MS = Semantic(name="io.debezium.time.Timestamp")


def converted(kind, value, semantic=MS):
    """A value in a column of this type."""
    convert = RowConverter(st.StructType([st.StructField("column", kind)]))
    return convert({"column": value}, {"column": semantic})["column"]


@pytest.mark.parametrize("kind", NUMERIC, ids=repr)
def test_a_bool_is_no_number(kind):
    """Nor is it a day or a time, though Python has it for an int."""
    with pytest.raises(ValueError, match=r"column 'column': must be .*, got True"):
        converted(kind, True)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (st.LongType(), -1, -1),
        (st.DoubleType(), "NaN", pytest.approx(float("nan"), nan_ok=True)),
        (st.DecimalType(10, 2), "1.50", Decimal("1.50")),
        (st.DateType(), -1, dt.date(1969, 12, 31)),
        (st.TimestampType(), -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        (st.TimestampType(), "2024-01-01T01:00:00+01:00", dt.datetime(2024, 1, 1)),
        (st.ArrayType(st.StringType()), ["a", {"b": 1}, None], ["a", '{"b":1}', None]),
        (st.MapType(st.StringType(), st.LongType()), {"a": 1}, [("a", 1)]),
    ],
    ids=repr,
)
def test_a_value_becomes_one_of_the_columns_type(kind, value, expected):
    """Days and ms before 1970, texts, and what is within arrays and objects."""
    assert expected == converted(kind, value)


@pytest.mark.parametrize(
    "kind",
    [
        st.DayTimeIntervalType(),
        st.NullType(),
        st.MapType(st.LongType(), st.StringType()),
        st.ArrayType(st.StructType([st.StructField("x", st.DayTimeIntervalType())])),
    ],
    ids=repr,
)
def test_a_type_without_a_form_in_json_is_refused(kind):
    """Before a record is read, also within others; keys of objects are texts."""
    with pytest.raises(DeclarationTypeError, match="declare it STRING"):
        RowConverter(st.StructType([st.StructField("column", kind)]))
