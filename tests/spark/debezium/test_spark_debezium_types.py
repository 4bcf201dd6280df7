# SPDX-License-Identifier: Apache-2.0
"""Every logical type in a column of every type of a DataFrame: what a single record gives."""

from __future__ import annotations

import msgspec
import pytest
from debezium_support import envelope, wrapped
from debezium_types import CASES, COLUMNS
from spark_support import pickle_by_value

from pyflinklike import cdc
from pyflinklike.spark import decode_debezium

pickle_by_value(__name__)

ROW = "id int, " + ", ".join(f"c{at} {column}" for at, column in enumerate(COLUMNS))
DUMP = msgspec.json.Encoder(decimal_format="number").encode


def records():
    """One for each logical type in each column, with its schema and bare."""
    for case in CASES:
        for at in range(len(COLUMNS)):
            fields = [{**case.schema, "field": f"c{at}"}]
            schema = {"type": "struct", "fields": [{"field": "after", "fields": fields}]}
            value = envelope("c", None, {"id": 1, f"c{at}": case.value})
            for document in (wrapped(value, schema), value):
                yield {"key": b'{"id":1}', "value": DUMP(document), "partition": 0, "offset": at}


def plain(value):
    """A value as the record has it: structs are dicts."""
    if hasattr(value, "asDict"):
        return {name: plain(each) for name, each in value.asDict().items()}
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.telling
def test_a_dataframe_has_the_value_or_the_error_that_a_record_has(spark):
    """All pairs of a logical type and a column's type in one query."""
    rows = list(records())
    frame = spark.createDataFrame(
        [tuple(each.values()) for each in rows],
        "key binary, value binary, partition int, offset long",
    )
    found = [
        (plain(each.after), each.error)
        for each in decode_debezium(frame, schema=ROW, on_error="inline").collect()
    ]

    singles = [cdc.decode_debezium(each, schema=ROW, on_error="inline") for each in rows]
    assert [(each.after, each.error) for each in singles] == found
