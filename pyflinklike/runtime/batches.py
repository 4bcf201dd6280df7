# SPDX-License-Identifier: Apache-2.0
"""Batches of a host that processes elements one by one: what ends one, and what it does."""

from __future__ import annotations

from typing import Any

from pyflinklike.runtime.operator import KeyedProcessOperator

__all__ = ["Batches"]

_BATCH = 1_000
"""How many elements may be processed one by one before a batch ends by itself."""


class Batches:
    """Ends batches for a backend that has to write and read the disk then, as on a stream.

    Args:
        operator: Of the host.
    """

    def __init__(self, operator: KeyedProcessOperator) -> None:
        self._operator = operator
        self._is_on_disk = operator.backend.is_persistent
        self._processed = 0
        # No cost for an element where there is no disk.
        self.process_one = self._process_counted if self._is_on_disk else operator.process_one
        """Process one element: `Caller.one_by_one`."""

    def _process_counted(self, key: Any, value: Any, timestamp: int | None) -> None:
        self._operator.process_one(key, value, timestamp)
        self._processed += 1
        if self._processed >= _BATCH:
            self.end()

    def moved(self, timers: int) -> None:
        """A clock has moved: stores flush, and the batch goes on until it has grown as any other.

        Tests move clocks all the time, and to write each move to the disk and open it again cost
        them ten times what the move itself does.

        Args:
            timers: How many fired.

        Raises:
            HostError: The batch ended, and the backend cannot keep it.
        """
        self._processed += timers
        if self._is_on_disk and self._processed >= _BATCH:
            self.end()
        else:
            self._operator.stores.flush()

    def end(self) -> None:
        """End the batch: stores flush, and working state goes where the backend keeps it.

        Raises:
            HostError: The backend cannot keep it.
        """
        self._processed = 0
        self._operator.stores.flush()
        if self._is_on_disk:
            self._operator.group.settle()
