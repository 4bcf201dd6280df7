# SPDX-License-Identifier: Apache-2.0
"""The reader for an operator with one input: keys, elements and times from record batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from pyflinklike.clock import MIN_WATERMARK
from pyflinklike.runtime.serving import NO_RECORDS, Records, UnsortedRecords
from pyflinklike.spark.wire.instant_keys import InstantKeyTypeInfo
from pyflinklike.spark.wire.packing import Packing, pack, refuse_null_keys
from pyflinklike.spark.wire.phases import taken_apart
from pyflinklike.types import TypeInformation
from pyflinklike.types.arrow_rows import to_python, to_rows
from pyflinklike.types.arrow_times import milliseconds

__all__ = ["RecordReader"]


@attrs.frozen
class RecordReader:
    """Reads the records of one input.

    Args:
        key_columns: The columns that make the key; without any there is one key, ().
        event_time: The event-time column, or None.
        key_type: The type by which keys are frozen.
        time_zone: The zone of the Spark session, in which a function sees instants.
        arrival_order: Whether to keep the order of arrival even if there is an event time.
        before_watermark: The column that says which records come before the watermark of their
            micro-batch; None unless the operator is behind another one.
    """

    key_columns: tuple[str, ...]
    event_time: str | None
    key_type: TypeInformation
    time_zone: str
    arrival_order: bool = attrs.field(default=False, kw_only=True)
    before_watermark: str | None = attrs.field(default=None, kw_only=True)

    def packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task.

        Args:
            group_ids: The grouping key of each key group.
        """
        return pack(self.key_columns, group_ids)

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group from payloads in the order of arrival."""
        return self.read(pa.concat_batches(payloads))

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""
        records = pa.concat_batches(payloads)
        if self.before_watermark is None:
            return NO_RECORDS, self.read(records)
        early, others = taken_apart(records, self.before_watermark)
        return self.read(early), self.read(others)

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read sorted records.

        Raises:
            StateValueError: A record has a null key.
        """
        refuse_null_keys(records, self.key_columns)
        return self.read(records, in_order=True)

    def read(self, records: pa.RecordBatch, *, in_order: bool = False) -> Records:
        """Read records in the order in which to process them.

        If there is an event time, it orders the records, in ms; records of equal times keep the
        order of arrival, and records without a time come first.  `arrival_order` keeps the order
        of arrival throughout.

        Args:
            records: Must be in the order of arrival.
            in_order: Whether this is the final order, so that nothing is sorted.
        """
        times: list[int | None]
        if self.event_time is None:
            times = [None] * records.num_rows
        else:
            column = milliseconds(records.column(self.event_time))
            if not in_order and not self.arrival_order:
                # Arrow's sort is stable: records of one time keep their order of arrival.
                order = pc.sort_indices(pc.fill_null(column, MIN_WATERMARK))
                records, column = records.take(order), column.take(order)
            times = column.to_pylist()
        names = tuple(records.schema.names)
        columns = [to_python(column, self.time_zone) for column in records.columns]
        elements = to_rows(names, columns, records.num_rows)
        if isinstance(self.key_type, InstantKeyTypeInfo):
            keys = self.key_type.frozen([records.column(name) for name in self.key_columns])
        elif not self.key_columns:
            keys = [()] * records.num_rows
        else:
            keys = self._keys([columns[names.index(name)] for name in self.key_columns])
        return (UnsortedRecords if self.arrival_order else Records)(keys, elements, times)

    def _keys(self, columns: list[list[Any]]) -> list[Any]:
        keys: list[Any] = columns[0] if len(columns) == 1 else list(zip(*columns))
        # Keys of an identity type need no call for each.
        return keys if self.key_type.is_identity else [self.key_type.freeze_key(k) for k in keys]
