# SPDX-License-Identifier: Apache-2.0
"""State backends, under the path that PyFlink has for them."""

from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.backends.legacy import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
from pyflinklike.backends.rocksdb.backend import EmbeddedRocksDBStateBackend, PredefinedOptions

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]
