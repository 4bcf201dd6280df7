# SPDX-License-Identifier: Apache-2.0
"""Key-value stores: mappings in the order of their keys.

In a timestamped store the values carry the time of their event.  An LRU store has a bounded size, and
evicts the least recently used entry.
"""

from __future__ import annotations

from collections.abc import (
    Callable,
    ItemsView,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    ValuesView,
)
from typing import Any, TypeVar, overload

import attrs

from pyflinklike._changelog.damage import RESTORE_ADVICE
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.errors import CorruptStateError, StateValueError
from pyflinklike.state.table import MISSING, Entry, OrderedTable, Table
from pyflinklike.stores.state_store import Cursor, StateStore, StoreContext
from pyflinklike.stores.store_codec import encode_int, read_int
from pyflinklike.stores.store_descriptors import StoreDescriptor, at_least
from pyflinklike.stores.store_records import KeyValue, TimeLike, ValueAndTimestamp, to_instant
from pyflinklike.types import Types

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

    Example:
        ```python
        views = open_in_memory(KeyValueStoreDescriptor("views", Types.STRING(), Types.LONG()))
        views["/home"] = views.get("/home", 0) + 1
        with views.range("/a", "/z") as cursor:
            assert list(cursor) == [KeyValue("/home", 1)]
        ```
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

    # Subclasses override these, and `_check` and `_put`: the form of an entry, and its reads and writes

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


# The LRU store
#
# The order of use is state.  Uses are numbered: each entry has the number of its last use, a second
# table has the keys by that number, and a third has the next number and the count of entries.  Uses
# by reading are collected, and written at the end of the micro-batch or before an eviction.  So a
# restored store evicts the same entries as the original would.  Kafka's store loses the order of its
# reads when it is restored.


_MOST_USES = 2**62


@attrs.frozen
class LruStoreDescriptor(StoreDescriptor[K, V]):
    """The declaration of an `LruKeyValueStore`.

    Args:
        max_entries: The number of entries that stay, under each key or in the key group.
    """

    noun = "lru"
    _is_paired = True

    max_entries: int = attrs.field(
        kw_only=True, validator=at_least(1, "a store without entries keeps nothing")
    )

    def new_store(self) -> LruKeyValueStore[K, V]:
        """Make the store, not yet opened."""
        return LruKeyValueStore(self)


class LruKeyValueStore(KeyValueStore[K, V]):
    """A key-value store of at most `max_entries`, as Kafka Streams' `lruMap`.

    `get`, `put`, `put_if_absent` and `multi_get` use an entry; ranges, iteration, `in` and counting
    do not.  An evicted entry is logged as deleted.
    """

    _is_in_memory = True  # so it says of itself, as Kafka's does, on every backend

    def __init__(self, descriptor: LruStoreDescriptor) -> None:
        super().__init__(descriptor)
        self.max_entries: int = descriptor.max_entries
        """The largest number of entries, under each key or in the key group."""
        self.on_evict: Callable[[K, V], object] | None = None
        """Called with key and value of each evicted entry; set it in `open`."""
        self._uses: OrderedTable
        self._counts: Table
        self._used: dict[Any, dict[bytes, None]] = {}

    def _open_tables(self, context: StoreContext) -> None:
        by_use = self._spec_of(
            "use", value_type=Types.PRIMITIVE_ARRAY(Types.BYTE()), paired=False, kind="use of lru"
        )
        self._uses = context.make_ordered_table(by_use)
        three = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
        self._counts = self._single("count", three, kind="count of lru")

    def flush(self) -> None:
        """Write the order of use, and log the changes in the cache."""
        self._settle_all()
        super().flush()

    def __len__(self) -> int:
        self._ready()
        return self._count_of_all()[1]

    def clear(self) -> None:
        """Remove all entries, and evict none."""
        super().clear()
        self._used.pop(self._ready().key, None)

    # Writing

    def _put(self, user_key: bytes, frozen: Any) -> None:
        entry = self._table.get(user_key)
        if frozen is MISSING:
            self._remove(user_key, entry)
        elif entry is MISSING:
            self._insert(user_key, frozen)
        else:
            self._put_entry(user_key, (entry[0], frozen), frozen)
            self._touch(user_key)

    def _remove(self, user_key: bytes, entry: Entry) -> None:
        if entry is MISSING:
            return
        self._delete_entry(user_key)
        self._uses.delete(encode_int(entry[0]))
        self._mine().pop(user_key, None)
        use, size, oldest = self._count()
        if size > 1:
            self._counts.put(None, (use, size - 1, oldest))
        else:
            self._counts.delete(None)

    def _insert(self, user_key: bytes, frozen: Any) -> None:
        use, size, oldest = self._count_of_all()
        self._put_entry(user_key, (use, frozen), frozen)
        self._uses.put(encode_int(use), user_key)
        self._counts.put(None, (use + 1, size + 1, oldest))
        self._touch(user_key)
        if size + 1 > self.max_entries:
            self._evict(size + 1 - self.max_entries)

    def _evict(self, count: int) -> None:
        self._settle()
        use, size, oldest = self._count()
        evicted = list(self._uses.range(encode_int(oldest), limit=count))
        if not evicted:
            rule = "a use of each entry"
            raise self._corrupt(rule, "none")
        # Begin the next search at the first remaining use, so that a backend need not step over
        # many deleted keys each time, as RocksDB would have to.
        self._counts.put(None, (use, size, read_int(evicted[-1][0], 0) + 1))
        for _, user_key in evicted:
            entry = self._table.get(user_key)
            if entry is MISSING:
                rule = "the entry of each use"
                raise self._corrupt(rule, f"none under {short_repr(user_key)}")
            self._remove(user_key, entry)
            if self.on_evict is not None:
                self.on_evict(self._codec.decode(user_key)[0], self._value(entry))

    def _value(self, entry: Entry) -> Any:
        return self._thaw(entry[1])

    # The order of use

    def _mine(self) -> dict[bytes, None]:
        """Return the collected uses of the current key in their order; the caller may change them."""
        key = None if self._descriptor.scope == "partition" else self._ready().key
        return self._used.setdefault(key, {})

    def _touch(self, user_key: bytes) -> None:
        mine = self._mine()
        mine.pop(user_key, None)
        mine[user_key] = None
        # If the call fails, only writes to tables are undone, so write the use to a table now.
        if self._ready().write_buffer is not None:
            self._settle()

    def _settle_all(self) -> None:
        context = self._ready()
        for key in list(self._used):
            with context.under(key):
                self._settle()

    def _settle(self) -> None:
        """Write the uses of the current key, in their order."""
        key = None if self._descriptor.scope == "partition" else self._ready().key
        mine = self._used.pop(key, None)
        if not mine:
            return
        use, size, oldest = self._count()
        for user_key in mine:
            former, frozen = self._table.get(user_key)
            self._uses.delete(encode_int(former))
            self._uses.put(encode_int(use), user_key)
            self._table.put(user_key, (use, frozen))
            use += 1
        self._counts.put(None, (use, size, oldest))

    def _count(self) -> tuple[int, int, int]:
        """Return the number of the next use, the count of entries, and a use before all of them."""
        entry = self._counts.get(None)
        if entry is MISSING:
            return 0, 0, 0
        use, size, oldest = entry
        if None in entry or not (-_MOST_USES <= oldest <= use <= _MOST_USES and size > 0):
            rule = "the next use, the number of entries and the first use"
            raise self._corrupt(rule, short_repr(entry))
        return use, size, oldest

    def _count_of_all(self) -> tuple[int, int, int]:
        """Count as `_count` does, and check the count against the table."""
        count = self._count()
        if count[1] > self._table.count():
            raise self._corrupt(
                f"as many entries as it has, {self._table.count()}", short_repr(count)
            )
        return count

    def _corrupt(self, rule: str, got: str) -> CorruptStateError:
        msg = f"store {self._name!r}: its count of uses must have {rule}, got {got}"
        return CorruptStateError(f"{msg}; {RESTORE_ADVICE}")
