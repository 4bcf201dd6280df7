# SPDX-License-Identifier: Apache-2.0
"""The interface of a view's storage: an SQLite file, or tables of PostgreSQL.

Keys and rows are bytes here, so every storage returns them as they were put in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

__all__ = ["AppliedBatch", "RowChange", "Snapshot", "Storage"]


class RowChange(NamedTuple):
    """The effect of a batch on a key, encoded; None stands for no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


class AppliedBatch(Protocol):
    """A batch that was applied."""

    @property
    def seq(self) -> int:
        """The batch's number among the applied ones, from 1."""

    @property
    def batch_id(self) -> int:
        """The batch's id in the stream it came from."""

    @property
    def applied_at(self) -> int:
        """The time at which the batch was applied, in ms since the epoch."""

    @property
    def watermark(self) -> int | None:
        """The event time that was reached, in ms since the epoch; None if it was unknown."""

    @property
    def size(self) -> int:
        """The number of rows in the view after the batch."""


class Snapshot(Protocol):
    """A view as one transaction sees it."""

    def rows_of(self, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """Return the rows of those keys that have one."""

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows, in the order of the keys."""

    def rows_of_at(self, keys: Iterable[bytes], seq: int) -> Mapping[bytes, bytes]:
        """Return the rows, after a batch of the history, of those keys that had one."""

    def rows_at_seq(self, seq: int) -> Iterator[tuple[bytes, bytes]]:
        """Return all keys and rows after a batch of the history, in the order of the keys."""

    def latest_batch(self) -> AppliedBatch | None:
        """Return the last batch that was applied."""

    def oldest_batch(self) -> AppliedBatch | None:
        """Return the oldest batch of the history."""

    def batch_of(self, batch_id: int) -> AppliedBatch | None:
        """Return the last batch of that id, if the history has it."""

    def batch_numbered(self, seq: int) -> AppliedBatch | None:
        """Return the batch with that number, if the history has it."""


class Storage(Protocol):
    """The storage of a view."""

    fault: type[Exception]
    """The error class of the library beneath; a caller's own database may raise it, too."""

    def reading(self) -> AbstractContextManager[Snapshot]:
        """Begin a transaction that sees one state of the view.

        Raises:
            StateStoreError: The storage cannot be read.
            StoreClosedError: The view is closed.
            CorruptStateError: The storage is damaged.
        """
