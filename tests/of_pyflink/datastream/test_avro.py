# SPDX-License-Identifier: Apache-2.0
"""Avro: generic records in files and streams, and rows as bytes."""

from __future__ import annotations

import datetime as dt
import json
import os
from decimal import Decimal

import pytest
from file_support import flips_of, read_files, source_of, write_files
from hypothesis import given
from hypothesis import strategies as st
from local_support import local

from pyflinklike.errors import (
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    SparkSetupError,
    StateValueError,
)
from pyflinklike.pyflink._graph.functions import own_copy
from pyflinklike.pyflink.common import Row, Types
from pyflinklike.pyflink.datastream.formats.avro import (
    AvroBulkWriters,
    AvroFiles,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from pyflinklike.pyflink.datastream.formats.parquet import AvroParquetReaders, AvroParquetWriters

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"

pytest.importorskip("fastavro", reason="fastavro is not installed (the extra `avro`)")


def record(*fields, name="test"):
    """The JSON of a record: pairs of a name and a type."""
    parts = [{"name": field, "type": kind} for field, kind in fields]
    return json.dumps({"type": "record", "name": name, "fields": parts})


def logical(kind, name, **more):
    """A logical type."""
    return {"type": kind, "logicalType": name, **more}


def optional(kind):
    """A type with null."""
    return ["null", kind]


SUIT = {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}
ITEM = json.loads(record(("int", "int"), ("double", "double"), name="item"))
BASIC = AvroSchema.parse_string(
    record(
        ("null", "null"),
        ("boolean", "boolean"),
        ("int", "int"),
        ("long", "long"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("suit", SUIT),
        ("union", ["int", "double", "null"]),
        ("array", {"type": "array", "items": ITEM}),
        ("map", {"type": "map", "values": "long"}),
    )
)
RECORDS = [
    {
        "null": None,
        "boolean": True,
        "int": 0,
        "long": 1,
        "float": 2.0,
        "double": 3.0,
        "string": "s1",
        "suit": "SPADES",
        "union": 1,
        "array": [{"int": 1, "double": 2.0}, {"int": 3, "double": 4.0}],
        "map": {"a": 1, "b": 2},
    },
]
RECORDS.append({**RECORDS[0], "union": 2.5, "array": [], "map": {}, "suit": "HEARTS"})
RECORDS.append({**RECORDS[0], "union": None})
ROWS = record(
    ("yes", optional("boolean")),
    ("whole", optional("int")),
    ("long", optional("long")),
    ("real", optional("double")),
    ("text", optional("string")),
    ("raw", optional("bytes")),
    ("exact", optional(logical("bytes", "decimal", precision=10, scale=2))),
    ("day", optional(logical("int", "date"))),
    ("at", optional(logical("int", "time-millis"))),
    ("moment", optional(logical("long", "timestamp-micros"))),
    ("suit", optional(SUIT)),
    ("items", optional({"type": "array", "items": ITEM})),
    ("other", optional("item")),
    ("map", optional({"type": "map", "values": "long"})),
)
VALUES = st.tuples(
    *(
        st.none() | each
        for each in (
            st.booleans(),
            st.integers(-(2**31), 2**31 - 1),
            st.integers(-(2**63), 2**63 - 1),
            st.floats(allow_nan=False),
            st.text(st.characters(codec="utf-8")),
            st.binary(),
            st.decimals(-9_999_999, 9_999_999, places=2),
            st.dates(),
            st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)),
            st.datetimes(),
            st.sampled_from(["SPADES", "HEARTS"]),
            st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), max_size=3),
            st.tuples(st.integers(0, 9), st.floats(0, 1)),
            st.dictionaries(st.text(max_size=2), st.integers(-9, 9), max_size=3),
        )
    )
)


def to_bytes(schema=ROWS):
    """What writes rows."""
    return AvroRowSerializationSchema(avro_schema_string=schema)


def of_bytes(schema=ROWS):
    """What reads them."""
    return AvroRowDeserializationSchema(avro_schema_string=schema)


@given(VALUES)
def test_rows_come_back(values):
    """Of all types, None included; a copy for a worker does the same."""
    row = of_bytes().get_produced_type().converted(values)

    assert row == own_copy(of_bytes()).deserialize(own_copy(to_bytes()).serialize(row))


def test_rows_have_the_types_that_flink_makes_of_a_schema():
    """By the logical types; an unknown one is none."""
    schema = record(
        ("a", logical("long", "timestamp-millis")),
        ("b", logical("int", "nobody")),
        ("c", {"type": "fixed", "name": "F", "size": 2}),
        ("d", "F"),
        ("e", {"type": "string"}),
    )
    kinds = [Types.SQL_TIMESTAMP(), Types.INT(), *[Types.PRIMITIVE_ARRAY(Types.BYTE())] * 2]

    assert (
        Types.ROW_NAMED(list("abcde"), [*kinds, Types.STRING()])
        == of_bytes(schema).get_produced_type()
    )


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"at": dt.time(0, 0, 0, 1)}, "finer than time-millis"),
        ({"exact": Decimal("1.234")}, "Scale"),
        ({"exact": Decimal("123456789.12")}, "precision"),
        ({"suit": "CLUBS"}, "CLUBS"),
        ({"whole": 2**31}, "takes an int in"),
        ({"other": (None, 1.0)}, "a null where none is declared"),
    ],
)
def test_a_row_that_does_not_fit_is_refused(row, told):
    """No digit of it is cut off."""
    names = of_bytes().get_produced_type().field_names
    with pytest.raises(OutputError, match=told):
        to_bytes().serialize({**dict.fromkeys(names), **row})


def test_a_time_in_a_record_that_is_named_again_is_not_cut_off():
    """The second use of a record has its name alone."""
    inner = json.loads(record(("at", logical("long", "timestamp-millis")), name="inner"))
    schema = record(("a", inner), ("b", "inner"))
    fine = dt.datetime(2020, 1, 1, 0, 0, 0, 1)

    with pytest.raises(OutputError, match="finer than timestamp-millis"):
        to_bytes(schema).serialize(((fine.replace(microsecond=0),), (fine,)))


@pytest.mark.parametrize(
    "data", [b"", b"\x02", b"\xff" * 9, to_bytes().serialize([None] * 14) + b"\0", b"\x04" * 40]
)
def test_bytes_of_another_schema_are_refused(data):
    """Those that are left over tell, too."""
    with pytest.raises(ValueError, match="do not fit the schema of Avro"):
        of_bytes().deserialize(data)


def test_records_come_back_from_files(tmp_path):
    """Enums, unions, arrays of records and maps; rows with names are records, too."""
    rows = [Row(**each) for each in RECORDS]
    write_files(tmp_path, AvroBulkWriters.for_generic_record(BASIC), [*RECORDS, *rows])

    stream = local().create_input(AvroInputFormat(str(tmp_path), BASIC))

    assert GenericRecordAvroTypeInfo(BASIC) == stream.get_type()
    assert RECORDS * 2 == list(stream.map(lambda each: each).execute_and_collect())


def test_a_stream_of_records_has_their_type():
    """What is no record of it fails the job, with its reason; state holds records as well."""
    kind = GenericRecordAvroTypeInfo(BASIC)
    stream = local().from_collection(RECORDS, kind).map(lambda each: each, kind)

    assert RECORDS == list(stream.execute_and_collect())
    assert RECORDS == [
        kind.thaw(each) for each in kind.from_arrow(kind.to_arrow([*map(kind.freeze, RECORDS)]))
    ]
    wrong = local().from_collection([1]).map(lambda _: {**RECORDS[0], "int": 1.5}, kind)
    with pytest.raises(StateValueError, match=r"expected int.*give a dict with these fields"):
        list(wrong.execute_and_collect())


def test_a_file_of_another_schema_is_read_by_the_rules_of_avro(tmp_path):
    """A new field has its default, a number may be wider; without a default it is refused."""
    old = AvroSchema.parse_string(record(("n", "int"), ("gone", "string")))
    write_files(tmp_path, AvroBulkWriters.for_generic_record(old), [{"n": 1, "gone": "x"}])
    new = json.loads(record(("n", "long"), ("more", "int")))
    refused = AvroSchema.parse_string(json.dumps(new))
    new["fields"][1]["default"] = 7

    records = read_files(AvroFiles(AvroSchema.parse_string(json.dumps(new))), tmp_path)
    assert [{"n": 1, "more": 7}] == records
    with pytest.raises(SparkSetupError, match="give new fields a default"):
        read_files(AvroFiles(refused), tmp_path)
    with pytest.raises(SparkSetupError, match="declare the schema of the file"):
        read_files(AvroFiles(AvroSchema.parse_string(record(("n", "string")))), tmp_path)


def test_a_damaged_file_gives_records_or_an_error(tmp_path):
    """Avro has no checksums: but no other error comes of it, and a file that is cut off is told."""
    (path,) = write_files(tmp_path, AvroBulkWriters.for_generic_record(BASIC), RECORDS)
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at])
        with pytest.raises(SparkSetupError):
            read_files(AvroFiles(BASIC), path)
    path.write_bytes(b"")
    with pytest.raises(SparkSetupError, match="write the file again"):
        read_files(AvroFiles(BASIC), path)


def test_a_bit_that_changes_neither_loses_nor_adds_a_record(tmp_path):
    """The numbers and sizes of blocks must be those of the records in them."""
    (path,) = write_files(tmp_path, AvroBulkWriters.for_generic_record(BASIC), RECORDS)
    places = range(0, 8 * path.stat().st_size, 1 if THOROUGH else 5)

    assert {len(RECORDS), None} == flips_of(AvroFiles(BASIC), path, places, len)


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        (logical("string", "uuid"), "x", "badly formed hexadecimal UUID"),
        (logical("int", "date"), 10**7, "year 29349"),
        (logical("int", "date"), dt.datetime(2024, 1, 1, 5), "would be read as"),
        (logical("int", "time-millis"), 86_400_000, "hour must be in 0..23"),
        (logical("int", "time-millis"), -1, "would be read as"),
        (logical("int", "time-millis"), dt.time(0, 0, 0, 1), "in 'x' would be read as"),
        (logical("long", "timestamp-millis"), 2**62, "too large"),
        (logical("long", "timestamp-millis"), dt.datetime(2024, 1, 1), "would be read as"),
        (
            logical("long", "timestamp-millis"),
            dt.datetime(2024, 1, 1, 0, 0, 0, 1, dt.timezone.utc),
            "would be read as",
        ),
        (logical("bytes", "decimal", precision=2, scale=0), b"\x7f" * 9, "would be read as"),
        ("float", 1e300, "would be read as inf"),
        ("double", 2**53 + 1, "would be read as"),
        ({"type": "array", "items": "float"}, [1.0, 1e300], r"in 'x\[1\]' would be read as inf"),
    ],
)
def test_a_value_that_would_be_read_as_another_one_is_refused(tmp_path, kind, value, told):
    """In files and in bytes; what fastavro writes without an error is read again first."""
    schema = AvroSchema.parse_string(record(("x", kind)))

    with pytest.raises(OutputError, match=told):
        write_files(tmp_path, AvroBulkWriters.for_generic_record(schema), [{"x": value}])
    with pytest.raises(ValueError, match=told):
        schema.encode({"x": value})


def test_a_record_that_does_not_fit_fails_the_job(tmp_path):
    """And no file is there."""
    with pytest.raises(OutputError, match="a record does not fit the schema of its file"):
        write_files(tmp_path, AvroBulkWriters.for_generic_record(BASIC), [RECORDS[0], {"int": 1}])
    assert [] == [path for path in tmp_path.rglob("*") if path.is_file()]


def test_records_come_back_from_files_of_parquet(tmp_path):
    """With the types that rows have; a union of several is refused when it is declared."""
    schema = AvroSchema.parse_string(ROWS)
    blank = dict.fromkeys(of_bytes().get_produced_type().field_names)
    full = {
        **blank,
        "whole": 1,
        "text": "x",
        "exact": Decimal("1.20"),
        "moment": dt.datetime(2020, 1, 1, 0, 0, 0, 5, tzinfo=dt.timezone.utc),
        "suit": "HEARTS",
        "items": [{"int": 1, "double": 2.0}],
        "map": {"a": 1},
    }
    write_files(tmp_path, AvroParquetWriters.for_generic_record(schema), [full, blank])

    assert [full, blank] == read_files(AvroParquetReaders.for_generic_record(schema), tmp_path)
    with pytest.raises(OutputError, match="a record does not fit the schema of its file"):
        write_files(tmp_path, AvroParquetWriters.for_generic_record(schema), [{"whole": 1}])
    with pytest.raises(DeclarationTypeError, match="rows have no type for"):
        AvroParquetWriters.for_generic_record(BASIC)


def test_a_job_that_goes_on_has_the_format_that_it_began_with(tmp_path):
    """Each has its name."""
    assert source_of(AvroFiles(BASIC), tmp_path).identity.endswith(" as Avro")
    rows = AvroParquetReaders.for_generic_record(AvroSchema.parse_string(ROWS))
    assert source_of(rows, tmp_path).identity.endswith(" as Parquet of Avro")


def test_a_schema_is_read_from_a_text_and_from_a_file(tmp_path):
    """Equal ones are equal, and so are their copies."""
    path = tmp_path / "test.avsc"
    path.write_text(BASIC.text, encoding="utf-8")

    assert BASIC == AvroSchema.parse_file(str(path)) == own_copy(BASIC)
    assert hash(BASIC) == hash(own_copy(BASIC))
    assert BASIC.text == str(BASIC)


def test_what_is_declared_wrongly_is_refused_with_the_remedy():
    """When it is declared."""
    with pytest.raises(DeclarationValueError, match="a schema of Avro is JSON such as"):
        AvroSchema.parse_string("{")
    with pytest.raises(DeclarationValueError, match="nobody"):
        AvroSchema.parse_string('{"type": "nobody"}')
    with pytest.raises(DeclarationTypeError, match="give a text"):
        AvroSchema.parse_string(None)
    with pytest.raises(SparkSetupError, match="a record class is written in Java"):
        AvroRowSerializationSchema("org.example.User")
    with pytest.raises(DeclarationTypeError, match="give avro_schema_string"):
        AvroRowDeserializationSchema()
    with pytest.raises(DeclarationTypeError, match="give one of the type record"):
        to_bytes('"int"')
    with pytest.raises(DeclarationTypeError, match="rows have no type for"):
        to_bytes(record(("a", ["int", "string"])))
    with pytest.raises(DeclarationTypeError, match="rows have no type for 'test'"):
        to_bytes(record(("again", ["null", "test"])))
    with pytest.raises(DeclarationTypeError, match="rows have no type for"):
        to_bytes(record(("at", logical("long", "local-timestamp-millis"))))
    for make in (AvroBulkWriters.for_generic_record, GenericRecordAvroTypeInfo):
        with pytest.raises(DeclarationTypeError, match=r"make it by AvroSchema\.parse_string"):
            make("{}")
    with pytest.raises(SparkSetupError, match="create_input takes an AvroInputFormat"):
        local().create_input(object())
