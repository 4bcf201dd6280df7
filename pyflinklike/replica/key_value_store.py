# SPDX-License-Identifier: Apache-2.0
"""A key-value, timestamped or LRU store, to be read in a replica."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyflinklike.replica.read_only_store import ReadOnlyStore
from pyflinklike.stores.cursor import Cursor
from pyflinklike.stores.records import KeyValue

__all__ = ["ReadOnlyKeyValueStore"]


class ReadOnlyKeyValueStore(ReadOnlyStore):
    """A key-value, timestamped or LRU store to be read: Kafka Streams' ReadOnlyKeyValueStore.

    It has Kafka's methods, and the reading methods of a mapping.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or the default.

        Raises:
            StateValueError: The key is None or does not fit its type.
        """
        return self._first(lambda store: store.get(key), default)

    def multi_get(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of the keys that exist, all of one micro-batch.

        Raises:
            StateValueError: A key is None or does not fit its type.
        """
        wanted = list(keys)
        found: dict[Any, Any] = {}
        for some in reversed(self._asked(lambda store: store.multi_get(wanted))):
            found |= some
        return {key: found[key] for key in wanted if key in found}

    def range(
        self, from_key: Any = None, to_key: Any = None, *, reverse: bool = False
    ) -> Cursor[KeyValue]:
        """Return the entries from one key to another, both included; None is an open end.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
            StateValueError: A key does not fit its type.
        """
        return self._scan(
            "range", lambda store: store.range(from_key, to_key, reverse=reverse), reverse=reverse
        )

    def all(self, *, reverse: bool = False) -> Cursor[KeyValue]:
        """Return all entries, in the order of their keys.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
        """
        return self._scan("all", lambda store: store.all(reverse=reverse), reverse=reverse)

    def prefix_scan(self, prefix: Any, *, reverse: bool = False) -> Cursor[KeyValue]:
        """Return the entries whose keys begin with a prefix, as `KeyValueStore.prefix_scan`.

        Raises:
            ScanDisabledError: The store has scope "partition", and `allow_scan` is not set.
            StateValueError: The prefix is None or does not fit the key's type.
        """
        return self._scan(
            "prefix_scan", lambda store: store.prefix_scan(prefix, reverse=reverse), reverse=reverse
        )

    def approximate_num_entries(self) -> int:
        """Count the entries; in a replica the number is exact."""
        return sum(self._asked(len))

    def __len__(self) -> int:
        return self.approximate_num_entries()

    def __bool__(self) -> bool:
        return not all(self._asked(lambda store: store.is_empty))

    def __contains__(self, key: object) -> bool:
        return any(self._asked(lambda store: key in store))

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[Any]:
        return (each.key for each in self.all())

    def items(self) -> Iterator[KeyValue]:
        """Return all entries, as `all` does."""
        return self.all()
