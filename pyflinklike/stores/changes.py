# SPDX-License-Identifier: Apache-2.0
"""The changelog of a store, and the write-back cache in front of it.

A write goes to the store's table at once, so that reads need look nowhere else,
and its durability is the key group's log.  What is cached is the *change*: of
all writes of one entry between two flushes only the last becomes a
`ChangelogRecord`, in the order in which the entries were written last.  An entry
that was not there before and is not there after leaves no record.

It is flushed at the end of each micro-batch (in the harness: of each call), by
`flush()`, and as a whole when it holds too many entries, as Kafka's cache is when
it evicts a dirty one.  A restore does not pass here, and logs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.state.current_key import GROUP_KEY
from pyflinklike.state.table import MISSING, Table
from pyflinklike.stores.context import StoreContext
from pyflinklike.stores.records import ChangelogRecord

__all__ = ["MAX_DIRTY", "WriteBackLog"]

MAX_DIRTY = 65_536
"""Entries whose change may wait for a flush."""


class WriteBackLog:
    """What a store has still to log.

    Args:
        store: Its name.
        tag: Where its records go.
        context: Of the store.
        table: Its entries.
        logged_key: Makes the key of a record of a frozen current key and a user key.
        thaw: Makes the user's form of a value.
        is_caching: Whether changes wait for a flush.
    """

    def __init__(
        self,
        store: str,
        tag: OutputTag,
        context: StoreContext,
        table: Table,
        logged_key: Callable[[Any, bytes], Any],
        thaw: Callable[[Any], Any],
        *,
        is_caching: bool,
    ) -> None:
        self._store = store
        self._tag = tag
        self._context = context
        self._table = table
        self._logged_key = logged_key
        self._thaw = thaw
        self._is_caching = is_caching
        self._dirty: dict[tuple[Any, bytes], tuple[bool, Any, int | None, Any]] = {}

    def note(self, user_key: bytes, value: Any, timestamp: int | None) -> None:
        """Take note of a write that is about to happen.

        Args:
            user_key: Of the entry.
            value: What it will be, frozen; `MISSING` where it is deleted.
            timestamp: For the record, in ms.
        """
        where = self._where(user_key)
        former = self._dirty.pop(where, None)  # a key written again moves to the end
        was_there = self._table.get(user_key) is not MISSING if former is None else former[0]
        if self._is_caching:
            self._dirty[where] = was_there, value, timestamp, self._context.key
            if len(self._dirty) > MAX_DIRTY:
                self.flush()
        elif was_there or value is not MISSING:
            self._log(where, value, timestamp, self._context.key)

    def log(self, user_key: bytes, value: Any, timestamp: int | None) -> None:
        """Log a write at once; the arguments are those of `note`."""
        self._log(self._where(user_key), value, timestamp, self._context.key)

    def flush(self) -> None:
        """Log what waits."""
        dirty, self._dirty = self._dirty, {}
        for where, (was_there, value, timestamp, writer) in dirty.items():
            if was_there or value is not MISSING:
                self._log(where, value, timestamp, writer)

    def _where(self, user_key: bytes) -> tuple[Any, bytes]:
        key = GROUP_KEY if self._table.spec.per_group else self._context.key
        return key, user_key

    def _log(
        self, where: tuple[Any, bytes], value: Any, timestamp: int | None, writer: Any
    ) -> None:
        key, user_key = where
        is_gone = value is MISSING
        record = ChangelogRecord(
            self._store,
            self._logged_key(key, user_key),
            None if is_gone else self._thaw(value),
            timestamp,
            "delete" if is_gone else "put",
        )
        self._context.emit(self._tag, record, writer)
