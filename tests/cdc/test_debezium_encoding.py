# SPDX-License-Identifier: Apache-2.0
"""Changes encoded as Debezium records are what they were when they are decoded again."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from debezium_support import PLACEHOLDER, envelope, record, records, rows
from hypothesis import given
from hypothesis import strategies as st

from pyflinklike import Row
from pyflinklike.cdc import CdcEvent, decode_debezium, to_debezium
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError


class Change(NamedTuple):
    """As a materialized view tells it."""

    op: str
    key: Any
    before: Any
    after: Any
    ts: Any


@given(records(), st.sampled_from(["source", "offset"]))
def test_what_was_decoded_is_the_same_after_encoding(each, order):
    """Of every connector and operation, wrapped or bare."""
    event = decode_debezium(each, order=order)

    encoded = to_debezium(event, tombstone=False)

    assert [event] == [decode_debezium(again, order=order) for again in encoded]


@given(rows, st.sets(st.sampled_from(["body", "data"])))
def test_columns_that_were_not_logged_are_placeholders_again(row, columns):
    """And not columns that are null."""
    after = {"id": 1, **row, **dict.fromkeys(columns, PLACEHOLDER)}
    event = decode_debezium(record(envelope("u", None, after)))

    (encoded,) = to_debezium(event)

    assert columns == set(event.unavailable)
    assert set(event.unavailable) == set(decode_debezium(encoded).unavailable)
    assert event.after == decode_debezium(encoded).after


def test_a_truncation_is_encoded_without_a_key():
    """As Debezium writes it."""
    event = decode_debezium({**record(envelope("t")), "key": None}, truncate="apply")

    (encoded,) = to_debezium(event)

    assert encoded["key"] is None
    assert event == decode_debezium(encoded, truncate="apply")


def test_a_tombstone_follows_a_delete():
    """Unless it is not wanted; a tombstone itself is encoded as one."""
    event = decode_debezium(record(envelope("d", {"id": 1})))

    delete, tombstone = to_debezium(event)

    assert event == decode_debezium(delete)
    assert ("1", None) == (tombstone["key"], tombstone["value"])
    assert [delete] == to_debezium(event, tombstone=False)
    assert [None] == [each["value"] for each in to_debezium(decode_debezium(tombstone))]


@given(rows, rows, st.integers(), st.sampled_from(["insert", "update", "delete"]))
def test_a_change_of_a_view_is_encoded(before, after, ts, op):
    """Its key, rows and time come back."""
    code = {"insert": "c", "update": "u", "delete": "d"}[op]
    change = Change(
        op, (1, "x"), None if op == "insert" else before, None if op == "delete" else after, ts
    )

    event = decode_debezium(to_debezium(change)[0])

    assert (code, change.key, change.before, change.after) == event[:4]


@pytest.mark.parametrize("make", [dict, Row])
def test_the_rows_of_an_upsert_are_encoded(make):
    """An update's old row is no record of its own."""
    changes = [
        make(key=1, op="insert", value=Row(n=1), diff=1),
        make(key=1, op="update_before", value=Row(n=1), diff=-1),
        make(key=1, op="update_after", value=Row(n=2), diff=1),
        make(key=1, op="delete", value=Row(n=2), diff=-1),
    ]
    encoded = [each for change in changes for each in to_debezium(change)]

    events = [decode_debezium(each) for each in encoded]

    assert [
        ("c", None, {"n": 1}),
        ("u", None, {"n": 2}),
        ("d", {"n": 2}, None),
        ("d", None, None),
    ] == [(event.op, event.before, event.after) for event in events]


def test_the_key_is_an_object_where_its_columns_are_named():
    """As Debezium's own keys are."""
    change = Change("delete", (1, "x"), {"a": 1}, None, 5)

    assert [{"a": 1, "b": "x"}] * 2 == [
        json.loads(each["key"]) for each in to_debezium(change, key=["a", "b"])
    ]
    assert {"a": 1} == json.loads(to_debezium(Change("insert", 1, None, {}, 5), key="a")[0]["key"])


def test_the_place_in_kafka_is_that_of_an_order_by_offset():
    """A position in a database's log is none."""
    by_offset = decode_debezium(
        record(envelope("c", None, {"id": 1}), partition=2, offset=9), order="offset"
    )
    by_source = decode_debezium(record(envelope("c", None, {"id": 1}), partition=2, offset=9))

    assert (2, 9) == (to_debezium(by_offset)[0]["partition"], to_debezium(by_offset)[0]["offset"])
    assert to_debezium(by_source)[0]["offset"] is None


def test_values_that_json_does_not_have_are_text():
    """Dates, decimals and rows inside of rows."""
    row = Row(day=dt.date(2024, 2, 29), price=Decimal("1.10"), at=Row(x=1), tags=("a",))

    (encoded,) = to_debezium(Change("insert", 1, None, row, None))

    assert {"day": "2024-02-29", "price": "1.10", "at": {"x": 1}, "tags": ["a"]} == json.loads(
        encoded["value"]
    )["after"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), "\ud800"])
def test_a_value_that_json_cannot_hold_is_refused(value):
    """It would come back as null."""
    with pytest.raises(DeclarationTypeError, match="values that JSON can hold"):
        to_debezium(Change("insert", 1, None, {"n": [value]}, None))


def test_what_is_no_change_is_refused():
    """So are errors, unknown operations, and a key with other columns."""
    failed = decode_debezium({"key": "1", "value": "{"}, on_error="inline")

    with pytest.raises(DeclarationValueError, match="without an error"):
        to_debezium(failed)
    with pytest.raises(DeclarationValueError, match="the op of a change must be one of"):
        to_debezium(CdcEvent("m", 1, None, None))
    with pytest.raises(DeclarationTypeError, match="without 'op'"):
        to_debezium(5)
    with pytest.raises(DeclarationValueError, match="must name the columns of the key"):
        to_debezium(Change("insert", 1, None, {}, None), key=["a", "b"])
