# SPDX-License-Identifier: Apache-2.0
"""Batches of a host that processes single elements: what ends a batch, and what its end does."""

from __future__ import annotations

from typing import Any

from pyflinklike.runtime.operator import KeyedProcessOperator

__all__ = ["Batches"]

_BATCH = 1_000
"""The number of elements and timers after which a batch ends by itself."""


class Batches:
    """Ends batches, so that a backend on disk writes and reads the disk as on a stream."""

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._operator = operator
        self._is_on_disk = operator.backend.is_persistent
        self._processed = 0
        # Without a disk an element must not pay for counting.
        self.process_one = self._process_counted if self._is_on_disk else operator.process_one
        """Process one element: `Caller.one_by_one`."""

    def _process_counted(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._operator.process_one(key, value, timestamp)
        self._processed += 1
        if self._processed >= _BATCH:
            self.end()

    def moved(self, timers: int) -> None:
        """Flush the stores after a clock has moved; end the batch only if it has grown full.

        Args:
            timers: The number of timers that the move fired.

        Raises:
            HostError: The batch ended, and the backend cannot keep it.
        """
        self._processed += timers
        # Tests move clocks all the time.  To write each move to the disk and open it again cost them
        # ten times the move itself.
        if self._is_on_disk and self._processed >= _BATCH:
            self.end()
        else:
            self._operator.stores.flush()

    def end(self) -> None:
        """End the batch: flush the stores, and move working state to where the backend keeps it.

        Raises:
            HostError: The backend cannot keep it.
        """
        self._processed = 0
        self._operator.stores.flush()
        if self._is_on_disk:
            self._operator.group.settle()
