"""What each logical type of Debezium and Connect is in a column of each type, and what is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any, NamedTuple

COLUMNS = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(20,2)",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "array<double>",
    "map<string,string>",
    "struct<scale:int,srid:int,wkb:binary,a:int>",
]
"""A column of each type that a table's row may have."""
DEC, ARRAY, MAP, STRUCT = (COLUMNS[at] for at in (7, 13, 14, 15))
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


class Case(NamedTuple):
    """A value as a connector writes it, and what it is; a column that is not told refuses it.

    Args:
        schema: The schema of the column.
        value: What the record has.
        typed: By the column's type, the value where the envelope has the schema.
        bare: The same where it has none.
    """

    schema: dict[str, Any]
    value: Any
    typed: dict[str, Any]
    bare: dict[str, Any]

    @property
    def name(self) -> str:
        """The logical type, and Connect's."""
        return f"{self.schema.get('name', 'plain').rpartition('.')[2]} {self.schema['type']}"


def ints(value: int) -> dict[str, Any]:
    """Columns of integers that are wide enough."""
    return {name: value for name, bits in BITS.items() if -(1 << bits - 1) <= value < 1 << bits - 1}


def numbers(value: int) -> dict[str, Any]:
    """All columns of numbers that hold an integer of few digits."""
    return {**ints(value), "float": float(value), "double": float(value), DEC: Decimal(value)}


def bare_int(value: int, day: dt.date | None = None) -> dict[str, Any]:
    """A number without a schema may be a day, for a column of days."""
    return numbers(value) if day is None else {**numbers(value), "date": day}


def connect(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A logical type of Connect."""
    return {"type": kind, "name": f"org.apache.kafka.connect.data.{name}", **more}


def debezium(kind: str, name: str, **more: Any) -> dict[str, Any]:
    """A logical type of Debezium."""
    return {"type": kind, "name": f"io.debezium.{name}", **more}


def texts(kind: str, value: str, **bare: Any) -> Case:
    """A logical type that is text, which only a column of texts holds."""
    return Case(debezium("string", kind), value, {"string": value}, {"string": value, **bare})


TEN = dt.datetime(1970, 1, 1, 0, 10)
DAY = dt.date(2024, 2, 29)
DEC_39 = Decimal("39.00")
OF_DECIMAL = {**ints(39), "float": 39.0, "double": 39.0, DEC: DEC_39, "string": "39.00"}
POINT = {"x": 1.5, "y": -2.0, "wkb": "AQI=", "srid": None}
SPACE = {"wkb": "AQI=", "srid": 4326}
OF_SPACE = {"scale": None, "srid": 4326, "wkb": b"\x01\x02", "a": None}
SPACE_FIELDS = [{"field": "wkb", "type": "bytes"}, {"field": "srid", "type": "int32"}]
XY = [{"field": "x", "type": "double"}, {"field": "y", "type": "double"}]
SPARSE = {"dimensions": 25, "vector": [[1, 10.5]]}
NO_FIELDS = {"scale": None, "srid": None, "wkb": None, "a": None}
STRUCTURED = {"year": 2024, "month": 2, "day": 29}

CASES = [
    # Connect's logical types
    Case(
        connect("bytes", "Decimal", parameters={"scale": "2"}),
        "Dzw=",
        OF_DECIMAL,
        {"string": "Dzw=", "binary": b"\x0f<"},
    ),
    Case(
        connect("bytes", "Decimal", parameters={"scale": "2"}),
        Decimal("12345678901234567.88"),  # decimal.format=NUMERIC
        {DEC: Decimal("12345678901234567.88"), "string": "12345678901234567.88"},
        {DEC: Decimal("12345678901234567.88")},
    ),
    Case(
        connect("int32", "Date"),
        19_782,
        {**ints(19_782), "date": DAY, "string": "2024-02-29"},
        bare_int(19_782, DAY),
    ),
    Case(
        connect("int32", "Time"),
        600_001,
        {**ints(600_001), "string": "00:10:00.001"},
        bare_int(600_001, dt.date(3612, 9, 30)),
    ),
    Case(
        connect("int64", "Timestamp"),
        600_000,
        {**ints(600_000), "timestamp_ntz": TEN, "string": "1970-01-01T00:10:00"},
        bare_int(600_000, dt.date(3612, 9, 29)),
    ),
    # Debezium's dates and times
    Case(
        debezium("int32", "time.Date"),
        19_782,
        {**ints(19_782), "date": DAY, "string": "2024-02-29"},
        bare_int(19_782, DAY),
    ),
    Case(
        debezium("string", "time.IsoDate"),
        "2024-02-29Z",
        {"date": DAY, "string": "2024-02-29"},
        {"date": DAY, "string": "2024-02-29Z"},
    ),
    Case(
        debezium("int32", "time.Time"),
        600_001,
        {**ints(600_001), "string": "00:10:00.001"},
        bare_int(600_001, dt.date(3612, 9, 30)),
    ),
    Case(
        debezium("int64", "time.MicroTime"),
        600_000_001,
        {**ints(600_000_001), "string": "00:10:00.000001"},
        {**ints(600_000_001), "double": 600_000_001.0, DEC: Decimal(600_000_001)},
    ),
    Case(
        debezium("int64", "time.NanoTime"),
        600_000_000_001,
        {**ints(600_000_000_001), "string": "00:10:00.000000001"},
        {**ints(600_000_000_001), "double": 600_000_000_001.0, DEC: Decimal(600_000_000_001)},
    ),
    Case(
        debezium("string", "time.IsoTime"),
        "00:10:00Z",
        {"string": "00:10:00"},
        {"string": "00:10:00Z"},
    ),
    texts("time.ZonedTime", "00:10:00+01:00"),
    Case(
        debezium("int64", "time.Timestamp"),
        600_000,
        {**ints(600_000), "timestamp_ntz": TEN, "string": "1970-01-01T00:10:00"},
        bare_int(600_000, dt.date(3612, 9, 29)),
    ),
    Case(
        debezium("int64", "time.MicroTimestamp"),
        600_000_000,
        {**ints(600_000_000), "timestamp_ntz": TEN, "string": "1970-01-01T00:10:00"},
        numbers(600_000_000),
    ),
    Case(
        debezium("int64", "time.NanoTimestamp"),
        600_000_000_000,
        {**ints(600_000_000_000), "timestamp_ntz": TEN, "string": "1970-01-01T00:10:00"},
        {**ints(600_000_000_000), "double": 6e11, DEC: Decimal(600_000_000_000)},
    ),
    Case(
        debezium("int64", "time.NanoTimestamp"),
        600_000_000_001,
        {**ints(600_000_000_001), "string": "1970-01-01T00:10:00.000000001"},
        {**ints(600_000_000_001), "double": 600_000_000_001.0, DEC: Decimal(600_000_000_001)},
    ),
    Case(
        debezium("string", "time.IsoTimestamp"),
        "1970-01-01T00:10:00Z",
        {"timestamp_ntz": TEN, "string": "1970-01-01T00:10:00"},
        {"timestamp_ntz": TEN, "timestamp": TEN, "string": "1970-01-01T00:10:00Z"},
    ),
    Case(
        debezium("string", "time.ZonedTimestamp"),
        "1970-01-01T00:10:00Z",
        {"timestamp": TEN, "string": "1970-01-01T00:10:00Z"},
        {"timestamp_ntz": TEN, "timestamp": TEN, "string": "1970-01-01T00:10:00Z"},
    ),
    Case(
        debezium("string", "time.ZonedTimestamp"),
        "1970-01-01T01:10:00.000+01:00",
        {"timestamp": TEN, "string": "1970-01-01T01:10:00.000+01:00"},
        {"timestamp": TEN, "string": "1970-01-01T01:10:00.000+01:00"},
    ),
    texts("time.Interval", "P1Y2M3DT4H5M6.7S"),
    Case(debezium("int64", "time.MicroDuration"), 7, ints(7), bare_int(7, dt.date(1970, 1, 8))),
    Case(debezium("int64", "time.NanoDuration"), 7, ints(7), bare_int(7, dt.date(1970, 1, 8))),
    Case(debezium("int32", "time.Year"), 2024, numbers(2024), bare_int(2024, dt.date(1975, 7, 18))),
    Case(
        debezium(
            "struct",
            "time.StructuredDate",
            fields=[{"field": each, "type": "int32"} for each in STRUCTURED],
        ),
        STRUCTURED,
        {"string": '{"year":2024,"month":2,"day":29}', STRUCT: NO_FIELDS},
        {"string": '{"year":2024,"month":2,"day":29}', STRUCT: NO_FIELDS},
    ),
    # Debezium's other types
    Case(
        debezium("bytes", "data.Bits", parameters={"length": "10"}),
        "AQI=",
        {"binary": b"\x01\x02"},
        {"string": "AQI=", "binary": b"\x01\x02"},
    ),
    texts("data.Enum", "in-stock"),
    texts("data.EnumSet", "a,b"),
    texts("data.Json", '{"a": 1}'),
    texts("data.Xml", "<a>1</a>"),
    texts("data.Uuid", "123e4567-e89b-12d3-a456-426614174000"),
    texts("data.Ltree", "top.science"),
    texts("data.Tsvector", "'fat':1 'rat':2"),
    Case(
        debezium(
            "struct",
            "data.VariableScaleDecimal",
            fields=[{"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}],
        ),
        {"scale": 2, "value": "Dzw="},
        {**OF_DECIMAL, STRUCT: {**NO_FIELDS, "scale": 2}},
        {
            **{k: v for k, v in OF_DECIMAL.items() if k != "string"},
            "string": '{"scale":2,"value":"Dzw="}',
            STRUCT: {**NO_FIELDS, "scale": 2},
        },
    ),
    Case(
        debezium("struct", "data.geometry.Point", fields=XY + SPACE_FIELDS),
        POINT,
        {
            "string": '{"x":1.5,"y":-2.0,"wkb":"AQI=","srid":null}',
            STRUCT: {**OF_SPACE, "srid": None},
        },
        {
            "string": '{"x":1.5,"y":-2.0,"wkb":"AQI=","srid":null}',
            STRUCT: {**OF_SPACE, "srid": None},
        },
    ),
    *(
        Case(
            debezium("struct", f"data.geometry.{name}", fields=SPACE_FIELDS),
            SPACE,
            {"string": '{"wkb":"AQI=","srid":4326}', STRUCT: OF_SPACE},
            {"string": '{"wkb":"AQI=","srid":4326}', STRUCT: OF_SPACE},
        )
        for name in ("Geometry", "Geography", "Line", "Circle")
    ),
    Case(
        debezium("array", "data.DoubleVector", items={"type": "double"}),
        [0.5, None],
        {ARRAY: [0.5, None], "string": "[0.5,null]"},
        {ARRAY: [0.5, None], "string": "[0.5,null]"},
    ),
    Case(
        debezium("array", "data.FloatVector", items={"type": "float"}),
        [0.1],
        {ARRAY: [0.1], "string": "[0.1]"},
        {ARRAY: [0.1], "string": "[0.1]"},
    ),
    Case(
        debezium(
            "struct",
            "data.SparseDoubleVector",
            fields=[
                {"field": "dimensions", "type": "int16"},
                {
                    "field": "vector",
                    "type": "map",
                    "keys": {"type": "int16"},
                    "values": {"type": "double"},
                },
            ],
        ),
        SPARSE,
        {"string": '{"dimensions":25,"vector":[[1,10.5]]}', STRUCT: NO_FIELDS},
        {"string": '{"dimensions":25,"vector":[[1,10.5]]}', STRUCT: NO_FIELDS},
    ),
    # Connect's own types
    Case({"type": "boolean"}, True, {"boolean": True}, {"boolean": True}),
    *(
        Case(
            {"type": f"int{bits}"},
            1,
            {"boolean": True, **numbers(1)},
            {"boolean": True, **bare_int(1, dt.date(1970, 1, 2))},
        )
        for bits in (8, 16)
    ),
    Case({"type": "int32"}, 2, numbers(2), bare_int(2, dt.date(1970, 1, 3))),
    Case(
        {"type": "int64"},
        2**53 + 1,
        {"bigint": 2**53 + 1, DEC: Decimal(2**53 + 1)},
        {"bigint": 2**53 + 1, DEC: Decimal(2**53 + 1)},
    ),
    Case(
        {"type": "float"},
        0.25,
        {"float": 0.25, "double": 0.25, DEC: Decimal("0.25")},
        {"float": 0.25, "double": 0.25, DEC: Decimal("0.25")},
    ),
    Case(
        {"type": "double"},
        39.99,
        {"float": 39.9900016784668, "double": 39.99, DEC: Decimal("39.99")},
        {"float": 39.9900016784668, "double": 39.99, DEC: Decimal("39.99")},
    ),
    Case(
        {"type": "double"},
        1234567890123456.2,
        {"double": 1234567890123456.2},
        {"double": 1234567890123456.2, DEC: Decimal("1234567890123456.20")},
    ),
    Case({"type": "string"}, "Ann B", {"string": "Ann B"}, {"string": "Ann B"}),
    Case(
        {"type": "string"},
        "deadbeef",
        {"string": "deadbeef"},
        {"string": "deadbeef", "binary": b"u\xe6\x9dm\xe7\x9f"},
    ),
    Case(
        {"type": "string"},
        "-39.50",
        {"string": "-39.50", DEC: Decimal("-39.50")},
        {"string": "-39.50", DEC: Decimal("-39.50")},
    ),
    Case(
        {"type": "string"},
        "1970-01-01 00:10:00",
        {"string": "1970-01-01 00:10:00", "timestamp_ntz": TEN},
        {"string": "1970-01-01 00:10:00", "timestamp_ntz": TEN},
    ),
    Case(
        {"type": "bytes"},
        "AQI=",
        {"binary": b"\x01\x02"},
        {"string": "AQI=", "binary": b"\x01\x02"},
    ),
    Case(
        {"type": "array", "items": {"type": "int32"}},
        [1, 2],
        {ARRAY: [1.0, 2.0], "string": "[1,2]"},
        {ARRAY: [1.0, 2.0], "string": "[1,2]"},
    ),
    Case(
        {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
        {"a": "x"},
        {MAP: {"a": "x"}, "string": '{"a":"x"}'},
        {MAP: {"a": "x"}, "string": '{"a":"x"}'},
    ),
    Case(
        {"type": "struct", "fields": [{"field": "a", "type": "int32"}]},
        {"a": 5},
        {STRUCT: {**NO_FIELDS, "a": 5}, "string": '{"a":5}'},
        {STRUCT: {**NO_FIELDS, "a": 5}, "string": '{"a":5}'},
    ),
]
