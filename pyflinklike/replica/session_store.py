# SPDX-License-Identifier: Apache-2.0
"""A session store, to be read in a replica."""

from __future__ import annotations

from typing import Any

from pyflinklike.replica.read_only_store import ReadOnlyStore
from pyflinklike.stores.cursor import Cursor
from pyflinklike.stores.records import WindowedKeyValue
from pyflinklike.stores.times import TimeLike

__all__ = ["ReadOnlySessionStore"]


class ReadOnlySessionStore(ReadOnlyStore):
    """A session store to be read: Kafka Streams' ReadOnlySessionStore."""

    def fetch_session(self, key: Any, start: TimeLike, end: TimeLike) -> Any:
        """Return the aggregate of exactly this session, or None.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
        """
        return self._first(lambda store: store.fetch_session(key, start, end))

    def fetch(self, key: Any, *, reverse: bool = False) -> Cursor[WindowedKeyValue]:
        """Return all sessions of a key.

        Raises:
            StateValueError: The key is None or does not fit its type.
        """
        return self.find_sessions(key, reverse=reverse)

    def fetch_range(
        self, key_from: Any = None, key_to: Any = None, *, reverse: bool = False
    ) -> Cursor[WindowedKeyValue]:
        """Return all sessions of the keys from one to another, both included; None is an open end.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
            StateValueError: A key does not fit its type.
        """
        return self.find_sessions_range(key_from, key_to, reverse=reverse)

    def find_sessions(
        self,
        key: Any,
        earliest_end: TimeLike | None = None,
        latest_start: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return sessions of a key that end at `earliest_end` or later and start by `latest_start`.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
        """
        return self._cursor(
            lambda store: store.find_sessions(key, earliest_end, latest_start, reverse=reverse),
            reverse=reverse,
        )

    def find_sessions_range(
        self,
        key_from: Any = None,
        key_to: Any = None,
        earliest_end: TimeLike | None = None,
        latest_start: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return sessions as `find_sessions`, but of the keys from one to another, both included.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
            StateValueError: An argument does not fit its type.
        """
        bounds = key_from, key_to, earliest_end, latest_start
        return self._scan(
            "find_sessions_range",
            lambda store: store.find_sessions_range(*bounds, reverse=reverse),
            reverse=reverse,
        )

    def find_ended_sessions(
        self,
        earliest_end: TimeLike | None = None,
        latest_end: TimeLike | None = None,
        *,
        reverse: bool = False,
    ) -> Cursor[WindowedKeyValue]:
        """Return the sessions of all keys that end from one time to another, both included.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
        """
        return self._scan(
            "find_ended_sessions",
            lambda store: store.find_ended_sessions(earliest_end, latest_end, reverse=reverse),
            reverse=reverse,
        )
