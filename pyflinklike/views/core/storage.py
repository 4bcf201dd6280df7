# SPDX-License-Identifier: Apache-2.0
"""What a view asks of the place where it is kept: an SQLite file, or tables of PostgreSQL.

Keys and rows are bytes here (`row_codec`), so every place gives them back as they were put in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

__all__ = ["AppliedBatch", "RowChange", "Snapshot", "Storage"]


class RowChange(NamedTuple):
    """What a batch did to a key, encoded; None stands for no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


class AppliedBatch(Protocol):
    """A batch that was applied."""

    @property
    def seq(self) -> int:
        """Its number among the applied ones, from 1."""

    @property
    def batch_id(self) -> int:
        """Its id in the stream it came from."""

    @property
    def applied_at(self) -> int:
        """When, in ms since the epoch."""

    @property
    def watermark(self) -> int | None:
        """How far event time had come, in ms since the epoch; None if it was unknown."""

    @property
    def size(self) -> int:
        """How many rows the view had after it."""


class Snapshot(Protocol):
    """A view as it is in one transaction."""

    def rows_of(self, keys: Iterable[bytes]) -> Mapping[bytes, bytes]:
        """The rows of those keys that have one."""

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and rows, in the order of the keys."""

    def rows_of_at(self, keys: Iterable[bytes], seq: int) -> Mapping[bytes, bytes]:
        """The rows after a kept batch of those keys that had one."""

    def rows_at_seq(self, seq: int) -> Iterator[tuple[bytes, bytes]]:
        """All keys and rows after a kept batch, in the order of the keys."""

    def latest_batch(self) -> AppliedBatch | None:
        """The last batch that was applied."""

    def oldest_batch(self) -> AppliedBatch | None:
        """The oldest batch that can be asked for."""

    def batch_of(self, batch_id: int) -> AppliedBatch | None:
        """The last batch of that id, if it is kept."""

    def batch_numbered(self, seq: int) -> AppliedBatch | None:
        """The batch with that number, if it is kept."""


class Storage(Protocol):
    """Where a view is kept."""

    fault: type[Exception]
    """What the library beneath raises; errors of a caller's own database are of this class too."""

    def reading(self) -> AbstractContextManager[Snapshot]:
        """A transaction that sees one state of the view.

        Raises:
            StateStoreError: It cannot be read.
            StoreClosedError: The view is closed.
            CorruptStateError: It is damaged.
        """
