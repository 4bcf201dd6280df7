# SPDX-License-Identifier: Apache-2.0
"""A DataFrame's records that no connector writes; decoded as executors do, without a JVM."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from debezium_hostile_support import deep_records, hostile_records
from debezium_support import envelope, record, source, wrapped
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as sql

from pyflinklike.cdc._spark import FrameDecoder
from pyflinklike.cdc.debezium_decoder import DebeziumDecoder
from pyflinklike.cdc.envelope import DEFAULT_PLACEHOLDER
from pyflinklike.cdc.table_row import row_of

ROW = sql.StructType(
    [
        sql.StructField("id", sql.LongType()),
        sql.StructField("name", sql.StringType()),
        sql.StructField("price", sql.DecimalType(10, 2)),
        sql.StructField("ts", sql.TimestampType()),
    ]
)
NEW = {"id": 1, "name": "Ann"}


def decoded(records, on_error):
    """The events of records."""
    options = {"key": None, "order": "source", "truncate": "apply", "unavailable": "keep"}
    decoder = DebeziumDecoder(
        row=row_of(ROW), **options, on_error=on_error, placeholder=DEFAULT_PLACEHOLDER
    )
    order = sql.StructType().add("order_key", sql.ArrayType(sql.LongType()))
    work = FrameDecoder.of(decoder, ROW, order)
    rows = [{**each, "key": data(each["key"]), "value": data(each["value"])} for each in records]
    batch = pa.RecordBatch.from_pylist(rows)
    return [event for found in work.batches([batch]) for event in found.to_pylist()]


def data(text):
    """What Kafka would have of a text."""
    return text.encode(errors="surrogatepass") if isinstance(text, str) else text


GOOD = record(envelope("c", None, {"id": 7, "name": "Bob"}))


def check_neighbours_survive(hostile):
    """Records before and after are decoded; an error is told once, or left out."""
    inline = decoded([GOOD, hostile, GOOD], "inline")
    dropped = decoded([GOOD, hostile, GOOD], "drop")

    assert [7, 7] == [each["key"] for each in (inline[0], inline[-1])]
    assert [each for each in inline if each["error"] is None] == dropped
    return inline[1:-1]


@pytest.mark.parametrize("place", deep_records(1))
def test_deep_nesting_stops_no_batch(place):
    """The schema of a wrapped record is one more place where it can be."""
    for depth in (201, 1_000, 100_000):
        check_neighbours_survive(deep_records(depth)[place])


@pytest.mark.parametrize("side", ["value", "key"])
@pytest.mark.parametrize(
    "schema", [{"fields": 3}, {"fields": [{"field": "after", "fields": "x"}]}, [1], "text", 1]
)
def test_a_schema_of_no_connect_is_an_error_of_the_record(schema, side):
    """It tells what the numbers of the row mean, so the row cannot be read without."""
    value, key = envelope("c", None, NEW), {"id": 1}
    broken = record(
        wrapped(value, schema) if side == "value" else value,
        wrapped(key, schema) if side == "key" else key,
    )
    (event,) = check_neighbours_survive(broken)

    assert "Decode" in event["error"]


def test_numbers_of_any_size_are_told_as_they_are():
    """In the source block, which is kept as text, and in a column of text."""
    large = 10**60
    row = {"id": 1, "name": {"n": large}}
    (event,) = check_neighbours_survive(record(envelope("c", None, row, source=source(txId=large))))

    assert large == json.loads(event["source"])["txId"]
    assert {"n": large} == json.loads(event["after"]["name"])


@given(st.lists(hostile_records(), min_size=1, max_size=3))
def test_no_record_stops_a_batch(hostile):
    """Whatever its bytes are."""
    for each in hostile:
        check_neighbours_survive(each)
