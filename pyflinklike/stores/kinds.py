# SPDX-License-Identifier: Apache-2.0
"""Which store a descriptor declares.

The one module that knows both: stores know their descriptors, and descriptors no store.
"""

from __future__ import annotations

from typing import Any

from pyflinklike.stores.base import StateStore
from pyflinklike.stores.descriptors import (
    KeyValueStoreDescriptor,
    LruStoreDescriptor,
    SessionStoreDescriptor,
    StoreDescriptor,
    TimestampedStoreDescriptor,
    VersionedStoreDescriptor,
    WindowStoreDescriptor,
)
from pyflinklike.stores.keyvalue import KeyValueStore
from pyflinklike.stores.lru import LruKeyValueStore
from pyflinklike.stores.session import SessionStore
from pyflinklike.stores.timestamped import TimestampedStore
from pyflinklike.stores.versioned import VersionedStore
from pyflinklike.stores.window import WindowStore

__all__ = ["store_of"]

_STORES: dict[type[StoreDescriptor], type[Any]] = {
    KeyValueStoreDescriptor: KeyValueStore,
    TimestampedStoreDescriptor: TimestampedStore,
    LruStoreDescriptor: LruKeyValueStore,
    WindowStoreDescriptor: WindowStore,
    SessionStoreDescriptor: SessionStore,
    VersionedStoreDescriptor: VersionedStore,
}


def store_of(descriptor: StoreDescriptor) -> type[StateStore]:
    """The class of the store declared so; that of a subclass is its base's."""
    return next(_STORES[cls] for cls in type(descriptor).__mro__ if cls in _STORES)
