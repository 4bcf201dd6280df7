# SPDX-License-Identifier: Apache-2.0
"""Takes the records that come before the watermark of their micro-batch out of a batch."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.spark.wire.names import BEFORE_WATERMARK

__all__ = ["taken_apart"]


def taken_apart(
    records: pa.RecordBatch, before_watermark: str
) -> tuple[pa.RecordBatch, pa.RecordBatch]:
    """The records that come before the watermark, and the others, each in the order of before.

    Args:
        records: Of a key group in a micro-batch.
        before_watermark: Name of the column that says which come before it. Our own column is left
            out, one of the user's stays among the others.
    """
    # Null where the user has put records of another origin among them.
    is_early = pc.fill_null(records.column(before_watermark), False)
    if before_watermark == BEFORE_WATERMARK:
        records = records.drop_columns([BEFORE_WATERMARK])
    return records.filter(is_early), records.filter(pc.invert(is_early))
