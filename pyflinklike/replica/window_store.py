# SPDX-License-Identifier: Apache-2.0
"""A window store, to be read in a replica."""

from __future__ import annotations

from typing import Any

from pyflinklike.replica.read_only_store import ReadOnlyStore
from pyflinklike.stores.cursor import Cursor
from pyflinklike.stores.records import WindowedKeyValue
from pyflinklike.stores.times import TimeLike

__all__ = ["ReadOnlyWindowStore"]


class ReadOnlyWindowStore(ReadOnlyStore):
    """A window store to be read: Kafka Streams' ReadOnlyWindowStore, with the bounds of `WindowStore`.

    Bounds of time hold for the start of a window, and are included; None is an open end.
    """

    def get(self, key: Any, window_start: TimeLike, default: Any = None) -> Any:
        """Return the value of the window that begins at a time, or the default.

        Raises:
            StateValueError: The key is None, an argument does not fit, or there are duplicates.
        """
        return self._first(lambda store: store.get(key, window_start), default)

    def fetch(
        self,
        key: Any,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[tuple[int, Any]]:
        """Return the windows of a key that begin in a range of time, as (start in ms, value).

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
        """
        return self._cursor(
            lambda store: store.fetch(key, time_from, time_to, reverse=reverse), reverse=reverse
        )

    def fetch_range(
        self,
        key_from: Any = None,
        key_to: Any = None,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return windows as `fetch`, but of the keys from one to another; None is an open end.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
            StateValueError: An argument does not fit its type.
        """
        bounds = key_from, key_to, time_from, time_to
        return self._scan(
            "fetch_range",
            lambda store: store.fetch_range(*bounds, reverse=reverse),
            reverse=reverse,
        )

    def all(self, *, reverse: bool = False) -> Cursor[WindowedKeyValue]:
        """Return all windows of all keys, as `fetch_range` does."""
        return self.fetch_range(reverse=reverse)

    def fetch_all(
        self,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the windows of all keys that begin in a range of time, as `fetch_range` does."""
        return self.fetch_range(None, None, time_from, time_to, reverse=reverse)
