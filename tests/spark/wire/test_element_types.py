# SPDX-License-Identifier: Apache-2.0
"""What a DataFrame's elements are in state: every Spark type comes back as it was."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import types as st

from pyflinklike import Row
from pyflinklike.errors import StateValueError
from pyflinklike.spark.wire.element_types import element_type

ZONE = "Europe/Berlin"
SECOND_HALF_PAST_TWO = dt.datetime(2026, 10, 25, 2, 30, fold=1)
STRUCT = st.StructType(
    [st.StructField("x", st.IntegerType()), st.StructField("t", st.TimestampType())]
)

CASES = [
    (st.BooleanType(), True),
    (st.ByteType(), -128),
    (st.LongType(), 2**62),
    (st.FloatType(), 0.5),
    (st.StringType(), "ä"),
    (st.BinaryType(), b"\x00\xff"),
    (st.DateType(), dt.date(1969, 12, 31)),
    (st.TimestampNTZType(), dt.datetime(2026, 1, 1, 1, 1, 1, 1)),
    (st.TimestampType(), SECOND_HALF_PAST_TWO),
    (st.DecimalType(10, 2), Decimal("1.10")),
    (st.DayTimeIntervalType(), dt.timedelta(days=-1, microseconds=1)),
    (st.ArrayType(st.LongType()), [1, None]),
    (st.ArrayType(STRUCT), [Row(x=1, t=SECOND_HALF_PAST_TWO), None]),
    (st.MapType(st.StringType(), st.LongType()), {"a": 1, "b": None}),
    (STRUCT, Row(x=None, t=SECOND_HALF_PAST_TWO)),
    (st.NullType(), None),
]


def of(kind, zone=ZONE):
    """The type of the elements of a DataFrame with one column, `c`."""
    return element_type(st.StructType([st.StructField("c", kind)]), zone)


@pytest.mark.parametrize(
    ("kind", "value"), CASES, ids=lambda each: getattr(each, "simpleString", str)()
)
@pytest.mark.parametrize("is_null", [False, True])
def test_values_of_all_types_come_back_as_they_were(kind, value, is_null):
    """From working state and from the log, with the `fold` of an hour that comes twice."""
    row, element = Row(c=None if is_null else value), of(kind)
    stored = element.freeze(row)
    read = element.from_arrow(element.to_arrow([stored]))[0]

    assert repr([row] * 2) == repr([element.thaw(stored), element.thaw(read)])


def test_a_deleted_element_is_null_in_the_log():
    """Every type takes None there."""
    element = element_type(
        st.StructType([st.StructField(f"c{at}", kind) for at, (kind, _) in enumerate(CASES)]), ZONE
    )

    assert [None] == element.from_arrow(element.to_arrow([None]))


@pytest.mark.parametrize("value", [[1, [2]], {"a": [1]}], ids=["list", "map"])
def test_what_was_read_is_the_callers_own(value):
    """A list or map that is changed after it was stored, or after it was read, changes nothing in state."""
    kind = (
        st.ArrayType(st.LongType())
        if isinstance(value, list)
        else st.MapType(st.StringType(), st.ArrayType(st.LongType()))
    )
    value = [1, 2] if isinstance(value, list) else value
    element = of(kind)
    stored = element.freeze(Row(c=value))
    value.clear()
    element.thaw(stored).c.clear()

    assert element.thaw(stored).c


def test_an_instant_is_kept_whatever_the_time_zone_is_at_the_next_start():
    """The log holds instants; a naive local time would be another one in another zone."""
    berlin, utc = of(st.TimestampType()), of(st.TimestampType(), "UTC")
    column = berlin.to_arrow([berlin.freeze(Row(c=SECOND_HALF_PAST_TWO))])

    assert (Row(c=dt.datetime(2026, 10, 25, 1, 30)), berlin.signature) == (
        utc.from_arrow(column)[0],
        utc.signature,
    )


def test_an_instant_with_a_zone_becomes_the_sessions():
    """A function may give one; what is read is what a column would show."""
    noon = dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone.utc)

    assert Row(c=dt.datetime(2026, 7, 1, 14)) == of(st.TimestampType()).freeze(Row(c=noon))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (st.DecimalType(4, 2), Decimal("100.00")),
        (st.DecimalType(4, 2), "1"),
        (st.ArrayType(st.IntegerType()), [2**31]),
        (st.TimestampType(), 0),
        (STRUCT, Row(x=1)),
    ],
)
def test_what_a_column_cannot_hold_is_refused_when_it_is_written(kind, value):
    """A commit long after could not tell whose value it was."""
    with pytest.raises(StateValueError, match=r"field 'c' .* takes what a column of type"):
        of(kind).freeze(Row(c=value))
