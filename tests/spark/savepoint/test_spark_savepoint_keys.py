# SPDX-License-Identifier: Apache-2.0
"""The keys of a savepoint get the key groups that Spark gives to records."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal

import pytest
from pyspark.sql import functions as F
from spark_savepoints import Sum, sums
from spark_support import Feed, bounded

from pyflinklike.errors import IncompatibleStateError
from pyflinklike.spark import key_by
from pyflinklike.spark._wire.schema import key_type_of
from pyflinklike.state_processor._checkpoints.state_frames import KeyGroupFinder

KEYS = {
    "boolean": [True, False],
    "tinyint": [1, -1, 0],
    "smallint": [1, -1, 300],
    "int": [0, 1, -1, 2**31 - 1],
    "bigint": [0, 1, -1, 2**40],
    "string": ["", "a", "å\x00b"],
    "double": [0.0, 1.0, -1.5],
    "float": [0.5, 2.0],
    "decimal(10,2)": [Decimal("1.50"), Decimal("-2.00")],
    "date": [dt.date(2024, 2, 29), dt.date(1, 1, 1)],
    "timestamp": [dt.datetime(2024, 2, 29, 12, 30, 0, 7)],
    "timestamp_ntz": [dt.datetime(2024, 3, 31, 2, 30)],
    "binary": [b"", b"\x00a"],
}


def _as_a_key(value):
    """What a function sees; Spark 4.0 collects bytes as a bytearray."""
    return bytes(value) if isinstance(value, bytearray) else value


def test_the_keys_of_a_savepoint_get_the_key_groups_of_records(spark):
    """For every type of key column, and for keys of several columns, nulls among them."""
    groups = 32_768
    for kind, keys in KEYS.items():
        records = bounded(
            spark,
            [(key, number, None) for number, key in enumerate(keys)],
            f"a {kind}, b int, c string",
        )
        for columns in (["a"], ["b", "a"], ["a", "c"]):
            expected = records.select(
                *columns, F.pmod(F.xxhash64(*columns), F.lit(groups)).alias("group")
            ).collect()
            rows = [map(_as_a_key, tuple(row)[:-1]) for row in expected]
            values = [next(row) if len(columns) == 1 else tuple(row) for row in rows]
            types = {column: records.schema[column].dataType for column in columns}
            known = KeyGroupFinder(types, key_type_of(list(types.values()), "UTC"), groups, "UTC")
            found = known.of(spark, values)
            assert [row["group"] for row in expected] == found, (kind, columns)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("int", 2**31),
        ("int", "1"),
        ("int", True),
        ("string", 1),
        ("double", 1),
        ("date", "x"),
        ("decimal(3,1)", Decimal("1.25")),
    ],
)
def test_a_key_that_no_record_can_have_is_refused(spark, tmp_path, kind, key):
    """When the query is made, with the key in the message."""
    stream = Feed(spark, tmp_path, f"key {kind}, n int").stream()
    blob = sums(key).snapshot()
    with pytest.raises(IncompatibleStateError, match="savepoint: .*" + re.escape(repr(key))):
        key_by(stream, "key").process(Sum(), "key string, n long", from_savepoint=blob)
