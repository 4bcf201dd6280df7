# SPDX-License-Identifier: Apache-2.0
"""Upserts: from change events of keyed values to the changes of a table.

    events = decode_debezium(records, schema="id int, name string")
    changes = key_by(events, "key").process(
        UpsertFunction(value="after", order_key="order_key", value_type=row_type), ...
    )

`UpsertFunction` does this on Spark; a program without Spark uses `UpsertState`.  Events come from
`pyflinklike.spark.decode_debezium`; `pyflinklike.views` has tables that can be queried.
"""

from pyflinklike._exports import pin
from pyflinklike.upsert.index.auto_spill_backend import AutoSpillBackend
from pyflinklike.upsert.index.difference_sketch import Consolidating, consolidating_merge_function
from pyflinklike.upsert.index.memory_backend import InMemoryUpsertBackend
from pyflinklike.upsert.index.rocksdb_upserts import RocksDBUpsertBackend
from pyflinklike.upsert.index.upsert_backend import UpsertBackend
from pyflinklike.upsert.index.upsert_state import UpsertState
from pyflinklike.upsert.index.upsert_values import (
    FinalizedValue,
    GetStats,
    MergeStats,
    MergeValue,
    ProvisionalValue,
    PutStats,
    PutValue,
    SnapshotStats,
    StateValue,
    Tombstone,
    UpsertValueAndSize,
    ValueMetadata,
)
from pyflinklike.upsert.index.value_codec import UpsertKey
from pyflinklike.upsert.upsert_function import UpsertFunction

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

pin(globals(), UpsertKey)
