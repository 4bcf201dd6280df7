# SPDX-License-Identifier: Apache-2.0
"""Which records of a micro-batch come before its watermark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyflinklike.spark._wire.system_columns import BEFORE_WATERMARK, take_apart


def _records(column, phases):
    return pa.record_batch({"n": range(len(phases)), column: pa.array(phases, pa.bool_())})


@pytest.mark.parametrize(
    ("column", "fields"),
    [("early", ["n", "early"]), (BEFORE_WATERMARK, ["n"])],
    ids=["of the user", "our own"],
)
def test_records_before_the_watermark_are_taken_apart(column, fields):
    """Each part in its order; null is not before it. Our own column is not the element's, one of the user's is."""
    early, others = take_apart(_records(column, [True, None, False, True]), column)

    assert ([0, 3], [1, 2]) == (early["n"].to_pylist(), others["n"].to_pylist())
    assert fields == early.schema.names == others.schema.names
