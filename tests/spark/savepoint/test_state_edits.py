# SPDX-License-Identifier: Apache-2.0
"""Which columns a savepoint takes for those of a state: casts that keep every value."""

import pytest
from pyspark.sql import types as st

from pyflinklike.state_processor._checkpoints.spark_types import is_wider

INT, LONG, DOUBLE, TEXT = st.IntegerType(), st.LongType(), st.DoubleType(), st.StringType()


def row(**fields):
    """A struct of these fields."""
    return st.StructType([st.StructField(name, kind) for name, kind in fields.items()])


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (INT, LONG),
        (st.FloatType(), DOUBLE),
        (st.NullType(), TEXT),
        (st.DecimalType(10, 2), st.DecimalType(12, 3)),
        (st.ArrayType(INT), st.ArrayType(LONG, containsNull=False)),
        (st.MapType(TEXT, row(a=INT)), st.MapType(TEXT, row(a=LONG))),
    ],
    ids=str,
)
def test_a_wider_number_is_taken_and_never_the_reverse(given, wanted):
    """Also within arrays, maps and rows: what Spark would cut off there nobody sees."""
    assert (True, False) == (is_wider(wanted, given), is_wider(given, wanted))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (st.ArrayType(DOUBLE), st.ArrayType(INT)),
        (st.MapType(DOUBLE, TEXT), st.MapType(LONG, TEXT)),
        (row(b=INT, a=INT), row(a=INT, b=INT)),
        (row(a=INT), row(a=INT, b=INT)),
        (LONG, DOUBLE),
        (TEXT, LONG),
        (st.TimestampNTZType(), st.TimestampType()),
        (st.DecimalType(10, 2), st.DecimalType(10, 3)),
    ],
    ids=str,
)
def test_what_would_change_a_value_is_refused(given, wanted):
    """Spark casts all of these without a word: fractions go, fields change places."""
    assert not is_wider(wanted, given)
