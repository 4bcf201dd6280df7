# SPDX-License-Identifier: Apache-2.0
"""Arrow's timestamp columns as numbers."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["milliseconds"]


def milliseconds(column: pa.Array) -> pa.Array:
    """Return the instants of a timestamp column in ms, rounded down."""
    micros = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    quotients = pc.divide(micros, 1000)
    # Arrow rounds towards zero; before the epoch that is the ms after.
    below = pc.less(micros, pc.multiply(quotients, 1000))
    return pc.subtract(quotients, below.cast(pa.int64()))
