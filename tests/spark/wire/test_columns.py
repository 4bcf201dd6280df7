# SPDX-License-Identifier: Apache-2.0
"""Python's values as Arrow columns, without a JVM: what is written is read back as it was."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pytest
from arrow_support import INSTANT, WALL_TIME, ZONE, kinds, rows_of, schemas, values_of
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row as SparkRow
from pyspark.sql.pandas.types import from_arrow_schema

from pyflinklike import Row
from pyflinklike.errors import OutputError, StateValueError
from pyflinklike.spark._wire.output_layout import OutputEncoder
from pyflinklike.types.arrow_rows import milliseconds, to_python
from pyflinklike.types.conversions import to_column

UTC = dt.timezone.utc
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)
PLACE = pa.struct([("x", pa.int64()), ("at", INSTANT)])
NOON = dt.datetime(2024, 1, 1, 12)


@given(st.data())
def test_what_is_written_is_read_back(data):
    """Values of every type, nested, null and none at all; local times by their instant."""
    kind = data.draw(kinds())
    values = data.draw(st.lists(values_of(kind), max_size=6))

    column = to_column(values, kind, ZONE)

    assert kind == column.type
    assert values == to_python(column, ZONE)
    assert column.equals(to_column(to_python(column, ZONE), kind, ZONE))


@given(st.data())
def test_a_part_of_a_column_is_read_as_that_part(data):
    """Columns come sliced, out of a larger batch: lists, maps and structs have offsets then."""
    kind = data.draw(kinds())
    values = data.draw(st.lists(values_of(kind), max_size=6))
    start, length = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 6))

    part = to_column(values, kind, ZONE).slice(start, length)

    assert values[start : start + length] == to_python(part, ZONE)


@given(st.lists(st.none() | st.datetimes(timezones=st.just(UTC)), max_size=8))
def test_milliseconds_are_rounded_down(instants):
    """Also before 1970, where division towards zero would round up; null stays null."""
    column = pa.array(instants, INSTANT)

    expected = [each and (each - EPOCH) // dt.timedelta(milliseconds=1) for each in instants]
    assert expected == milliseconds(column).to_pylist()


def test_not_a_number_is_a_number():
    """A NaN of a double column is written as one, not as null."""
    (value,) = to_python(to_column([math.nan], pa.float64(), ZONE), ZONE)

    assert math.isnan(value)


@pytest.mark.parametrize("zone", ["UTC", ZONE])
@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (lambda at: at, INSTANT),
        (lambda at: [at], pa.list_(INSTANT)),
        (lambda at: {"k": at}, pa.map_(pa.string(), INSTANT)),
        (lambda at: (1, at), PLACE),
        (lambda at: Row(x=1, at=at), PLACE),
        (lambda at: {"x": 1, "at": at}, PLACE),
        (lambda at: [(1, at)], pa.list_(PLACE)),
        (lambda at: {"k": [Row(x=1, at=at)]}, pa.map_(pa.string(), pa.list_(PLACE))),
    ],
)
def test_a_naive_time_is_of_the_sessions_zone_wherever_it_stands(wrap, kind, zone):
    """In a list, a map, a struct, and in structs within these: the same as with its zone."""
    offset = dt.timedelta(hours=-5) if zone == ZONE else dt.timedelta(0)
    aware = NOON.replace(tzinfo=dt.timezone(offset))

    assert to_column([wrap(aware)], kind, zone).equals(to_column([wrap(NOON)], kind, zone))


def test_a_time_without_a_zone_is_left_as_it_is():
    """A column without a zone has what the clock on the wall shows."""
    assert [NOON] == to_column([NOON], WALL_TIME, ZONE).to_pylist()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ((1,), r"takes a Row, tuple, list or dict of the fields \['x', 'at'\], got \(1,\)"),
        ((1, NOON, 2), "got .* convert it"),
        (Row(x=1), r"it lacks \['at'\]: a row with names goes by them"),
        (Row(x=1, on=NOON), r"it lacks \['at'\] and has \['on'\]"),
        (SparkRow(x=1, on=NOON), r"it lacks \['at'\] and has \['on'\]"),
        ({"x": 1, "at": NOON, "y": 2}, r"it has \['y'\]"),
        ("text", "got 'text'"),
        (7, r"got 7 \(int\)"),
    ],
)
def test_what_is_no_such_struct_is_refused(value, told):
    """A tuple of another width, a row of other names, and what has no fields."""
    with pytest.raises(StateValueError, match=told):
        to_column([value], PLACE, ZONE)


def encoder(schema):
    """An encoder whose keys are shown as they are."""
    return OutputEncoder(from_arrow_schema(schema, True), ZONE, "totals output", lambda key: key)


@given(st.data())
def test_rows_are_encoded_column_by_column(data):
    """Tuples, Rows, lists and mappings alike, in the order of the schema's columns."""
    schema = data.draw(schemas())
    rows = data.draw(rows_of(schema))
    forms = [
        tuple,
        list,
        lambda row: Row(**dict(zip(schema.names, row))),
        lambda row: Row(**dict(reversed([*zip(schema.names, row)]))),
        lambda row: dict(reversed([*zip(schema.names, row)])),
        lambda row: SparkRow(**dict(reversed([*zip(schema.names, row)]))),
    ]
    given_as = [data.draw(st.sampled_from(forms))(row) for row in rows]

    batch = encoder(schema).encode(given_as, ["key"] * len(rows))

    assert schema == batch.schema
    assert rows == list(zip(*(to_python(column, ZONE) for column in batch.columns)))


PAIR = pa.schema([("name", pa.string()), ("n", pa.int32())])


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (("a", "b"), ["column 'n' is int", "takes an int in -2**31..2**31-1, got 'b' (str)"]),
        (("a", 2**31), ["column 'n' is int", "2147483648 (int)"]),
        ((1, 2), ["column 'name' is string", "takes a str, got 1 (int)"]),
        (("a",), ["must have the columns ['name', 'n']", "it has 1 values"]),
        (("a", 1, 2), ["must have the columns", "it has 3 values"]),
        ({"name": "a"}, ["must have the columns ['name', 'n']", "it lacks ['n']"]),
        (Row(m=1, name="a"), ["got Row(m=1, name='a')", "it lacks ['n'] and has ['m']"]),
        (SparkRow(m=1, name="a"), ["got Row(m=1, name='a')", "it lacks ['n'] and has ['m']"]),
        (7, ["must be a tuple, Row or mapping of the columns ['name', 'n']", "got 7"]),
    ],
)
def test_a_row_that_does_not_fit_is_told_with_its_key(row, told):
    """The one row among good ones: which column, which value, and for which key."""
    with pytest.raises(OutputError) as error:
        encoder(PAIR).encode([("a", 1), row, ("c", 3)], ["one", "two", "three"])

    for text in [*told, "totals output", "for key 'two'"]:
        assert text in str(error.value)


def test_one_column_takes_plain_values():
    """Where a row has one column, a value that is no row is that column."""
    batch = encoder(pa.schema([("n", pa.int64())])).encode([1, (2,), [3]], ["k"] * 3)

    assert [1, 2, 3] == batch.column("n").to_pylist()
