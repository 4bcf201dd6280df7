# SPDX-License-Identifier: Apache-2.0
"""Map state: entries under user keys, each with a TTL of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic

from pyflinklike.errors import StateValueError
from pyflinklike.state.base import State
from pyflinklike.state.table import MISSING, Table
from pyflinklike.type_vars import K, V
from pyflinklike.types import TypeInformation

__all__ = ["MapState"]


class MapState(State, Generic[K, V]):
    """A map for each key, as Flink's MapState.

    `state[k]` of a missing key is None and `del state[k]` of one does nothing, as in PyFlink.  The
    order of iteration is unspecified.
    """

    __slots__ = ("_freeze_key", "_thaw_key")

    def __init__(
        self, name: str, table: Table, key_type: TypeInformation, value_type: TypeInformation
    ) -> None:
        super().__init__(name, table, value_type)
        self._freeze_key = key_type.freeze_key
        self._thaw_key = None if key_type.is_identity else key_type.thaw_key

    def get(self, key: K) -> V | None:
        """Return the value under a user key, or None."""
        try:
            user_key = self._freeze_key(key)
        except StateValueError as error:
            raise self._refuse(error) from None
        stored = self._get(user_key)
        if stored is MISSING:
            return None
        return stored if self._thaw is None else self._thaw(stored)  # type: ignore[no-any-return]

    def put(self, key: K, value: V) -> None:
        """Store a value under a user key; None is a value where the type takes it.

        Raises:
            StateValueError: The key is None, or either does not fit its type.
        """
        try:
            user_key, stored = self._freeze_key(key), self._freeze(value)
        except StateValueError as error:
            raise self._refuse(error) from None
        self._put(user_key, stored)

    def put_all(self, dict_value: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store every item of a mapping, all or (where one is refused) none.

        Raises:
            StateValueError: A key is None, or a key or value does not fit its type.
        """
        if dict_value is None:
            return
        pairs = dict_value.items() if isinstance(dict_value, Mapping) else dict_value
        # All are frozen before the first is stored: where one is refused, none is.
        self._table.multi_put([(self._frozen_key(k), self._frozen(v)) for k, v in pairs])

    def remove(self, key: K) -> None:
        """Remove a user key; nothing happens where it is missing."""
        self._table.delete(self._frozen_key(key))

    def contains(self, key: K) -> bool:
        """Return whether there is an entry under a user key, even if its value is None."""
        return self._get(self._frozen_key(key)) is not MISSING

    def items(self) -> Iterable[tuple[K, V]]:
        """Return the entries, read from the table when they are iterated, in no specified order."""
        return _Items(self._table, self._thaw_key, self._thaw)

    def keys(self) -> Iterable[K]:
        """Return the user keys, read when they are iterated."""
        return _Part(self.items(), 0)

    def values(self) -> Iterable[V]:
        """Return the values, read when they are iterated."""
        return _Part(self.items(), 1)

    def is_empty(self) -> bool:
        """Return whether no entry is stored; expired ones still stored count, as in Flink."""
        return self._table.is_empty()

    __getitem__ = get
    __setitem__ = put
    __delitem__ = remove
    __contains__ = contains

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())

    def _frozen_key(self, key: K) -> Any:
        try:
            return self._freeze_key(key)
        except StateValueError as error:
            raise self._refuse(error) from None


class _Items:
    """Map entries, read from the table each time they are iterated."""

    def __init__(
        self,
        table: Table,
        thaw_key: Callable[[Any], Any] | None,
        thaw: Callable[[Any], Any] | None,
    ) -> None:
        self._table = table
        self._thaw_key = thaw_key
        self._thaw = thaw

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        if self._thaw_key is None and self._thaw is None:
            return iter(self._table.items())
        thaw_key, thaw = self._thaw_key or _identity, self._thaw or _identity
        return ((thaw_key(key), thaw(stored)) for key, stored in self._table.items())


class _Part:
    """The keys or the values of map entries."""

    def __init__(self, items: Iterable[tuple[Any, Any]], index: int) -> None:
        self._items = items
        self._index = index

    def __iter__(self) -> Iterator[Any]:
        index = self._index
        return (item[index] for item in self._items)


def _identity(value: Any) -> Any:
    return value
