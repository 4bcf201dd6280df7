# SPDX-License-Identifier: Apache-2.0
"""The timestamped store: a key-value store whose values carry the time of their event."""

from __future__ import annotations

from typing import Any

import attrs

from pyflinklike.errors import StateValueError
from pyflinklike.shown import shown
from pyflinklike.state.table import MISSING, Entry
from pyflinklike.stores.descriptors import StoreDescriptor
from pyflinklike.stores.keyvalue import KeyValueStore
from pyflinklike.stores.records import ValueAndTimestamp
from pyflinklike.stores.times import TimeLike, to_instant
from pyflinklike.type_vars import K, V

__all__ = ["TimestampedStore", "TimestampedStoreDescriptor"]


@attrs.frozen
class TimestampedStoreDescriptor(StoreDescriptor[K, V]):
    """Declares a `TimestampedStore`."""

    noun = "timestamped"
    _is_paired = True

    def new_store(self) -> TimestampedStore[K]:
        """The store, not yet opened."""
        return TimestampedStore(self)


class TimestampedStore(KeyValueStore[K, ValueAndTimestamp]):
    """Values with their timestamps, as Kafka Streams' TimestampedKeyValueStore.

    Values are applied in the order they are put, also where their times go backward.
    Where a `ValueAndTimestamp` is expected, as in `store[key] = ...` and `put_all`, a plain
    value takes the time of the current element.
    """

    def put(self, key: K, value: Any, timestamp: TimeLike | None = None) -> None:
        """Store a value with its time; None deletes the key.

        Args:
            key: Of the value.
            value: A value, or a `ValueAndTimestamp`.
            timestamp: Its time; that of the current element where not given.

        Raises:
            StateValueError: The key is None, or something does not fit its type.
            StoreValueError: No time is given, and the current element has none.
        """
        self._ready()
        self._put(self._codec.encode(key), self._stamped(value, timestamp))

    def put_if_absent(
        self, key: K, value: Any, timestamp: TimeLike | None = None
    ) -> ValueAndTimestamp | None:
        """Store a value where there is none; what was there, which is None if it was stored."""
        former: ValueAndTimestamp | None = self.get(key)
        if former is None and value is not None:
            self.put(key, value, timestamp)
        return former

    def _checked(self, value: Any) -> Any:
        return self._stamped(value, None)

    def _stamped(self, value: Any, timestamp: TimeLike | None) -> Any:
        if isinstance(value, ValueAndTimestamp):
            if timestamp is not None:
                msg = f"give one time: that of {shown(value)}, or {shown(timestamp)}"
                raise StateValueError(f"store {self._name!r}: {msg}")
            value, timestamp = value
        if value is None:
            return MISSING
        at = self._ready().timestamp() if timestamp is None else timestamp
        if at is None:
            msg = "a value needs a time, got none where the element has none; give timestamp="
            raise self._refuse(msg)
        return to_instant(at, f"store {self._name!r}: a timestamp"), self._frozen(value)

    def _put(self, user_key: bytes, frozen: Any) -> None:
        if frozen is MISSING:
            self._delete_entry(user_key)
        else:
            self._put_entry(user_key, frozen, frozen[1], frozen[0])

    def _value(self, entry: Entry) -> Any:
        return ValueAndTimestamp(self._thaw(entry[1]), entry[0])
