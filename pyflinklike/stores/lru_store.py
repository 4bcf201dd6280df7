# SPDX-License-Identifier: Apache-2.0
"""The LRU store: a key-value store of bounded size that evicts the least recently used entry.

The order of use is state.  Uses are numbered: each entry has the number of its last use, a second
table has the keys by that number, and a third has the next number and the count of entries.  Uses
by reading are collected, and written at the end of the micro-batch or before an eviction.  So a
restored store evicts the same entries as the original would.  Kafka's store loses the order of its
reads when it is restored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pyflinklike._changelog.damage import RESTORE_ADVICE
from pyflinklike._messages import short_repr
from pyflinklike._type_vars import K, V
from pyflinklike.errors import CorruptStateError
from pyflinklike.state.table import MISSING, Entry, OrderedTable, Shape, Table
from pyflinklike.stores.key_value_store import KeyValueStore
from pyflinklike.stores.state_store import StoreContext
from pyflinklike.stores.store_codec import encode_int, read_int
from pyflinklike.stores.store_descriptors import StoreDescriptor, check_max_entries
from pyflinklike.types import Types

__all__ = ["LruKeyValueStore", "LruStoreDescriptor"]

_MOST_USES = 2**62


@attrs.frozen
class LruStoreDescriptor(StoreDescriptor[K, V]):
    """The declaration of an `LruKeyValueStore`.

    Args:
        max_entries: The number of entries that stay, under each key or in the key group.
    """

    noun = "lru"
    _is_paired = True

    max_entries: int = attrs.field(kw_only=True, validator=check_max_entries)

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
        counts = self._spec_of(
            "count",
            shape=Shape.SINGLE,
            ordered=False,
            user_key_type=None,
            value_type=Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()]),
            paired=False,
            kind="count of lru",
        )
        self._counts = context.table(counts)

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
