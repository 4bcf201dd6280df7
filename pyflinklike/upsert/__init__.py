# SPDX-License-Identifier: Apache-2.0
"""Upserts: keyed optional values in, a differential collection out.

    from pyflinklike.upsert import UpsertFunction

    changes = key_by(events, "id").process(
        UpsertFunction(value="after", order_key="lsn", value_type=row_type), ...
    )

`UpsertFunction` does so on Spark; `UpsertState` is what a program of its own does it with.
"""

from pyflinklike.upsert.autospill import AutoSpillBackend
from pyflinklike.upsert.backend import UpsertBackend
from pyflinklike.upsert.consolidating import Consolidating, consolidating_merge_function
from pyflinklike.upsert.function import UpsertFunction
from pyflinklike.upsert.memory import InMemoryUpsertBackend
from pyflinklike.upsert.rocksdb import RocksDBUpsertBackend
from pyflinklike.upsert.state import UpsertState
from pyflinklike.upsert.statistics import GetStats, MergeStats, PutStats, SnapshotStats
from pyflinklike.upsert.values import (
    FinalizedValue,
    MergeValue,
    ProvisionalValue,
    PutValue,
    StateValue,
    Tombstone,
    UpsertValueAndSize,
    ValueMetadata,
)

__all__ = [
    "AutoSpillBackend",
    "Consolidating",
    "FinalizedValue",
    "GetStats",
    "InMemoryUpsertBackend",
    "MergeStats",
    "MergeValue",
    "ProvisionalValue",
    "PutStats",
    "PutValue",
    "RocksDBUpsertBackend",
    "SnapshotStats",
    "StateValue",
    "Tombstone",
    "UpsertBackend",
    "UpsertFunction",
    "UpsertState",
    "UpsertValueAndSize",
    "ValueMetadata",
    "consolidating_merge_function",
]
