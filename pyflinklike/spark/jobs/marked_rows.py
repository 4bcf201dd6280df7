# SPDX-License-Identifier: Apache-2.0
"""Packed rows as Arrow, those of the first stage with the watermark that they make."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pyflinklike.clock import MAX_WATERMARK
from pyflinklike.spark.wire.names import KEY_GROUP
from pyflinklike.spark.wire.packing import PACKED_TYPE
from pyflinklike.spark.wire.watermarks import END_OF_INPUT

__all__ = ["MARKED_TYPE", "WATERMARK", "marked", "packed"]

WATERMARK = "__watermark"
MARKED_TYPE = f"{PACKED_TYPE}, {WATERMARK} timestamp"
"""Packed rows of the first stage, with the watermark that they make in a last column."""

_PACKED = pa.schema([(KEY_GROUP, pa.int32()), ("origin", pa.int64()), ("payload", pa.binary())])
_MARKED = _PACKED.append(pa.field(WATERMARK, pa.timestamp("us", tz="UTC")))

_Rows = list[tuple[int, int, bytes]]


def packed(rows: _Rows) -> pa.RecordBatch:
    """Rows behind an operator.

    Args:
        rows: Grouping key, origin and payload of each.
    """
    return pa.RecordBatch.from_arrays(_columns(rows), schema=_PACKED)


def marked(rows: _Rows, watermark: int | None) -> pa.RecordBatch:
    """Rows of the first stage.

    Args:
        rows: As of `packed`.
        watermark: That they make, in ms; None for none.
    """
    times = pa.array([_as_time(watermark)] * len(rows), pa.int64()).cast(_MARKED.types[-1])
    return pa.RecordBatch.from_arrays([*_columns(rows), times], schema=_MARKED)


def _columns(rows: _Rows) -> list[Any]:
    return [pa.array(column, kind) for column, kind in zip(zip(*rows), _PACKED.types)]


def _as_time(watermark: int | None) -> int | None:
    """A watermark in microseconds, as Spark takes it; None for none, and before any event."""
    if watermark is None or watermark <= 0:
        return None
    return 1000 * (END_OF_INPUT if watermark == MAX_WATERMARK else watermark)
