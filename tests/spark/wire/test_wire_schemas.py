# SPDX-License-Identifier: Apache-2.0
"""The columns that go between our own Python stages, as Spark is told them, and as Arrow has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyflinklike.pyflink._spark import stage_outputs
from pyflinklike.pyflink._spark.stage_task import SOURCE_SCHEMA
from pyflinklike.pyflink._spark.watermark_feed import MARKED_SCHEMA
from pyflinklike.spark._host.translations import RESULT_COLUMNS, RESULT_SCHEMA
from pyflinklike.spark._wire.payloads import INITIAL_SCHEMA, PACKED_SCHEMA

# Plans and checkpoints of running queries have these columns: a text that changes is a defect.
TEXTS = {
    "__key_group int, origin long, payload binary": PACKED_SCHEMA,
    "__key_group int, origin long, payload binary, __watermark timestamp": MARKED_SCHEMA,
    "__key_group int, payload binary": INITIAL_SCHEMA,
    "__key_group int, time long, arrival long, parcel binary": stage_outputs.ROW_SCHEMA,
    "output int, payload binary": stage_outputs.RESULT_SCHEMA,
    "output int, payload binary, "
    "counts array<struct<function string, name string, how string, value long>>": (
        stage_outputs.COUNTED_RESULT_SCHEMA
    ),
    "output int, payload binary, counts array<long>, "
    "user_counts array<struct<name string, how string, value long>>": RESULT_SCHEMA,
    "source int, split int, splits int, part string, elements binary, is_last boolean": (
        SOURCE_SCHEMA
    ),
}


@pytest.mark.parametrize("text", TEXTS)
def test_spark_is_told_the_columns_by_the_same_text_as_ever(text):
    """The DDL of each schema is the text with which checkpoints were written."""
    assert TEXTS[text].ddl == text


def test_the_results_of_a_state_operator_have_the_columns_of_its_schema():
    """Hosts name the cells of a result as its schema does."""
    assert RESULT_COLUMNS == ("output", "payload", "counts", "user_counts")


def test_rows_become_a_batch_of_the_schema():
    """A batch has the columns of its schema, with the cells of the rows in their order."""
    batch = MARKED_SCHEMA.batch([(7, 1, b"a", None), (8, 2, b"b", 1_000_000)])
    assert batch.schema == MARKED_SCHEMA.arrow
    assert batch.to_pylist() == [
        {"__key_group": 7, "origin": 1, "payload": b"a", "__watermark": None},
        {
            "__key_group": 8,
            "origin": 2,
            "payload": b"b",
            "__watermark": pa.scalar(1_000_000, pa.timestamp("us", tz="UTC")).as_py(),
        },
    ]
