# SPDX-License-Identifier: Apache-2.0
"""A DataFrame of Debezium records is decoded as its records are one by one."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
from decimal import Decimal

import pyarrow as pa
import pytest
from debezium_support import PLACEHOLDER, envelope, record, source, wrapped
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import types
from spark_support import at, pickle_by_value

from pyflinklike import cdc
from pyflinklike.cdc._spark import FrameDecoder
from pyflinklike.cdc.debezium_decoder import DebeziumDecoder
from pyflinklike.cdc.table_row import row_of
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark import decode_debezium

pickle_by_value(__name__)

RECORDS = "key binary, value binary, partition int, offset long"
ROW = """
    id bigint, name string, score double, active boolean, tags array<string>,
    address struct<city: string, no: int>, counts map<string, int>
"""
BASE = {
    "name": "Änne",
    "score": 0.5,
    "active": True,
    "tags": ["a", None],
    "address": {"city": "x", "no": 3},
    "counts": {"a": 1, "b": None},
}


def row(number, **columns):
    """A row of the table of `ROW`, whose columns JSON has types for."""
    return {"id": number, **BASE, **columns}


def good():
    """Records of every operation, wrapped and bare."""
    return [
        record(envelope("r", None, row(1), source=source(lsn=5, snapshot="true")), offset=0),
        record(envelope("c", None, row(2, name=None), source=source(lsn=6)), offset=1),
        record(
            wrapped(envelope("u", row(2), row(2, tags=None), source=source(lsn=7))),
            wrapped({"id": 2}),
            offset=2,
        ),
        record(envelope("u", None, row(2, name=PLACEHOLDER), source=source(lsn=8)), offset=3),
        record({"op": "m", "source": source(lsn=9)}, {"prefix": "p"}, offset=4),
        record(envelope("d", row(1), source=source(lsn=10)), offset=5),
        record(None, {"id": 1}, offset=6),
        {**record(envelope("t", source=source(lsn=11)), offset=7), "key": None},
    ]


def bad():
    """Records that cannot be decoded, the last four only because of the DataFrame's types."""
    return [
        {**record(None, {"id": 1}, offset=8), "value": "{"},
        record(envelope("u", None, None), {"id": 3}, offset=9),
        {**record(envelope("c", None, row(4)), offset=10), "key": "no json"},
        record(envelope("c", None, row(5)), {"nr": 5}, offset=11),
        record(envelope("c", None, row(6, score="much")), offset=12),
        record(envelope("c", None, row(2**63)), offset=13),
        record(envelope("c", None, row(7), source=source(ts_ms=2**62)), offset=14),
    ]


def frame(spark, records):
    """Records as Kafka's source gives them."""
    columns = ("key", "value", "partition", "offset")
    rows = [
        [
            None if x is None else x.encode() if isinstance(x, str) else x
            for x in map(r.get, columns)
        ]
        for r in records
    ]
    return spark.createDataFrame(rows, RECORDS)


def plain(event):
    """An event as a row of the DataFrame has it."""
    source_text = None if event.source is None else json.dumps(event.source)
    sides = [
        None if side is None else {name: side.get(name) for name in row(0)}
        for side in (event.before, event.after)
    ]
    order = None if event.order_key is None else list(event.order_key)
    return [
        event.op,
        event.key,
        *sides,
        order,
        None if event.event_time is None else at(event.event_time),
        event.snapshot,
        source_text and json.loads(source_text),
        event.error,
        list(event.unavailable),
    ]


def shown(result):
    """A row of the DataFrame in the same form."""
    values = list(result.asDict(recursive=True).values())
    values[7] = values[7] and json.loads(values[7])
    return values


texts = st.text(st.characters(codec="utf-8"), max_size=6)
typed_rows = st.fixed_dictionaries(
    {"id": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "name": st.none() | texts | st.just(PLACEHOLDER),
        "score": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "active": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | texts, max_size=3),
        "address": st.none()
        | st.fixed_dictionaries({"city": texts, "no": st.none() | st.integers(0, 2**31 - 1)}),
        "counts": st.none() | st.dictionaries(texts, st.sampled_from([-1, 0, None]), max_size=3),
        "unknown": texts,
    },
)


@st.composite
def typed_records(draw):
    """Records whose rows fit `ROW`, and some that are none."""
    row_, op = draw(typed_rows), draw(st.sampled_from("crudt0x"))
    place = {"partition": 0, "offset": draw(st.integers(0, 2**40))}
    if op == "0":
        return record(None, {"id": row_["id"]}, **place)
    value = envelope(
        op,
        {**draw(typed_rows), "id": row_["id"]} if op in "du" else None,
        row_ if op in "cru" else None,
        source=source(lsn=draw(st.integers(0, 2**62)), ts_ms=draw(st.integers(0, 2**45))),
    )
    return record(wrapped(value) if draw(st.booleans()) else value, {"id": row_["id"]}, **place)


@given(st.lists(typed_records(), max_size=5))
def test_what_the_executors_do_is_what_is_done_to_a_record(each):
    """Without Spark around it: any rows that fit, and errors among them."""
    row_type = types.StructType(
        [
            types.StructField("id", types.LongType()),
            types.StructField("name", types.StringType()),
            types.StructField("score", types.DoubleType()),
            types.StructField("active", types.BooleanType()),
            types.StructField("tags", types.ArrayType(types.StringType())),
            types.StructField(
                "address",
                types.StructType().add("city", types.StringType()).add("no", types.IntegerType()),
            ),
            types.StructField("counts", types.MapType(types.StringType(), types.IntegerType())),
        ]
    )
    decoder = DebeziumDecoder(
        row=row_of(row_type),
        key=None,
        order="source",
        truncate="apply",
        unavailable="keep",
        on_error="inline",
        placeholder=PLACEHOLDER,
    )
    order = types.StructType().add("order_key", types.ArrayType(types.LongType()))
    work = FrameDecoder.of(decoder, row_type, order)
    batch = pa.Table.from_pylist(
        each,
        pa.schema(
            [
                ("key", pa.string()),
                ("value", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
            ]
        ),
    )

    found = [row for part in work.batches(batch.to_batches()) for row in part.to_pylist()]

    expected = [plain(decoder.record(record_)) for record_ in each]
    assert expected == [of_arrow(row) for row in found]


def of_arrow(row_):
    """A row of Arrow in the same form."""
    for side in ("before", "after"):
        if row_[side] is not None and row_[side]["counts"] is not None:
            row_[side]["counts"] = dict(row_[side]["counts"])
    time = row_["event_time"]
    row_["event_time"] = time and time.replace(tzinfo=None)
    row_["source"] = row_["source"] and json.loads(row_["source"])
    return list(row_.values())


def test_a_dataframe_is_decoded_as_its_records_are(spark):
    """The good ones, and inline also those that are not; drop leaves only the good ones."""
    records = frame(spark, good() + bad())

    inline = decode_debezium(records, schema=ROW, truncate="apply", on_error="inline").collect()
    dropped = decode_debezium(records, schema=ROW, truncate="apply", on_error="drop").collect()

    decoded = [
        cdc.decode_debezium(each, schema=ROW, truncate="apply", on_error="inline")
        for each in good() + bad()
    ]
    expected = [plain(event) for event in decoded[:-1] if event is not None]
    assert expected == [shown(each) for each in inline[:-1]]
    assert [] == [each[8] for each in expected[: len(good()) - 1] if each[8] is not None]
    assert [each for each in expected if each[8] is None] == [shown(each) for each in dropped]
    assert [
        (None, "KeyDecodeError: the key of a record must have the columns ['id'], got ['nr']"),
        (
            6,
            "ValueDecodeError: 'after' must fit the table's columns: the column 'score' must be a number",
        ),
        (
            None,
            "ValueDecodeError: 'after' must fit the table's columns: the column 'id' must be BIGINT, an integer of 64 bits",
        ),
        (None, "ValueDecodeError: the time of a change must be in ms since the epoch"),
    ] == [(each.key, re.split(r"; name|, got ['\d]", each.error)[0]) for each in inline[-4:]]
    with pytest.raises(PySparkException, match=r"ValueDecodeError.*offset 8"):
        decode_debezium(records, schema=ROW, truncate="apply").collect()


def test_a_schema_types_what_json_has_no_types_for(spark):
    """Decimals, bytes, dates and times, told by the schema of the envelope or plain."""
    ddl = """
        a int, b string, price decimal(10, 2), rate decimal(38, 18), data binary, day date,
        at timestamp, local timestamp_ntz, micros array<timestamp_ntz>
    """
    base64_of = lambda raw: base64.b64encode(raw).decode()  # noqa: E731
    value = {
        "a": 1,
        "b": "x",
        "price": base64_of((-12345).to_bytes(3, "big", signed=True)),
        "rate": "12345678901234567890.123456789012345678",
        "data": base64_of(b"\x00\xff"),
        "day": 19_782,
        "at": "2023-11-14T23:13:20.123+01:00",
        "local": 1_700_000_000_123_456,
        "micros": [1, None],
    }
    fields = [
        {
            "field": "price",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "at", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "local", "name": "io.debezium.time.MicroTimestamp"},
        {"field": "micros", "items": {"name": "io.debezium.time.MicroTimestamp"}},
    ]
    schema = {
        "type": "struct",
        "fields": [{"field": side, "fields": fields} for side in ("before", "after")],
    }
    in_text = {
        **value,
        "price": "-123.45",
        "day": "2024-02-29",
        "at": "2023-11-14T22:13:20.123Z",
        "local": "2023-11-14T22:13:20.123456",
        "micros": ["1970-01-01T00:00:00.000001", None],
    }
    keyed = {"b": "x", "a": 1}
    records = frame(
        spark,
        [
            record(wrapped(envelope("c", None, value), schema), keyed),
            record(envelope("c", None, in_text), keyed),
            record(envelope("c", None, {**in_text, "at": 5}), keyed),
        ],
    )

    *rows, refused = decode_debezium(
        records,
        key=["b", "a"],
        schema=ddl,
        on_error="inline",
        order=lambda each: f"{each['source']['lsn']:020}",
        order_type="string",
    ).collect()

    time = dt.datetime(2023, 11, 14, 22, 13, 20, 123_000)
    expected = {
        "a": 1,
        "b": "x",
        "price": Decimal("-123.45"),
        "rate": Decimal("12345678901234567890.123456789012345678"),
        "data": b"\x00\xff",
        "day": dt.date(2024, 2, 29),
        "at": time,
        "local": time.replace(microsecond=123_456),
        "micros": [dt.datetime(1970, 1, 1, 0, 0, 0, 1), None],
    }
    assert [expected] * 2 == [each.after.asDict() for each in rows]
    assert [{"b": "x", "a": 1}] * 2 == [each.key.asDict() for each in rows]
    assert [f"{24_023_128:020}"] * 2 == [each.order_key for each in rows]
    assert "the column 'at' must be TIMESTAMP in ISO 8601 with a zone, got 5" in refused.error


def test_what_a_dataframe_cannot_be_decoded_by_is_refused_at_once(spark):
    """Before a query runs."""
    records = frame(spark, [])

    for error, options, message in [
        (DeclarationTypeError, {"schema": None}, "needs schema="),
        (DeclarationValueError, {"schema": "id what"}, "must be DDL"),
        (DeclarationValueError, {"schema": ROW, "key": "nr"}, "the key must be columns of schema="),
        (DeclarationTypeError, {"schema": "id interval month"}, "declare it STRING"),
        (DeclarationTypeError, {"schema": "id int, m map<int, string>"}, "declare it STRING"),
        (
            DeclarationValueError,
            {"schema": ROW, "order_type": "string"},
            "order_type needs a function",
        ),
        (
            DeclarationValueError,
            {"schema": ROW, "order": len, "order_type": "what"},
            "order_type must be DDL",
        ),
        (
            DeclarationValueError,
            {"schema": ROW, "on_error": "side_output"},
            "only operators have side outputs",
        ),
    ]:
        with pytest.raises(error, match=message):
            decode_debezium(records, **options)
    with pytest.raises(DeclarationValueError, match="must have the columns"):
        decode_debezium(records.drop("offset"), schema=ROW, order="offset")
    with pytest.raises(DeclarationValueError, match=r"if the records have no key, add one with"):
        decode_debezium(records.select("value"), schema=ROW)
    with pytest.raises(DeclarationTypeError, match=r"must be JSON as STRING or BINARY, got struct"):
        decode_debezium(records.selectExpr("key", "struct(value) value"), schema=ROW)
    with pytest.raises(DeclarationTypeError, match=r"pyflinklike\.cdc\.decode_debezium"):
        decode_debezium({"key": None, "value": None}, schema=ROW)
