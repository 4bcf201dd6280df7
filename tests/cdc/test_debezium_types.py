# SPDX-License-Identifier: Apache-2.0
"""Every logical type of Debezium and Connect in a column of every type, with and without a schema."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pytest
from debezium_support import envelope, values, wrapped
from debezium_types import CASES, COLUMNS
from hypothesis import given, settings
from hypothesis import strategies as st

from pyflinklike.cdc import decode_debezium, to_debezium
from pyflinklike.cdc.column_values import json_text
from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    KeyDecodeError,
    ValueDecodeError,
)

REFUSED = "refused"
MESSAGE = re.compile(r".*'after' must fit .*: the column 'c' must be .+, got .+; .+", re.DOTALL)
# What Python and its libraries say of a value: no user can do anything with it.
RAW = re.compile(
    r"class|base64 data|invalid literal|isoformat|too large|Invalid|out of range|argument"
)


def rows_schema(**columns):
    """The schema of an envelope whose rows have these columns."""
    fields = [{**schema, "field": name} for name, schema in columns.items()]
    return {
        "type": "struct",
        "fields": [
            {"type": "struct", "field": side, "fields": fields} for side in ("before", "after")
        ],
    }


def record_of(row, schemas=None, key=1, key_schema=None):
    """A create of a row, with all digits of decimals."""
    value = envelope("c", None, row)
    return {
        "key": json_text(wrapped(key, key_schema) if key_schema else key),
        "value": json_text(wrapped(value, rows_schema(**schemas)) if schemas else value),
        "partition": 0,
        "offset": 1,
    }


def decoded(value, column=None, schema=None):
    """A value in a column of this type."""
    ddl = None if column is None else f"id int, c {column}"
    record = record_of({"id": 1, "c": value}, {"c": schema} if schema else None)
    return decode_debezium(record, schema=ddl, key=None if ddl else "id").after["c"]


@pytest.mark.parametrize("has_schema", [True, False], ids=["with schema", "bare"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_logical_type_is_its_value_or_an_error_in_a_column_of_any_type(case, has_schema):
    """The schema decides where there is one; errors say what came and what to declare or set."""
    cells, errors = {}, []
    for column in COLUMNS:
        try:
            cells[column] = decoded(case.value, column, case.schema if has_schema else None)
        except ValueDecodeError as error:
            cells[column] = REFUSED
            errors.append(str(error))

    expected = case.typed if has_schema else case.bare
    assert {column: expected.get(column, REFUSED) for column in COLUMNS} == cells
    assert {column: type(each) for column, each in expected.items()} == {
        column: type(cells[column]) for column in expected
    }
    assert all(MESSAGE.match(each) and not RAW.search(each) for each in errors)


TEN, UTC = dt.datetime(1970, 1, 1, 0, 10), dt.timezone.utc
NATURAL = {
    "org.apache.kafka.connect.data.Decimal": Decimal,
    "io.debezium.data.VariableScaleDecimal": Decimal,
    "org.apache.kafka.connect.data.Date": dt.date,
    "io.debezium.time.Date": dt.date,
    "io.debezium.time.IsoDate": dt.date,
    "org.apache.kafka.connect.data.Timestamp": dt.datetime,
    "io.debezium.time.Timestamp": dt.datetime,
    "io.debezium.time.MicroTimestamp": dt.datetime,
    "io.debezium.time.NanoTimestamp": dt.datetime,
    "io.debezium.time.IsoTimestamp": dt.datetime,
    "io.debezium.time.ZonedTimestamp": dt.datetime,
    "io.debezium.data.Bits": bytes,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_without_declared_columns_the_schema_alone_says_the_type(case):
    """Decimals, dates, times with a date and bytes; all others are as JSON has them."""
    kind = NATURAL.get(case.schema.get("name"), bytes if case.schema["type"] == "bytes" else None)
    if case.schema["type"] == "int64" and case.value == 600_000_000_001 and kind:
        with pytest.raises(ValueDecodeError, match=r"without fractions of a microsecond.*STRING"):
            decoded(case.value, None, case.schema)
        return
    found = decoded(case.value, None, case.schema)

    if kind is None and case.schema["type"] != "struct":
        assert case.value == found
    elif kind is not None:
        assert kind is type(found)
        assert (found.replace(tzinfo=None) if case.name.startswith("Zoned") else found) in list(
            case.typed.values()
        )
        assert case.name.startswith("ZonedTimestamp") == (getattr(found, "tzinfo", None) == UTC)


def test_what_lies_within_others_has_its_schema_too():
    """In arrays, maps and structs, and in the JSON that a column of texts has of them."""
    price = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal"} | {
        "parameters": {"scale": "2"}
    }
    at = {"type": "int64", "name": "io.debezium.time.Timestamp"}
    struct = {"type": "struct", "fields": [{**price, "field": "p"}, {**at, "field": "t"}]}
    array, map_ = {"type": "array", "items": struct}, {"type": "map", "values": price}
    rows, prices = [{"p": "Dzw=", "t": 600_000}, None], {"a": "Dzw=", "b": None}

    in_columns = decoded(rows, "array<struct<p: decimal(4, 2), t: timestamp_ntz>>", array)

    expected = [{"p": Decimal("39.00"), "t": TEN}, None]
    assert expected == in_columns == decoded(rows, None, array)
    assert '[{"p":39.00,"t":"1970-01-01T00:10:00"},null]' == decoded(rows, "string", array)
    assert {"a": Decimal("39.00"), "b": None} == decoded(prices, "map<string,decimal(4,2)>", map_)
    assert {"a": Decimal("39.00"), "b": None} == decoded(prices, None, map_)
    assert {"p": "39.00", "t": "1970-01-01T00:10:00"} == decoded(
        rows[0], "map<string,string>", struct
    )
    with pytest.raises(
        ValueDecodeError, match=r"'c' must be TIMESTAMP.*; declare it TIMESTAMP_NTZ"
    ):
        decoded(rows, "array<struct<t: timestamp>>", array)


# Digits


NEAR = [Decimal("12345678901234567.88"), Decimal("12345678901234567.89")]


@pytest.mark.parametrize("schema", [None, "id decimal(20,2), n array<decimal(20,2)>"])
def test_numbers_keep_their_digits_in_rows_and_keys(schema):
    """Two that one double stands for are two keys, and so two rows of a table."""
    events = [
        decode_debezium(record_of({"id": near, "n": [near]}, key={"id": near}), schema=schema)
        for near in NEAR
    ]

    assert [(near, {"id": near, "n": [near]}) for near in NEAR] == [
        (each.key, each.after) for each in events
    ]


@pytest.mark.parametrize(
    "digits", ["9007199254740993", "9" * 38, "-170141183460469231731687303715"]
)
def test_integers_of_any_size_keep_their_digits(digits):
    """A decimal without a fraction is an integer in JSON."""
    assert int(digits) == decoded(int(digits))
    assert Decimal(digits) == decoded(int(digits), "decimal(38,0)")


def test_a_text_column_has_all_digits_of_numbers_within_objects():
    """Also those that no double has, and those of more than 64 bits."""
    value = {"a": NEAR[0], "b": 10**30, "c": [1.5]}

    assert f'{{"a":{NEAR[0]},"b":{10**30},"c":[1.5]}}' == decoded(value, "string")


@pytest.mark.parametrize(
    ("value", "column"),
    [
        (Decimal("0.123456789012345678"), "double"),
        (2**53 + 1, "double"),
        (16_777_217, "float"),
        (0.123456789012, "float"),
        (1e300, "float"),
        (10**400, "double"),
        (Decimal("1.005"), "decimal(5,2)"),
        (1000, "decimal(5,2)"),
        ("2024-01-01T00:00:00.1234567", "timestamp_ntz"),
        ("2024-01-01T00:00:00.1234567Z", "timestamp"),
    ],
)
def test_what_a_column_cannot_hold_is_refused_and_not_rounded(value, column):
    """Digits, ranges and fractions of a second."""
    with pytest.raises(ValueDecodeError, match=r"the column 'c' must be .*got.*; declare it"):
        decoded(value, column)


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        (0, "decimal(2,2)", Decimal("0.00")),
        ("NaN", "double", pytest.approx(float("nan"), nan_ok=True)),
        ("-Infinity", "float", float("-inf")),
        (Decimal("1.9999999999999998E+23"), "double", 2e23),
        (-1, "date", dt.date(1969, 12, 31)),
        ("2024-01-01T01:00+01:00", "timestamp", dt.datetime(2024, 1, 1)),
        ("2024-01-01T00:00:00.5", "timestamp_ntz", dt.datetime(2024, 1, 1, microsecond=500_000)),
        (["a", {"b": 1}, None], "array<string>", ["a", '{"b":1}', None]),
        ({"a": 1}, "map<string, bigint>", {"a": 1}),
    ],
)
def test_a_bare_value_is_read_as_its_column_says(value, column, expected):
    """Zero in a column of fractions, what JSON has no numbers for, days and times before 1970."""
    assert expected == decoded(value, column)


@pytest.mark.parametrize(
    ("value", "column"),
    [
        ("infinity", "timestamp"),
        (2**31 - 1, "date"),
        ("9999-13-01", "date"),
        ("2024-02-30T00:00:00Z", "timestamp"),
        ("NaN", "decimal(5,2)"),
        ("1_0", "decimal(5,2)"),
        ("Dzw=", "decimal(5,2)"),
        ("zz", "binary"),
        (2, "boolean"),
        (True, "int"),
        (True, "date"),
        ({"scale": 10**9, "value": "Dzw="}, "decimal(5,2)"),
        ({"scale": "x", "value": "Dzw="}, "bigint"),
    ],
)
def test_an_error_of_a_value_says_the_rule_and_the_remedy(value, column):
    """PostgreSQL's infinities, a precise decimal without its schema, MySQL's tinyint(1) of 2."""
    with pytest.raises(ValueDecodeError) as raised:
        decoded(value, column)

    assert MESSAGE.match(str(raised.value))
    assert RAW.search(str(raised.value)) is None


@pytest.mark.parametrize(
    ("name", "kind", "value", "column"),
    [
        ("time.Timestamp", "int64", 2**62, "timestamp_ntz"),
        ("time.Timestamp", "int64", 2**62, "string"),
        ("time.MicroTimestamp", "int64", 9223372036825200000, "timestamp_ntz"),
        ("time.MicroTime", "int64", -1, "string"),
        ("time.IsoTimestamp", "string", "x", "string"),
        ("time.Date", "int32", 2**31 - 1, "string"),
        ("data.VariableScaleDecimal", "struct", "Dzw=", "string"),
        ("data.Bits", "bytes", "?", "binary"),
    ],
)
def test_a_value_that_its_own_schema_does_not_allow_is_an_error_as_well(name, kind, value, column):
    """PostgreSQL's infinities as numbers, MySQL's times below zero, and damaged ones."""
    with pytest.raises(ValueDecodeError) as raised:
        decoded(value, column, {"type": kind, "name": f"io.debezium.{name}"})

    assert MESSAGE.match(str(raised.value))
    assert RAW.search(str(raised.value)) is None


numbers = st.one_of(
    st.integers(-(10**40), 10**40),
    st.decimals(allow_nan=False, allow_infinity=False).filter(lambda each: abs(each) < 1e308),
    st.sampled_from([10**4200, -(2**63), 2**63, Decimal("1E+300"), Decimal("1E-300")]),
)
forms = st.sampled_from(
    ["{}", "{}Z", "2024-{}-01", "{}T00:00:00Z", "1970-01-01T{}:00.{}", "AQ=={}", "1e{}", "24:00:{}"]
)
hostile = st.recursive(
    values | numbers | st.builds(str.format, forms, st.integers(0, 99), st.integers(0, 10**9)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.fixed_dictionaries({"scale": inner, "value": inner})
    ),
    max_leaves=4,
)


@settings(max_examples=settings().max_examples * 2)
@given(hostile, st.sampled_from(CASES), st.sampled_from([None, *COLUMNS]), st.booleans())
def test_no_value_is_more_than_an_error_of_its_record(value, case, column, has_schema):
    """Whatever its schema says, and whatever its column is."""
    message = ""
    try:
        decoded(value, column, case.schema if has_schema else None)
    except ValueDecodeError as error:
        message = str(error)

    assert message == "" or (MESSAGE.match(message) and len(message) < 5_000)


def test_the_error_of_a_tinyint_names_the_connectors_converter():
    """0 and 1 of MySQL's tinyint(1) are booleans, other numbers are none."""
    for schema in (None, {"type": "int16"}):
        assert [False, True] == [decoded(each, "boolean", schema) for each in (0, 1)]
        with pytest.raises(ValueDecodeError, match=r"got 2.*TinyIntOneToBooleanConverter"):
            decoded(2, "boolean", schema)


# Keys, declarations, and back


def test_a_key_has_the_type_of_its_column():
    """By its own schema, by the row's, and where it is a plain value."""
    price = {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": {"scale": "2"},
    }
    own = {"type": "struct", "fields": [{**price, "field": "p"}]}
    row, expected = {"p": "Dzw="}, Decimal("39.00")

    for record in (
        record_of(row, {"p": price}, {"p": "Dzw="}, own),
        record_of(row, {"p": price}, {"p": "Dzw="}),
        record_of(row, {"p": price}, "Dzw=", price),
    ):
        assert expected == decode_debezium(record, schema="p decimal(4,2)").key
    assert expected == decode_debezium(record_of(row, {"p": price}, "Dzw=", price)).key
    assert (expected, 1) == decode_debezium(
        record_of({"p": "Dzw=", "q": 1}, {"p": price}), key=["p", "q"]
    ).key
    with pytest.raises(
        KeyDecodeError, match=r"the column 'p' must be DATE, got .*; declare it DEC"
    ):
        decode_debezium(record_of({}, {"p": price}, {"p": "Dzw="}, own), schema="p date")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_was_decoded_for_declared_columns_is_the_same_after_encoding(case):
    """Dates, decimals and bytes become text, which the column's type reads again."""
    for column in case.typed:
        ddl = f"id int, c {column}"
        record = record_of({"id": 1, "c": case.value}, {"c": case.schema})
        event = decode_debezium(record, schema=ddl)
        # Python's value of an instant has no zone, so its text has none.
        again = ddl.replace("timestamp_ntz", "timestamp").replace("timestamp", "timestamp_ntz")

        assert event == decode_debezium(to_debezium(event)[0], schema=again)


def test_a_declaration_is_read_as_spark_reads_it():
    """Names of types in any case, and their other names; names in backticks."""
    record = record_of({"a b": 1, "x": {"y": [1]}, "p": 5})

    event = decode_debezium(
        record,
        schema="`a b` LONG NOT NULL, x Struct<y: Array<Short>, z:map<string,TINYINT>>, p dec(4 , 1)",
    )

    assert {"a b": 1, "x": {"y": [1], "z": None}, "p": Decimal("5.0")} == event.after


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        ("id", DeclarationValueError, "must be DDL such as"),
        ("id int,", DeclarationValueError, "must be DDL such as"),
        ("id array<int", DeclarationValueError, "must be DDL such as"),
        ("id decimal(50,2)", DeclarationValueError, "must be DDL such as"),
        ("id int comment", DeclarationValueError, "must be DDL such as"),
        ("id interval", DeclarationTypeError, "declare it STRING"),
        ("id map<int,int>", DeclarationTypeError, "declare it STRING"),
        (5, DeclarationTypeError, "schema= must be the table's row"),
        ([], DeclarationTypeError, "schema= must be the table's row"),
    ],
)
def test_a_declaration_that_is_none_is_refused(schema, error, message):
    """Before a record is read."""
    with pytest.raises(error, match=message):
        decode_debezium(record_of({"id": 1}), schema=schema)
