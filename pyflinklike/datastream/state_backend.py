# SPDX-License-Identifier: Apache-2.0
"""State backends, under the path that PyFlink has for them."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.engine.backends.rocksdb.rocksdb_backend import (
    EmbeddedRocksDBStateBackend,
    PredefinedOptions,
)
from pyflinklike.engine.backends.state_backend import StateBackend
from pyflinklike.engine.legacy_backends import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)

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
