# SPDX-License-Identifier: Apache-2.0
"""State backends, under the path that PyFlink has for them."""

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.rocksdb_backend import (
    EmbeddedRocksDBStateBackend,
    PredefinedOptions,
)
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.pyflink._legacy_backends import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
from pyflinklike.pyflink._names import of_pyflink

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

__getattr__ = of_pyflink(__name__)
