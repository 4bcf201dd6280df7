# SPDX-License-Identifier: Apache-2.0
"""The key-value store, a mapping in the order of its keys.

In a timestamped store the values carry the time of their event.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, TypeVar, overload

import attrs

from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.errors import StateValueError
from pyflinklike.state.table import MISSING, Entry
from pyflinklike.stores.state_store import Cursor, StateStore
from pyflinklike.stores.store_descriptors import StoreDescriptor
from pyflinklike.stores.store_records import KeyValue, TimeLike, ValueAndTimestamp, to_instant

__all__ = [
    "KeyValueStore",
    "KeyValueStoreDescriptor",
    "TimestampedStore",
    "TimestampedStoreDescriptor",
]


D = TypeVar("D")


@attrs.frozen
class KeyValueStoreDescriptor(StoreDescriptor[K, V]):
    """The declaration of a `KeyValueStore`."""

    noun = "key-value"

    def new_store(self) -> KeyValueStore[K, V]:
        """Make the store, not yet opened."""
        return KeyValueStore(self)


class KeyValueStore(StateStore, MutableMapping[K, V]):
    """A mapping from keys to values, as Kafka Streams' KeyValueStore.

    It has Kafka's methods and the methods of a dict.  Keys are in the order of their type.  Putting
    None deletes the key.  A store is equal only to itself.

        views[page] = views.get(page, 0) + 1
        with views.range("a", "c") as cursor:
            first = next(cursor, None)
    """

    # One entry

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: V) -> V: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """Return the value of a key, or the default.

        Raises:
            StateValueError: The key is None or does not fit its type.
        """
        self._ready()
        user_key = self._codec.encode(key)
        entry = self._table.get(user_key)
        if entry is MISSING:
            return default
        self._touch(user_key)
        return self._value(entry)

    def put(self, key: K, value: V | None) -> None:
        """Store a value; None deletes the key.

        Raises:
            StateValueError: The key is None, or either does not fit its type.
        """
        self._ready()
        self._put(self._codec.encode(key), self._check(value))

    def put_if_absent(self, key: K, value: V | None) -> V | None:
        """Store a value if the key has no value yet, and return the value before.

        If the value was stored, the value before is None; `setdefault` returns the value
        afterwards.
        """
        former: V | None = self.get(key)
        if former is None and value is not None:
            self.put(key, value)
        return former

    def delete(self, key: K) -> V | None:
        """Remove a key, and return its former value, or None."""
        self._ready()
        user_key = self._codec.encode(key)
        entry = self._table.get(user_key)
        if entry is MISSING:
            return None
        self._put(user_key, MISSING)
        former: V = self._value(entry)
        return former

    # Many entries

    def put_all(self, pairs: Mapping[K, V] | Iterable[tuple[K, V]]) -> None:
        """Store many values: all of them, or none if one is refused.

        If a key comes several times, the last value counts.

        Raises:
            StateValueError: A key is None, or a key or value does not fit its type.
        """
        self._ready()
        items: Any = pairs.items() if isinstance(pairs, Mapping) else pairs
        checked = [(self._codec.encode(key), self._check(value)) for key, value in items]
        for user_key, value in checked:
            self._put(user_key, value)

    multi_put = put_all

    def multi_get(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the values by key; keys without a value are left out."""
        self._ready()
        wanted = list(keys)
        user_keys = [self._codec.encode(key) for key in wanted]
        found = {}
        for key, user_key, entry in zip(wanted, user_keys, self._table.multi_get(user_keys)):
            if entry is not MISSING:
                self._touch(user_key)
                found[key] = self._value(entry)
        return found

    def range(
        self, from_key: K | None = None, to_key: K | None = None, *, reverse: bool = False
    ) -> Cursor[KeyValue]:
        """Return the entries from one key to another, both included; None is an open end.

        If `from_key` comes after `to_key`, the result is empty, and a warning is logged.

        Raises:
            StateValueError: A key does not fit its type.
        """
        self._ready()
        bounds = self._key_bounds(from_key, to_key)
        if bounds is None:
            return self._cursor((), self._item)
        begin, end = bounds
        return self._between(begin, None if end is None else end + b"\x00", reverse=reverse)

    def all(self, *, reverse: bool = False) -> Cursor[KeyValue]:
        """Return all entries."""
        self._ready()
        return self._between(None, None, reverse=reverse)

    def prefix_scan(self, prefix: Any, *, reverse: bool = False) -> Cursor[KeyValue]:
        """Return the entries whose keys begin with a prefix.

        Args:
            prefix: The beginning of keys that are str or bytes, or the first fields of keys that
                are tuples.  If keys are of another type, only an equal key matches.
            reverse: True for the last entries first.

        Raises:
            StateValueError: The prefix is None or does not fit the key's type.
        """
        self._ready()
        return self._between(*self._codec.prefix(prefix), reverse=reverse)

    def approximate_num_entries(self) -> int:
        """Return the number of entries; it is always exact here, even with caching."""
        return len(self)

    # As a mapping

    def __getitem__(self, key: K) -> V:
        value: V | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: K, value: V | None) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        self._ready()
        return self._table.get(self._codec.encode(key)) is not MISSING

    def __iter__(self) -> Iterator[K]:
        self._ready()
        found = list(self._table.range())
        return (self._codec.decode(user_key)[0] for user_key, _ in found)

    def __len__(self) -> int:
        self._ready()
        if self._descriptor.scope == "partition":
            _ = self.is_empty  # raises if no key is current, which `count` would not
            return self._table.count()
        return len(list(self._table.range()))

    def __bool__(self) -> bool:
        return not self.is_empty

    @property
    def is_empty(self) -> bool:
        """True if there is no entry; this reads at most one."""
        self._ready()
        return self._table.is_empty()

    def items(self) -> ItemsView[K, V]:
        """Return a view of the entries; iterating it takes a snapshot."""
        return _StoreItems(self)

    def values(self) -> ValuesView[V]:
        """Return a view of the values; iterating it takes a snapshot."""
        return _Values(self)

    def popitem(self) -> tuple[K, V]:
        """Remove and return the entry of the smallest key.

        Raises:
            KeyError: There is no entry.
        """
        self._ready()
        for user_key, entry in self._table.range(limit=1):
            self._put(user_key, MISSING)
            return self._codec.decode(user_key)[0], self._value(entry)
        msg = f"store {self._name!r} is empty"
        raise KeyError(msg)

    def clear(self) -> None:
        """Remove all entries."""
        self._ready()
        for user_key, _ in list(self._table.range()):
            self._put(user_key, MISSING)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    # Subclasses override these: the form of an entry, and its reads and writes

    def _check(self, value: Any) -> Any:
        """Freeze a value for `_put`: None becomes `MISSING`."""
        return MISSING if value is None else self._frozen(value)

    def _put(self, user_key: bytes, frozen: Any) -> None:
        if frozen is MISSING:
            self._delete_entry(user_key)
        else:
            self._put_entry(user_key, frozen, frozen)

    def _value(self, entry: Entry) -> Any:
        return self._thaw(entry)

    def _touch(self, user_key: bytes) -> None:
        """Note that an entry was read."""

    def _item(self, found: tuple[bytes, Entry]) -> KeyValue:
        user_key, entry = found
        return KeyValue(self._codec.decode(user_key)[0], self._value(entry))

    def _between(
        self, begin: bytes | None, end: bytes | None, *, reverse: bool
    ) -> Cursor[KeyValue]:
        return self._cursor(list(self._table.range(begin, end, backwards=reverse)), self._item)


class _StoreItems(ItemsView[K, V]):
    """The entries, read at once; reads key by key would make each the most recently used."""

    _mapping: KeyValueStore[K, V]

    def __iter__(self) -> Iterator[tuple[K, V]]:
        with self._mapping.all() as cursor:
            return iter([(key, value) for key, value in cursor])


class _Values(ValuesView[V]):
    """The values, read at once; reads key by key would make each the most recently used."""

    _mapping: KeyValueStore[Any, V]

    def __iter__(self) -> Iterator[V]:
        with self._mapping.all() as cursor:
            return iter([value for _, value in cursor])


@attrs.frozen
class TimestampedStoreDescriptor(StoreDescriptor[K, V]):
    """The declaration of a `TimestampedStore`."""

    noun = "timestamped"
    _is_paired = True

    def new_store(self) -> TimestampedStore[K]:
        """Make the store, not yet opened."""
        return TimestampedStore(self)


class TimestampedStore(KeyValueStore[K, ValueAndTimestamp]):
    """A mapping from keys to values with times, as Kafka Streams' TimestampedKeyValueStore.

    A later put replaces an earlier one, even if its time is lower.  Methods that take a
    `ValueAndTimestamp`, such as `store[key] = ...` and `put_all`, also take a plain value, which
    then gets the time of the current element.
    """

    def put(self, key: K, value: Any, timestamp: TimeLike | None = None) -> None:
        """Store a value with its time; None deletes the key.

        Args:
            key: The key of the value.
            value: A value, or a `ValueAndTimestamp`.
            timestamp: The time of the value in ms, or a datetime with a time zone.  None takes the
                time of the current element.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: No time is given, and the current element is without one.
        """
        self._ready()
        self._put(self._codec.encode(key), self._stamp(value, timestamp))

    def put_if_absent(
        self, key: K, value: Any, timestamp: TimeLike | None = None
    ) -> ValueAndTimestamp | None:
        """Store a value if the key has no value yet, and return the value before."""
        former: ValueAndTimestamp | None = self.get(key)
        if former is None and value is not None:
            self.put(key, value, timestamp)
        return former

    def _check(self, value: Any) -> Any:
        return self._stamp(value, None)

    def _stamp(self, value: Any, timestamp: TimeLike | None) -> Any:
        if isinstance(value, ValueAndTimestamp):
            if timestamp is not None:
                msg = f"give one time, got {short_repr(value)} and {short_repr(timestamp)}"
                raise StateValueError(f"store {self._name!r}: {msg}")
            value, timestamp = value
        if value is None:
            return MISSING
        at = self._ready().timestamp() if timestamp is None else timestamp
        if at is None:
            msg = "a value needs a time, but the current element has no time; give timestamp="
            raise self._refusal(msg)
        return to_instant(at, f"store {self._name!r}: a timestamp"), self._frozen(value)

    def _put(self, user_key: bytes, frozen: Any) -> None:
        if frozen is MISSING:
            self._delete_entry(user_key)
        else:
            self._put_entry(user_key, frozen, frozen[1], frozen[0])

    def _value(self, entry: Entry) -> Any:
        return ValueAndTimestamp(self._thaw(entry[1]), entry[0])
