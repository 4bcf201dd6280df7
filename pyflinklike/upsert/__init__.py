# SPDX-License-Identifier: Apache-2.0
"""Upsert and change data capture: from change events to a table that can be queried.

    events = decode_debezium(records, schema="id int, name string")
    changes = key_by(events, "key").process(
        UpsertFunction(value="after", order_key="order_key", value_type=row_type), ...
    )

`UpsertFunction` does so on Spark; `UpsertState` is what a program of its own does it with.
"""

from pyflinklike.errors import QueueOverflowError, ScanDisabledError, UnknownBatchError
from pyflinklike.upsert.autospill import AutoSpillBackend
from pyflinklike.upsert.backend import UpsertBackend
from pyflinklike.upsert.cdc_event import CdcEvent
from pyflinklike.upsert.consolidating import Consolidating, consolidating_merge_function
from pyflinklike.upsert.debezium import decode_debezium
from pyflinklike.upsert.debezium_encoding import to_debezium
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
from pyflinklike.upsert.views import (
    Change,
    Changes,
    Freshness,
    MaterializedView,
    ServingView,
    ViewAt,
)

__all__ = [
    "AutoSpillBackend",
    "CdcEvent",
    "Change",
    "Changes",
    "Consolidating",
    "FinalizedValue",
    "Freshness",
    "GetStats",
    "InMemoryUpsertBackend",
    "MaterializedView",
    "MergeStats",
    "MergeValue",
    "ProvisionalValue",
    "PutStats",
    "PutValue",
    "QueueOverflowError",
    "RocksDBUpsertBackend",
    "ScanDisabledError",
    "ServingView",
    "SnapshotStats",
    "StateValue",
    "Tombstone",
    "UnknownBatchError",
    "UpsertBackend",
    "UpsertFunction",
    "UpsertState",
    "UpsertValueAndSize",
    "ValueMetadata",
    "ViewAt",
    "consolidating_merge_function",
    "decode_debezium",
    "to_debezium",
]
