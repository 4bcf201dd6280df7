# SPDX-License-Identifier: Apache-2.0
"""The division of records by the watermark of their micro-batch: before it, and the others."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.spark.wire.names import BEFORE_WATERMARK

__all__ = ["taken_apart"]


def taken_apart(
    records: pa.RecordBatch, before_watermark: str
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """Divide records into those before the watermark and the others, both in their old order.

    Args:
        records: The records of a key group in a micro-batch.
        before_watermark: The column that says which records come before the watermark.  The
            runtime's own column is dropped; a column of the user stays.
    """
    # The column is null in records that the user has put in from elsewhere.
    is_early = pc.fill_null(records.column(before_watermark), False)
    if before_watermark == BEFORE_WATERMARK:
        records = records.drop_columns([BEFORE_WATERMARK])
    return records.filter(is_early), records.filter(pc.invert(is_early))
