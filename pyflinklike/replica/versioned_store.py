# SPDX-License-Identifier: Apache-2.0
"""A versioned store, to be read in a replica."""

from __future__ import annotations

from typing import Any

from pyflinklike.replica.read_only_store import ReadOnlyStore
from pyflinklike.stores.cursor import Cursor
from pyflinklike.stores.records import VersionedRecord
from pyflinklike.stores.times import TimeLike

__all__ = ["ReadOnlyVersionedStore"]


class ReadOnlyVersionedStore(ReadOnlyStore):
    """A versioned store to be read: the reading methods of Kafka Streams' VersionedKeyValueStore."""

    def get(self, key: Any, as_of: TimeLike | None = None) -> VersionedRecord | None:
        """Return the version that is valid now or at a time; None if none is, or it is forgotten.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
        """
        found: VersionedRecord | None = self._first(lambda store: store.get(key, as_of))
        return found

    def history(
        self,
        key: Any,
        time_from: TimeLike | None = None,
        time_to: TimeLike | None = None,
        order: str = "desc",
    ) -> Cursor[VersionedRecord]:
        """Return the versions that were valid between two times, as `VersionedStore.history` does.

        Raises:
            StateValueError: The key is None, or an argument does not fit its type.
            StoreValueError: `order` is neither "asc" nor "desc".
        """
        return self._cursor(
            lambda store: store.history(key, time_from, time_to, order), reverse=order == "desc"
        )
