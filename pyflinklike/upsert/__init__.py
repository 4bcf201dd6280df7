# SPDX-License-Identifier: Apache-2.0
"""Upserts: from change events of keyed values to the changes of a table.

    events = decode_debezium(records, schema="id int, name string")
    changes = key_by(events, "key").process(
        UpsertFunction(value="after", order_key="order_key", value_type=row_type), ...
    )

`UpsertFunction` does this on Spark; a program without Spark uses `UpsertState`.  Events come from
`pyflinklike.spark.decode_debezium`; `pyflinklike.views` has tables that can be queried.
"""

from pyflinklike.doors import pin
from pyflinklike.upsert.function import UpsertFunction
from pyflinklike.upsert.index.autospill import AutoSpillBackend
from pyflinklike.upsert.index.backend import UpsertBackend
from pyflinklike.upsert.index.memory import InMemoryUpsertBackend
from pyflinklike.upsert.index.rocksdb import RocksDBUpsertBackend
from pyflinklike.upsert.index.sketch import Consolidating, consolidating_merge_function
from pyflinklike.upsert.index.state import UpsertState
from pyflinklike.upsert.index.statistics import GetStats, MergeStats, PutStats, SnapshotStats
from pyflinklike.upsert.index.value_codec import UpsertKey
from pyflinklike.upsert.index.values import (
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

pin(globals(), UpsertKey)
