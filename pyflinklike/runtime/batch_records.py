# SPDX-License-Identifier: Apache-2.0
"""Records of a key group as columns, and how a host reads them from an Arrow batch."""

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
    """The distinct keys of a batch; as many as records to whoever asks for its length.

    Args:
        records: How many records there are.
        column: The distinct keys, as an Arrow column of the key type's.
    """

    def __init__(self, records: int, column: Any) -> None:
        self._records = records
        self.column = column

    def __len__(self) -> int:
        return self._records


class ColumnRecords(NamedTuple):
    """What `Records` is for functions of one element at a time.

    Args:
        keys: Of the records.
        values: The records.
        timestamps: Event times in ms, `MIN_WATERMARK` where there is none; None without event time.
    """

    keys: BatchKeys
    values: KeyedBatch
    timestamps: Any

    def count_into(self, metrics: OperatorMetrics, watermark: int) -> None:
        """Count the records.

        Args:
            metrics: Of the operator.
            watermark: Now, in ms.
        """
        late, times = 0, self.timestamps
        if watermark > MIN_WATERMARK and times is not None:
            late = int(((times <= watermark) & (times > MIN_WATERMARK)).sum())
        metrics.add_batch(len(self.keys), late)


@attrs.frozen
class ColumnReader:
    """Reads the records of one operator as columns, where `RecordReader` makes rows.

    Args:
        keys: Reads the keys.
        event_time: Name of the event-time column, or None.
    """

    keys: KeyReader
    event_time: str | None

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Names of the columns that make the key."""
        return self.keys.columns

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> ColumnRecords:
        """The records of a batch, in the order to process them.

        With an event time they are ordered by it in ms, and by arrival if it is equal;
        records without a time come first.

        Args:
            records: In the order in which they arrived.
            in_order: Whether they are in their final order.
        """
        times = None
        if self.event_time is not None:
            column = records.column(self.event_time)
            is_ms = pa.types.is_integer(column.type)
            column = column.cast(pa.int64()) if is_ms else milliseconds(column)
            times = pc.fill_null(column, MIN_WATERMARK).to_numpy()
            if not in_order and (times[1:] < times[:-1]).any():
                order = np.argsort(times, kind="stable")
                records, times = records.take(pa.array(order)), times[order]
        distinct, codes, first = self.keys.read(records)
        batch = KeyedBatch(records, Groups(codes, first), times)
        return ColumnRecords(BatchKeys(len(batch), distinct), batch, times)
