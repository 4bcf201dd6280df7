# SPDX-License-Identifier: Apache-2.0
"""Stores in the manner of Kafka Streams: key-value, LRU, window, session, versioned.

    from pyflinklike.stores import KeyValueStoreDescriptor

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self.counts = runtime_context.get_store(
                KeyValueStoreDescriptor("counts", Types.STRING(), Types.LONG())
            )

        def process_element(self, value, ctx):
            self.counts[value.page] = self.counts.get(value.page, 0) + 1

A function declares a store with a descriptor and uses it under the current key, as with state.
"""

from pyflinklike._exports import export_public, is_loading

__all__ = [
    "NOT_PUT",
    "AbsorbedSession",
    "ChangelogRecord",
    "Cursor",
    "CursorClosedError",
    "InMemoryWindowStore",
    "KeyDecodeError",
    "KeyValue",
    "KeyValueStore",
    "KeyValueStoreDescriptor",
    "LruKeyValueStore",
    "LruStoreDescriptor",
    "NullKeyError",
    "SessionKey",
    "SessionStore",
    "SessionStoreDescriptor",
    "SessionUpdate",
    "StateStore",
    "StateStoreError",
    "StoreClosedError",
    "StoreDescriptor",
    "StoreNotInitializedError",
    "StoreValueError",
    "TimestampedStore",
    "TimestampedStoreDescriptor",
    "UnknownStoreError",
    "UpsertError",
    "ValueAndTimestamp",
    "ValueDecodeError",
    "VersionedRecord",
    "VersionedStore",
    "VersionedStoreDescriptor",
    "WindowStore",
    "WindowStoreDescriptor",
    "WindowedKeyValue",
    "open_in_memory",
    "windows_for",
]

if is_loading(globals()):
    from pyflinklike.errors import (
        CursorClosedError,
        KeyDecodeError,
        NullKeyError,
        StateStoreError,
        StoreClosedError,
        StoreNotInitializedError,
        StoreValueError,
        UnknownStoreError,
        UpsertError,
        ValueDecodeError,
    )
    from pyflinklike.functions.output_tag import ChangelogTag
    from pyflinklike.stores.in_memory_store import InMemoryWindowStore, open_in_memory
    from pyflinklike.stores.key_value_store import (
        KeyValueStore,
        KeyValueStoreDescriptor,
        LruKeyValueStore,
        LruStoreDescriptor,
        TimestampedStore,
        TimestampedStoreDescriptor,
    )
    from pyflinklike.stores.session_store import SessionStore, SessionStoreDescriptor
    from pyflinklike.stores.state_store import Cursor, StateStore
    from pyflinklike.stores.store_descriptors import StoreDescriptor
    from pyflinklike.stores.store_records import (
        NOT_PUT,
        AbsorbedSession,
        ChangelogRecord,
        KeyValue,
        SessionKey,
        SessionUpdate,
        ValueAndTimestamp,
        VersionedRecord,
        WindowedKeyValue,
        windows_for,
    )
    from pyflinklike.stores.versioned_store import VersionedStore, VersionedStoreDescriptor
    from pyflinklike.stores.window_store import WindowStore, WindowStoreDescriptor

    export_public(globals(), ChangelogTag)
