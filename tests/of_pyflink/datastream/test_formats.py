# SPDX-License-Identifier: Apache-2.0
"""Rows as JSON and CSV, as Flink writes and reads them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    SparkSetupError,
    StateValueError,
)
from pyflinklike.pyflink._graph.functions import own_copy
from pyflinklike.pyflink.common import Row, Types
from pyflinklike.pyflink.datastream.formats.csv import (
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
)
from pyflinklike.pyflink.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

SCALARS = {
    "text": (Types.STRING(), st.text()),
    "yes": (Types.BOOLEAN(), st.booleans()),
    "byte": (Types.BYTE(), st.integers(-128, 127)),
    "whole": (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    "long": (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
    "real": (Types.DOUBLE(), st.floats(allow_nan=False)),
    "single": (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    "big": (Types.BIG_INT(), st.integers()),
    "exact": (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    "day": (Types.SQL_DATE(), st.dates()),
    "at": (Types.SQL_TIME(), st.times()),
    "moment": (Types.SQL_TIMESTAMP(), st.datetimes()),
    "raw": (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary()),
}
FLAT = Types.ROW_NAMED(list(SCALARS), [kind for kind, _ in SCALARS.values()])
VALUES = st.tuples(*(st.none() | values for _, values in SCALARS.values()))
INNER = Types.ROW_NAMED(["n", "s"], [Types.INT(), Types.STRING()])
NESTED = Types.ROW_NAMED(
    ["list", "map", "row", "rows"],
    [
        Types.LIST(Types.LONG()),
        Types.MAP(Types.STRING(), Types.DOUBLE()),
        INNER,
        Types.OBJECT_ARRAY(INNER),
    ],
)
INNER_VALUES = st.tuples(st.none() | st.integers(0, 9), st.none() | st.text(max_size=3))
NESTED_VALUES = st.tuples(
    st.lists(st.integers(-9, 9), max_size=3),
    st.dictionaries(st.text(max_size=3), st.floats(allow_nan=False), max_size=3),
    st.none() | INNER_VALUES,
    st.lists(st.none() | INNER_VALUES, max_size=3),
)


def to_json(kind):
    """What writes rows of a type."""
    return JsonRowSerializationSchema.builder().with_type_info(kind).build()


def of_json(kind):
    """What reads them."""
    return JsonRowDeserializationSchema.builder().type_info(kind).build()


@given(VALUES)
def test_rows_come_back_from_json(values):
    """Of all types that have no parts, None included."""
    row = FLAT.converted(values)

    assert row == of_json(FLAT).deserialize(to_json(FLAT).serialize(row))


@given(NESTED_VALUES)
def test_rows_with_parts_come_back_from_json(values):
    """Lists, maps, rows, and arrays of rows."""
    row = NESTED.converted(values)

    assert row == of_json(NESTED).deserialize(to_json(NESTED).serialize(row))


CSV_NULL = "\\N"


@given(VALUES)
def test_rows_come_back_from_csv(values):
    """With a literal for None; only a text that is the literal cannot be told from it."""
    row = FLAT.converted(values)
    writing = CsvRowSerializationSchema.Builder(FLAT).set_null_literal(CSV_NULL).build()
    reading = CsvRowDeserializationSchema.Builder(FLAT).set_null_literal(CSV_NULL).build()

    given_back = reading.deserialize(writing.serialize(row))

    if row.text == CSV_NULL:
        row["text"] = None
    assert row == given_back


@given(st.text(), st.sampled_from(",;|\t"), st.sampled_from("\"'"), st.none() | st.just("\\"))
def test_any_text_comes_back_from_csv(text, delimiter, quote, escape):
    """Whatever is between fields, around them, and before a quote."""
    kind = Types.ROW([Types.STRING(), Types.STRING()])

    def built(builder):
        made = builder.set_field_delimiter(delimiter).set_quote_character(quote)
        return (made if escape is None else made.set_escape_character(escape)).build()

    line = built(CsvRowSerializationSchema.Builder(kind)).serialize(Row(text, "x"))
    row = built(CsvRowDeserializationSchema.Builder(kind)).deserialize(line)

    assert Row(f0=text, f1="x") == row


PAIR = Types.ROW([Types.INT(), Types.STRING()])


def test_the_texts_that_flink_writes():
    """Names of an unnamed row are f0 and f1; a line has an end; long texts and blanks are in quotes."""
    csv = CsvRowSerializationSchema.Builder(PAIR).build()
    odd = CsvRowSerializationSchema.Builder(PAIR).set_field_delimiter("-").build()
    lines = [Row(1, "hi"), Row(1, "a b"), Row(1, 'say "hi"'), Row(1, None)]

    assert b'{"f0":1,"f1":"hi"}' == to_json(PAIR).serialize(Row(1, "hi"))
    assert b'"-1"-b\n' == odd.serialize(Row(-1, "b"))
    assert [b"1,hi\n", b'1,"a b"\n', b'1,"say ""hi"""\n', b"1,\n"] == list(
        map(csv.serialize, lines)
    )


def test_numbers_and_times_in_json_are_as_java_has_them():
    """A double with an exponent, a not-a-number as text, times in UTC, bytes in base 64."""
    kinds = ["real", "single", "moment", "at", "raw"]
    kind = Types.ROW_NAMED(kinds, [SCALARS[each][0] for each in kinds])
    moment = dt.datetime(2020, 1, 2, 3, 4, 5, 600_000)
    row = Row(1e10, float("nan"), moment, moment.time(), b"\xff")

    assert (
        b'{"real":1.0E10,"single":"NaN","moment":"2020-01-02T03:04:05.600000Z",'
        b'"at":"03:04:05.600000Z","raw":"/w=="}'
    ) == to_json(kind).serialize(row)


@pytest.mark.parametrize(
    ("text", "row"),
    [
        (b'{"f1":"a","f0":1,"more":[]}', Row(f0=1, f1="a")),
        (b'{"f0":"12","f1":5}', Row(f0=12, f1="5")),
        (b'{"f0":null}', Row(f0=None, f1=None)),
        (b'{"f0":1.0,"f1":{"a":[true,1.50]}}', Row(f0=1, f1='{"a":[true,1.5]}')),
        (b'{"f0":1,"f0":2,"f1":36893488147419103232}', Row(f0=2, f1="36893488147419103232")),
        ('{"f0":1}'.encode("utf-8-sig"), Row(f0=1, f1=None)),
        ('{"f0":1}'.encode("utf-16"), Row(f0=1, f1=None)),
    ],
)
def test_what_json_is_taken_for(text, row):
    """Fields in any order, the last of two, missing ones None; text of anything; Unicode's encodings."""
    assert row == of_json(PAIR).deserialize(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[1]",
        b'{"f0":1.5}',
        b'{"f0":[1]}',
        b'{"f0":2147483648}',
        b'{"f0":"x"}',
        b"{",
        b'{"more":NaN}',
        b'{"f1":"\\ud800"}',
        None,
    ],
)
def test_what_is_no_such_object_is_an_error(text):
    """Or no element, where that is wanted; a number is never cut off to fit."""
    lenient = JsonRowDeserializationSchema.builder().type_info(PAIR).ignore_parse_errors().build()

    assert lenient.deserialize(text) is None
    with pytest.raises((ValueError, StateValueError)):
        of_json(PAIR).deserialize(text)


@pytest.mark.parametrize("text", [b"1", b"1,a,b", b"x,a", b"1,a\n2,b\n", b'1,"a', b"", None])
def test_what_is_no_such_line_is_an_error(text):
    """Or no element, where that is wanted."""
    builder = CsvRowDeserializationSchema.Builder(PAIR)

    with pytest.raises((ValueError, StateValueError)):
        builder.build().deserialize(text)
    assert builder.set_ignore_parse_errors(True).build().deserialize(text) is None


def test_a_comment_is_no_row():
    """Where comments are allowed; else it is a line like any other."""
    builder = CsvRowDeserializationSchema.Builder(Types.ROW([Types.STRING()]))

    assert Row(f0="# a") == builder.build().deserialize(b"# a\n")
    assert builder.set_allow_comments().build().deserialize(b"# a\n") is None


def test_a_missing_field_can_be_an_error():
    """Null is there, and no error; both settings together are refused, as in Flink."""
    builder = JsonRowDeserializationSchema.builder().type_info(PAIR).fail_on_missing_field()

    assert Row(f0=1, f1=None) == builder.build().deserialize(b'{"f0":1,"f1":null}')
    with pytest.raises(ValueError, match="Could not find field with name 'f1'"):
        builder.build().deserialize(b'{"f0":1}')
    with pytest.raises(DeclarationValueError, match="are both enabled"):
        builder.ignore_parse_errors().build()


def test_arrays_in_csv_have_a_delimiter_of_their_own():
    """A semicolon; the field is in quotes only where it needs them."""
    kind = Types.ROW([Types.BASIC_ARRAY(Types.INT()), Types.BIG_DEC()])
    line = CsvRowSerializationSchema.Builder(kind).build().serialize(Row([1, 2], Decimal("1.50")))

    assert b"1;2,1.50\n" == line
    read = CsvRowDeserializationSchema.Builder(kind).build().deserialize(line)
    assert Row(f0=[1, 2], f1=Decimal("1.50")) == read


def test_schemas_go_to_workers():
    """They are made anew there."""
    schemas = [
        to_json(PAIR),
        of_json(PAIR),
        CsvRowSerializationSchema.Builder(PAIR).set_field_delimiter("|").build(),
        CsvRowDeserializationSchema.Builder(PAIR).set_field_delimiter("|").build(),
    ]
    to, of, to_line, of_line = own_copy(schemas)

    row = Row(f0=1, f1="a")
    assert (row, row) == (of.deserialize(to.serialize(row)), of_line.deserialize(b"1|a"))
    assert b'1|"a"\n' == to_line.serialize(row)


def test_elements_of_another_kind_are_refused():
    """By name, before they are written."""
    with pytest.raises(OutputError, match=r"JsonRowSerializationSchema writes .* got 5"):
        to_json(PAIR).serialize(5)
    with pytest.raises(OutputError, match=r"CsvRowSerializationSchema writes .* got <Row"):
        CsvRowSerializationSchema.Builder(PAIR).build().serialize(Row("a", "b"))


def test_types_and_formats_that_are_not_there():
    """Each with what to do instead."""
    pickled = Types.ROW([Types.PICKLED_BYTE_ARRAY()])
    with pytest.raises(DeclarationTypeError, match="JSON has rows, basic types"):
        to_json(pickled)
    with pytest.raises(DeclarationTypeError, match="CSV has rows, basic types"):
        CsvRowDeserializationSchema.Builder(pickled).build()
    with pytest.raises(DeclarationTypeError, match="type_info is the type of rows, got None"):
        to_json(None)
    with pytest.raises(SparkSetupError, match="give type_info"):
        JsonRowDeserializationSchema.builder().json_schema("{}")
    with pytest.raises(DeclarationTypeError, match=r"make it by CsvSchema\.builder"):
        CsvReaderFormat.for_schema(None)
