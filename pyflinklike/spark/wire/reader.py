# SPDX-License-Identifier: Apache-2.0
"""The protocol by which hosts pack and read an operator's records, of one input or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from pyflinklike.runtime.serving import Records
from pyflinklike.spark.wire.packing import Packing
from pyflinklike.types import TypeInformation

__all__ = ["Reader"]


class Reader(Protocol):
    """Packs and reads the records of an operator."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The names of the columns that make the key; of several inputs, the first one's."""

    @property
    def event_time(self) -> str | None:
        """The name of the event-time column, or None; of several inputs, all names."""

    @property
    def key_type(self) -> TypeInformation:
        """The type of the keys."""

    @property
    def time_zone(self) -> str:
        """The time zone of the Spark session."""

    @property
    def before_watermark(self) -> str | None:
        """The column that says which records come before the watermark; None if none do."""

    def packing(self, group_ids: Sequence[int]) -> Packing:
        """Return the function that packs the records of a task.

        Args:
            group_ids: The grouping key of each key group.
        """

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """Read the records of a key group in the order in which to process them.

        Args:
            payloads: Payloads that `packing` made, in the order of arrival.
        """

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """Read the records before the watermark of their micro-batch, and the others."""

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """Read the records of one key group that are in their final order.

        Raises:
            StateValueError: A record has a null key.
        """
