# SPDX-License-Identifier: Apache-2.0
"""Records of a key group as columns, and the reader that makes them of an Arrow record batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.columns.batch import KeyedBatch
from pyflinklike.columns.grouping import KeyReader
from pyflinklike.columns.groups import Groups
from pyflinklike.runtime.counters import OperatorMetrics
from pyflinklike.types.arrow_times import milliseconds

__all__ = ["BatchKeys", "ColumnReader", "ColumnRecords"]


class BatchKeys:
    """The distinct keys of a batch, whose length is the number of records.

    Args:
        column: The distinct keys, as an Arrow column of the key type's Arrow type.
    """

    def __init__(self, records: int, column: Any) -> None:
        self._records = records
        self.column = column

    def __len__(self) -> int:
        return self._records


class ColumnRecords(NamedTuple):
    """The counterpart of `Records`, which functions of single elements get.

    Args:
        timestamps: Event times in ms, `MIN_WATERMARK` for a null; None without event time.
    """

    keys: BatchKeys
    values: KeyedBatch
    timestamps: Any

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records; those at or below the watermark, in ms, are late."""
        late, times = 0, self.timestamps
        if watermark > MIN_WATERMARK and times is not None:
            late = int(((times <= watermark) & (times > MIN_WATERMARK)).sum())
        metrics.add_batch(len(self.keys), late)


@attrs.frozen
class ColumnReader:
    """Reads the records of one operator as columns; `RecordReader` makes rows instead.

    Args:
        event_time: The name of the event-time column, or None.
    """

    keys: KeyReader
    event_time: str | None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the columns that make the key."""
        return self.keys.columns

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> ColumnRecords:
        """Read the records of a batch, in the order to process them.

        With an event time that is its order in ms, and the order of arrival where it is equal;
        records without a time come first.

        Args:
            records: In the order of arrival.
            in_order: Whether the records have their final order already.
        """
        times = None
        if self.event_time is not None:
            column = records.column(self.event_time)
            is_ms = pa.types.is_integer(column.type)
            column = column.cast(pa.int64()) if is_ms else milliseconds(column)
            times = pc.fill_null(column, MIN_WATERMARK).to_numpy()
            # A batch that is in order already needs no sort and no copy.
            if not in_order and (times[1:] < times[:-1]).any():
                order = np.argsort(times, kind="stable")
                records, times = records.take(pa.array(order)), times[order]
        distinct, codes, first = self.keys.read(records)
        batch = KeyedBatch(records, Groups(codes, first), times)
        return ColumnRecords(BatchKeys(len(batch), distinct), batch, times)
