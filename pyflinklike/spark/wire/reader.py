# SPDX-License-Identifier: Apache-2.0
"""What the hosts ask of whatever reads an operator's records: of one input, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from pyflinklike.runtime.serving import Records
from pyflinklike.spark.wire.packing import Packing
from pyflinklike.types import TypeInformation

__all__ = ["Reader"]


class Reader(Protocol):
    """Packs the records of an operator, and reads them; `RecordReader` is one."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Names of the columns that make the key; of several inputs, the first one's."""

    @property
    def event_time(self) -> str | None:
        """Name of the event-time column, or None; of several inputs, all names."""

    @property
    def key_type(self) -> TypeInformation:
        """Of the keys."""

    @property
    def time_zone(self) -> str:
        """Of the Spark session."""

    @property
    def before_watermark(self) -> str | None:
        """The column that says which records come before the watermark; None where none do."""

    def packing(self, group_ids: Sequence[int]) -> Packing:
        """What packs the records of a task.

        Args:
            group_ids: The grouping key of each key group.
        """

    def read_payloads(self, payloads: Sequence[pa.RecordBatch]) -> Records:
        """The records of a key group's payloads, in the order to process them.

        Args:
            payloads: What `packing` has made of them, in the order of arrival.
        """

    def read_apart(self, payloads: Sequence[pa.RecordBatch]) -> tuple[Records, Records]:
        """The same: those that come before the watermark of their micro-batch, and the others."""

    def read_sorted(self, records: pa.RecordBatch) -> Records:
        """The records of a batch that are in their final order.

        Args:
            records: Of one key group.

        Raises:
            StateValueError: A record has a null key.
        """
