# SPDX-License-Identifier: Apache-2.0
"""Types of key columns in Spark's words, and keys and times that somebody typed."""

import datetime as dt
from contextlib import suppress
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike.errors import IncompatibleStateError, StateValueError
from pyflinklike.state_processor._logs.key_columns import arrow_of, key_of, time_of

UTC = dt.timezone.utc


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("bigint", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal(38,-2)", pa.decimal128(38, -2)),
        ("varchar(3)", pa.string()),
        ("string collate UTF8_LCASE", pa.string()),
        ("struct<>", pa.struct([])),
        (
            "struct<a:decimal(10,2),b:struct<c:int,d:date>>",
            pa.struct(
                [
                    ("a", pa.decimal128(10, 2)),
                    ("b", pa.struct([("c", pa.int32()), ("d", pa.date32())])),
                ]
            ),
        ),
    ],
)
def test_a_key_column_has_the_type_that_spark_names(kind, expected):
    """Commas within brackets part no fields."""
    assert expected == arrow_of(kind)


@pytest.mark.parametrize("kind", ["variant", "array<int>", "struct<a:array<int>>", "INT"])
def test_a_key_column_without_a_form_is_refused(kind):
    """With what reads it nevertheless."""
    with pytest.raises(IncompatibleStateError, match=r"read_savepoint\(\)"):
        arrow_of(kind)


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("ann", "string", "ann"),
        ('"ann"', "string", "ann"),
        ("007", "string", "007"),
        ("true", "string", "true"),
        ("7", "bigint", 7),
        ("true", "boolean", True),
        ('"0x00ff"', "binary", b"\x00\xff"),
        ('"1.50"', "decimal(5,2)", Decimal("1.50")),
        ('"2026-11-23"', "date", dt.date(2026, 11, 23)),
        ('"2026-11-23T02:00:00Z"', "timestamp", dt.datetime(2026, 11, 23, 2, tzinfo=UTC)),
        ('"2026-11-23T02:00:00"', "timestamp", dt.datetime(2026, 11, 23, 2, tzinfo=UTC)),
        ('"2026-11-23T02:00:00"', "timestamp_ntz", dt.datetime(2026, 11, 23, 2)),
        ('"2026-11-23T02:00:00+02:00"', "timestamp", dt.datetime(2026, 11, 23, tzinfo=UTC)),
        ("1700000000000", "timestamp", dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
        ("1700000000001", "timestamp_ntz", dt.datetime(2023, 11, 14, 22, 13, 20, 1000)),
        ("9007199254740993", "bigint", 9007199254740993),
        ("-9223372036854775808", "bigint", -(2**63)),
        ("1.50", "decimal(5,2)", Decimal("1.50")),
        ("0.1", "double", 0.1),
        ("1", "double", 1.0),
        ("-Infinity", "double", float("-inf")),
        ("0.1", "float", 0.10000000149011612),
        ("0.10000000149011612", "float", 0.10000000149011612),
        ('{"a": 1}', "struct<a:bigint>", (1,)),
    ],
)
def test_a_key_is_typed_as_json_or_as_the_text_it_is(text, kind, expected):
    """The digits of a name are no number; an instant without a zone is in UTC."""
    assert expected == key_of(text, [("k", kind)])


def test_a_key_of_several_columns_is_typed_as_an_array():
    """With a value for each."""
    assert ("ann", 3) == key_of('["ann", 3]', [("user", "string"), ("n", "int")])


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("ann", [("n", "int")]),
        ("2147483648", [("n", "int")]),
        ('"0xzz"', [("n", "binary")]),
        ('["ann"]', [("user", "string"), ("n", "int")]),
        ("ann", [("user", "string"), ("n", "int")]),
        ('["ann", "x"]', [("user", "string"), ("n", "int")]),
    ],
)
def test_what_is_no_key_of_these_columns_is_refused(text, columns):
    """With the column, or the form that several have."""
    with pytest.raises(StateValueError, match=r"KEY must be .*; write it as"):
        key_of(text, columns)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1.5", "bigint"),
        ("9007199254740993.0", "bigint"),
        ("1e3", "bigint"),
        ("9223372036854775808", "bigint"),
        ("128", "tinyint"),
        ("true", "bigint"),
        ("NaN", "int"),
        ("9" * 5_000, "bigint"),
        ("[" * 100_000, "bigint"),
        ("1e99999999999999999999", "double"),
        ("1", "boolean"),
        ("true", "double"),
        ("9007199254740993.0", "double"),
        ("9007199254740993", "double"),
        ("1e999", "double"),
        ('"1e999"', "double"),
        ("1e39", "float"),
        ("16777217", "float"),
        ("1.555", "decimal(5,2)"),
        ("1e999999999", "decimal(5,2)"),
        ("NaN", "decimal(5,2)"),
        ("1.5", "timestamp"),
        ("1e18", "timestamp"),
        ("1" + "0" * 30, "timestamp"),
        ('"0001-01-01T00:00:00+14:00"', "timestamp"),
        ('"2026-11-23T02:00:00+01:00"', "timestamp_ntz"),
        ('"2026-11-23T02:00:00Z"', "timestamp_ntz"),
        ('"2023-11-14T22:13:20.0000009Z"', "timestamp"),
        ('"2023-11-14T22:13:20.0000009"', "timestamp_ntz"),
        ("5", "date"),
        ('{"a": 1.5}', "struct<a:bigint>"),
        ('{"a": 1, "b": 2}', "struct<a:bigint>"),
        ('"\\ud800"', "string"),
    ],
)
def test_no_key_is_rounded_to_another(text, kind):
    """What is not exactly a value of the column is the key of nobody."""
    with pytest.raises(StateValueError, match=r"KEY must be a value of column 'k', which is .*got"):
        key_of(text, [("k", kind)])


def test_a_time_is_typed_in_milliseconds_or_as_iso_8601():
    """In UTC, if it has no zone."""
    assert [-1, 1500, 1500, -3_598_500] == [
        time_of(text)
        for text in (
            "-1",
            "1970-01-01T00:00:01.500Z",
            "1970-01-01T00:00:01.500",
            "1970-01-01T00:00:01.500+01:00",
        )
    ]


@pytest.mark.parametrize(
    "text", ["noon", "1.5", "9223372036854775808", "9" * 5_000, "1970-01-01T00:00:00.0005Z"]
)
def test_what_is_no_time_is_refused(text):
    """With an example of one."""
    with pytest.raises(StateValueError, match=r"got '.*; write 2026-"):
        time_of(text)


@given(
    st.one_of(
        st.text(max_size=20),
        st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE]-?[0-9]{1,30})?", fullmatch=True),
        st.from_regex(r'"[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9:.+-]{1,20})?"', fullmatch=True),
        st.sampled_from(["[" * 5_000, "9" * 5_000, "NaN", '"\\ud800"', "{}", '{"a": []}', "[[]]"]),
    ),
    st.sampled_from(
        [
            *("boolean", "tinyint", "bigint", "float", "double", "string", "binary", "date"),
            *("timestamp", "timestamp_ntz", "decimal(5,2)", "decimal(38,-2)", "struct<a:double>"),
        ]
    ),
)
def test_what_is_typed_is_a_key_or_refused(text, kind):
    """Whatever it is: with an error of ours, and no other."""
    with suppress(StateValueError):
        key_of(text, [("k", kind)])
    with suppress(StateValueError):
        time_of(text)
