# SPDX-License-Identifier: Apache-2.0
"""Stores of a replica: Kafka Streams' read-only stores, with the same methods.

A store of scope "key" is read under one current key.  A store of scope "partition" is read in every
key group, and the answers are merged by the store's own order, so that the result does not depend
on the number of key groups.
"""

from __future__ import annotations

from typing import Any

from pyflinklike.errors import StateValueError
from pyflinklike.replay.described import StateInfo
from pyflinklike.replica.key_value_store import ReadOnlyKeyValueStore
from pyflinklike.replica.read_only_store import NO_KEY_GIVEN, ReadOnlyStore
from pyflinklike.replica.session_store import ReadOnlySessionStore
from pyflinklike.replica.states import Pick
from pyflinklike.replica.versioned_store import ReadOnlyVersionedStore
from pyflinklike.replica.window_store import ReadOnlyWindowStore

__all__ = [
    "NO_KEY_GIVEN",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyStore",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "read_only_store",
]


_KINDS: dict[str, type[ReadOnlyStore]] = {
    "key-value": ReadOnlyKeyValueStore,
    "timestamped": ReadOnlyKeyValueStore,
    "lru": ReadOnlyKeyValueStore,
    "window": ReadOnlyWindowStore,
    "session": ReadOnlySessionStore,
    "versioned": ReadOnlyVersionedStore,
}


def read_only_store(info: StateInfo, pick: Pick, key: Any, *, allow_scan: bool) -> ReadOnlyStore:
    """Make the read-only store of a kind.

    Raises:
        StateValueError: The key is None.
    """
    if key is None:
        msg = f"store {info.name!r}: a key must not be None, got None; give the current key"
        raise StateValueError(msg)
    return _KINDS[info.kind](info, pick, key, allow_scan=allow_scan)
