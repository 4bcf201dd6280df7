# SPDX-License-Identifier: Apache-2.0
"""The table of Python's values and the types of columns: what each becomes, or that it is refused.

Every value stands against every type.  `FITS` has what a column gives back, in `ZONE` and with
instants in UTC; whatever it leaves out is refused.
"""

from __future__ import annotations

import datetime as dt
import math
from array import array
from collections import namedtuple
from decimal import Decimal
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import Row as SparkRow
from pyspark.sql import types as st

from pyflinklike import Instant, Row, Types

ZONE = "America/New_York"
UTC = dt.timezone.utc
CEST = dt.timezone(dt.timedelta(hours=2))


class Level(IntEnum):
    """An int with a name."""

    LOW = 1


Same = namedtuple("Same", ["a", "b"])
Turned = namedtuple("Turned", ["b", "a"])
Other = namedtuple("Other", ["a", "c"])
SPARK_TURNED = SparkRow("b", "a")("x", 1)
DAY, NOON = dt.date(2024, 7, 1), dt.datetime(2024, 7, 1, 12)
NOON_IN_UTC = dt.datetime(2024, 7, 1, 16)
MOMENT = dt.timedelta(days=-1, microseconds=1)

VALUES: dict[str, Any] = {
    "True": True,
    "np.True_": np.bool_(True),
    "0": 0,
    "1": 1,
    "-1": -1,
    "2**7-1": 127,
    "2**7": 128,
    "2**15-1": 32_767,
    "-2**15-1": -32_769,
    "2**31-1": 2**31 - 1,
    "2**31": 2**31,
    "2**24+1": 2**24 + 1,
    "2**53+1": 2**53 + 1,
    "2**60": 2**60,
    "2**63-1": 2**63 - 1,
    "2**63": 2**63,
    "10**400": 10**400,
    "IntEnum": Level.LOW,
    "np.int8": np.int8(1),
    "np.uint64": np.uint64(2**63),
    "1.0": 1.0,
    "3.7": 3.7,
    "-0.0": -0.0,
    "1e39": 1e39,
    "nan": math.nan,
    "inf": math.inf,
    "np.float32": np.float32(0.1),
    "np.float64": np.float64(3.7),
    "D1": Decimal(1),
    "D1.5": Decimal("1.5"),
    "D1.500": Decimal("1.500"),
    "D1.555": Decimal("1.555"),
    "D999.99": Decimal("999.99"),
    "D1000": Decimal(1000),
    "D1E+1": Decimal("1E+1"),
    "D-NaN": Decimal("NaN"),
    "D-Infinity": Decimal("Infinity"),
    "complex": 1j,
    "text": "x",
    "text 1": "1",
    "no text": "",
    "surrogate": "\udcff",
    "np.str_": np.str_("x"),
    "bytes": b"x",
    "bytearray": bytearray(b"x"),
    "memoryview": memoryview(b"x"),
    "date": DAY,
    "noon": NOON,
    "noon in UTC": NOON.replace(tzinfo=UTC),
    "noon in +02:00": NOON.replace(tzinfo=CEST),
    "second half past one": dt.datetime(2024, 11, 3, 1, 30, fold=1),
    "never shown": dt.datetime(2024, 3, 10, 2, 30),
    "ms": 1_719_835_200_000,
    "np.datetime64 us": np.datetime64("2024-07-01T12:00", "us"),
    "np.datetime64 D": np.datetime64("2024-07-01", "D"),
    "np.datetime64 ns": np.datetime64("2024-07-01T12:00", "ns"),
    "np.datetime64 NaT": np.datetime64("NaT", "us"),
    "pd.Timestamp": pd.Timestamp(NOON),
    "pd.Timestamp in UTC": pd.Timestamp(NOON, tz="UTC"),
    "pd.Timestamp ns": pd.Timestamp(1),
    "pd.NaT": pd.NaT,
    "pd.NA": pd.NA,
    "Instant": Instant(0, 0),
    "time": dt.time(12),
    "timedelta": MOMENT,
    "timedelta.max": dt.timedelta.max,
    "np.timedelta64 us": np.timedelta64(1, "us"),
    "np.timedelta64 ns": np.timedelta64(1, "ns"),
    "pd.Timedelta": pd.Timedelta(MOMENT),
    "pd.Timedelta ns": pd.Timedelta(1),
    "list": [1, 2],
    "list with None": [1, None],
    "empty list": [],
    "list with float": [1, 1.5],
    "list with True": [True],
    "tuple": (1, 2),
    "range": range(2),
    "array": array("q", [1, 2]),
    "np.array": np.array([1, 2]),
    "np.array of floats": np.array([1.5]),
    "set": {1},
    "iterator": iter([1]),
    "map": {"a": 1},
    "empty map": {},
    "map with None": {"a": None},
    "map with float": {"a": 1.5},
    "map of int": {1: 1},
    "map of None": {None: 1},
    "pairs": [("a", 1)],
    "row tuple": (1, "x"),
    "row list": [1, "x"],
    "row without names": Row(1, "x"),
    "row": Row(a=1, b="x"),
    "row turned": Row(b="x", a=1),
    "row of other names": Row(a=1, c="x"),
    "row that lacks a name": Row(a=1),
    "row with a name more": Row(a=1, b="x", c=2),
    "Spark's row": SparkRow(a=1, b="x"),
    "Spark's row turned": SPARK_TURNED,
    "Spark's row of other names": SparkRow(a=1, c="x"),
    "Spark's row without names": SparkRow(1, "x"),
    "namedtuple": Same(1, "x"),
    "namedtuple turned": Turned("x", 1),
    "namedtuple of other names": Other(1, "x"),
    "mapping": {"a": 1, "b": "x"},
    "mapping turned": {"b": "x", "a": 1},
    "mapping that lacks a name": {"a": 1},
    "mapping with a name more": {"a": 1, "b": "x", "c": 2},
    "row of Nones": (None, None),
    "row with a float": Row(b="x", a=3.7),
    "short row": (1,),
    "long row": (1, "x", 2),
    "object": object(),
}

BYTES = {"0": 0, "1": 1, "-1": -1, "2**7-1": 127, "IntEnum": 1, "np.int8": 1}
SHORTS = {**BYTES, "2**7": 128, "2**15-1": 32_767}
INTS = {**SHORTS, "-2**15-1": -32_769, "2**31-1": 2**31 - 1, "2**24+1": 2**24 + 1}
MS = 1_719_835_200_000
LONGS = {
    **INTS,
    "2**31": 2**31,
    "2**53+1": 2**53 + 1,
    "2**60": 2**60,
    "2**63-1": 2**63 - 1,
    "ms": MS,
}
HUGE = {**LONGS, "2**63": 2**63, "np.uint64": 2**63}
FLOATS = {
    "0": 0.0,
    "1": 1.0,
    "-1": -1.0,
    "2**7-1": 127.0,
    "2**7": 128.0,
    "2**15-1": 32_767.0,
    "-2**15-1": -32_769.0,
    "2**31": 2.0**31,
    "2**60": 2.0**60,
    "2**63": 2.0**63,
    "IntEnum": 1.0,
    "np.int8": 1.0,
    "np.uint64": 2.0**63,
    "1.0": 1.0,
    "-0.0": -0.0,
    "nan": math.nan,
    "inf": math.inf,
}
TEXTS = {"text": "x", "text 1": "1", "no text": "", "np.str_": "x"}
INSTANTS = {
    "noon": NOON_IN_UTC,
    "noon in UTC": NOON,
    "noon in +02:00": dt.datetime(2024, 7, 1, 10),
    "second half past one": dt.datetime(2024, 11, 3, 6, 30),
    "np.datetime64 us": NOON_IN_UTC,
    "pd.Timestamp": NOON_IN_UTC,
    "pd.Timestamp in UTC": NOON,
}
WALL_TIMES = {
    "noon": NOON,
    "second half past one": dt.datetime(2024, 11, 3, 1, 30),
    "never shown": dt.datetime(2024, 3, 10, 2, 30),
    "np.datetime64 us": NOON,
    "pd.Timestamp": NOON,
}
LISTS = {
    "list": [1, 2],
    "list with None": [1, None],
    "empty list": [],
    "tuple": [1, 2],
    "range": [0, 1],
    "array": [1, 2],
    "np.array": [1, 2],
    "row of Nones": [None, None],
    "short row": [1],
}
MAPS = {
    "map": {"a": 1},
    "empty map": {},
    "map with None": {"a": None},
    "mapping that lacks a name": {"a": 1},
}
ROWS = {
    **dict.fromkeys(
        [
            "row tuple",
            "row list",
            "row without names",
            "row",
            "row turned",
            "Spark's row",
            "Spark's row turned",
            "Spark's row without names",
            "namedtuple",
            "namedtuple turned",
            "mapping",
            "mapping turned",
        ],
        (1, "x"),
    ),
    "row of Nones": (None, None),
    "list with None": (1, None),
}

ROW_TYPE = st.StructType().add("a", st.LongType()).add("b", st.StringType())
SPARK_TYPES = {
    "boolean": st.BooleanType(),
    "tinyint": st.ByteType(),
    "smallint": st.ShortType(),
    "int": st.IntegerType(),
    "bigint": st.LongType(),
    "float": st.FloatType(),
    "double": st.DoubleType(),
    "decimal(5,2)": st.DecimalType(5, 2),
    "decimal(38,0)": st.DecimalType(38, 0),
    "string": st.StringType(),
    "binary": st.BinaryType(),
    "date": st.DateType(),
    "timestamp": st.TimestampType(),
    "timestamp_ntz": st.TimestampNTZType(),
    "interval day to second": st.DayTimeIntervalType(),
    "array<bigint>": st.ArrayType(st.LongType()),
    "map<string,bigint>": st.MapType(st.StringType(), st.LongType()),
    "struct<a:bigint,b:string>": ROW_TYPE,
}

FITS: dict[str, dict[str, Any]] = {
    "boolean": {"True": True, "np.True_": True},
    "tinyint": BYTES,
    "smallint": SHORTS,
    "int": INTS,
    "bigint": LONGS,
    "float": {
        **FLOATS,
        "3.7": float(np.float32(3.7)),
        "np.float32": float(np.float32(0.1)),
        "np.float64": float(np.float32(3.7)),
    },
    "double": {
        **FLOATS,
        "2**31-1": 2.0**31 - 1,
        "2**24+1": 2.0**24 + 1,
        "ms": float(MS),
        "3.7": 3.7,
        "1e39": 1e39,
        "np.float32": float(np.float32(0.1)),
        "np.float64": 3.7,
    },
    "decimal(5,2)": {
        "0": Decimal("0.00"),
        "1": Decimal("1.00"),
        "-1": Decimal("-1.00"),
        "2**7-1": Decimal("127.00"),
        "2**7": Decimal("128.00"),
        "IntEnum": Decimal("1.00"),
        "np.int8": Decimal("1.00"),
        "D1": Decimal("1.00"),
        "D1.5": Decimal("1.50"),
        "D1.500": Decimal("1.50"),
        "D999.99": Decimal("999.99"),
        "D1E+1": Decimal("10.00"),
    },
    "decimal(38,0)": {
        **{name: Decimal(value) for name, value in HUGE.items()},
        "D1": Decimal(1),
        "D1000": Decimal(1000),
        "D1E+1": Decimal(10),
    },
    "string": TEXTS,
    "binary": {"bytes": b"x", "bytearray": b"x", "memoryview": b"x"},
    "date": {"date": DAY, "np.datetime64 D": DAY},
    "timestamp": INSTANTS,
    "timestamp_ntz": WALL_TIMES,
    "interval day to second": {
        "timedelta": MOMENT,
        "pd.Timedelta": MOMENT,
        "np.timedelta64 us": dt.timedelta(microseconds=1),
    },
    "array<bigint>": LISTS,
    "map<string,bigint>": MAPS,
    "struct<a:bigint,b:string>": ROWS,
}
"""By the type of a column, what it gives back of each value that fits."""

OF_TYPES = {
    "boolean": Types.BOOLEAN(),
    "tinyint": Types.BYTE(),
    "smallint": Types.SHORT(),
    "int": Types.INT(),
    "bigint": Types.LONG(),
    "float": Types.FLOAT(),
    "double": Types.DOUBLE(),
    "string": Types.STRING(),
    "binary": Types.PRIMITIVE_ARRAY(Types.BYTE()),
    "date": Types.SQL_DATE(),
    "timestamp_ntz": Types.SQL_TIMESTAMP(),
    "array<bigint>": Types.OBJECT_ARRAY(Types.LONG()),
    "struct<a:bigint,b:string>": Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]),
}
"""The types of columns that `Types` has, with the same values."""

CELLS = [(kind, name) for kind in FITS for name in VALUES]


def as_read(value: Any) -> str:
    """Show a value of a column, whoever read it: the same text for the same value."""
    if isinstance(value, tuple):
        return repr(tuple(value))
    return repr(bytes(value) if isinstance(value, bytearray) else value)
