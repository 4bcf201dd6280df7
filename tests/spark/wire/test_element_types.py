# SPDX-License-Identifier: Apache-2.0
"""What a DataFrame's elements are in state: every Spark type comes back as it was."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import types as st

from pyflinklike import Row
from pyflinklike.aggregations import Fold, Sum
from pyflinklike.aggregations._element_types import element_type
from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.state_processor import open_savepoint, write_savepoint
from pyflinklike.testing import KeyedProcessHarness
from pyflinklike.types.catalog import type_of

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


DEEP = st.StructType(
    [
        st.StructField("a b", st.MapType(st.StringType(), st.ArrayType(STRUCT))),
        st.StructField("d", st.DecimalType(38, 18)),
        st.StructField("none", st.StructType([])),
    ]
)


DECIMALS = {
    st.DecimalType(4, 2): ["99.99", "-99.99", "0.01", "0.00", "-0.00", "1.5", "100.00", "1E+1"],
    st.DecimalType(38, 18): ["99999999999999999999.999999999999999999", "-0.000000000000000001"],
    st.DecimalType(30, 1): ["99999999999999999999999999999.9", "0.1", "-0.6", "0.0"],
}


@pytest.mark.parametrize("kind", DECIMALS, ids=lambda kind: kind.simpleString())
def test_decimals_are_added_at_once_as_one_by_one(kind):
    """With the same digits, rounded where Python rounds, and refused where the column refuses."""
    element, function = of(kind), Sum("c")
    at_once, added = function.make_stored_fold(element), 0
    for texts in itertools.product(DECIMALS[kind], repeat=3):
        rows = [Row(c=Decimal(text)) for text in texts]
        if not element.are_stored(rows):
            continue
        expected = made(element.freeze, rows[0])
        for row in rows[1:]:
            if expected != "refused":
                expected = made(element.freeze, function.reduce(expected, row))
        found = made(lambda some: element.freeze(at_once(some)), rows)
        assert repr(expected) == repr(found), texts
        added += 1
    assert added >= 8


@pytest.mark.parametrize("kind", DECIMALS, ids=lambda kind: kind.simpleString())
def test_a_decimal_in_state_has_the_digits_that_the_log_gives_back(kind):
    """Also one that needs no way through Arrow."""
    element = of(kind).field_types[0]
    for text in ["0", "-0", *itertools.chain(*DECIMALS.values())]:
        column = made(element.to_arrow, [Decimal(text)])
        expected = column if column == "refused" else repr(element.from_arrow(column)[0])
        stored = made(element.freeze, Decimal(text))
        assert expected == (stored if stored == "refused" else repr(stored)), text


def made(make, *given):
    """What is made, or that it is refused."""
    try:
        return make(*given)
    except (StateValueError, pa.ArrowException):
        return "refused"


def test_decimals_of_another_scale_are_not_stored_as_they_are():
    """They are equal, but have other digits."""
    element = of(st.DecimalType(4, 2))
    texts = "1.00", "1.0", "-0.00", "100.00"
    assert [True, False, False, False] == [
        element.are_stored([Row(c=Decimal("1.00")), Row(c=None), Row(c=Decimal(text))])
        for text in texts
    ]


@pytest.mark.parametrize(
    "kind", [*(kind for kind, _ in CASES), DEEP], ids=lambda kind: kind.simpleString()
)
def test_who_reads_state_without_the_program_knows_the_type(kind):
    """By its signature: the same column, and the same signature again."""
    declared = of(kind)
    read = type_of(declared.signature)

    assert (declared.signature, declared.arrow_type) == (read.signature, read.arrow_type)


@pytest.mark.parametrize(
    "text",
    ["timestamp_ltz", "array<int", "struct<a>", "decimal(1)", "array<" * 70 + "int" + ">" * 70],
)
def test_a_type_of_a_column_that_spark_has_not_is_refused(text):
    """Such state was damaged, or a later version wrote it."""
    with pytest.raises(IncompatibleStateError, match="types are pyflinklike's own, got 'ColumnT"):
        type_of(f"ColumnTypeInfo({text})")


INSTANT = dt.datetime(2026, 10, 25, 1, 30, tzinfo=dt.timezone.utc)


def test_a_fold_of_rows_with_instants_is_asked_without_its_program(tmp_path):
    """From the savepoint of a harness, as the command line asks."""
    kind = element_type(
        st.StructType(
            [
                st.StructField("k", st.StringType()),
                st.StructField("n", st.LongType()),
                st.StructField("t", st.TimestampType()),
                st.StructField("d", st.DecimalType(4, 2)),
            ]
        ),
        ZONE,
    )
    row = Row(k="a", n=2, t=SECOND_HALF_PAST_TWO, d=Decimal("1.10"))
    with KeyedProcessHarness(Fold(Sum("n"), kind), lambda row: row.k) as driver:
        driver.process_element(row)
        write_savepoint(driver, tmp_path / "saved")

    rows = open_savepoint(tmp_path / "saved").dataset("_reduce_state").to_table()
    value = {"k": "a", "n": 2, "t": INSTANT, "d": Decimal("1.10")}
    assert [value] == rows.column("value").to_pylist()
    saved = open_savepoint(tmp_path / "saved")
    with KeyedProcessHarness(Fold(Sum("n"), kind), lambda row: row.k, restore=saved) as driver:
        assert [row._replace(n=4)] == driver.process_element(row)


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
    with pytest.raises(StateValueError, match=r"field 'c' of .* takes .*, got "):
        of(kind).freeze(Row(c=value))
