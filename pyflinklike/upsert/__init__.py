# SPDX-License-Identifier: Apache-2.0
"""Upserts turn change events of keyed values into the changes of a table.

    events = decode_debezium(records, schema="id int, name string")
    changes = key_by(events, "key").process(
        UpsertFunction(value="after", order_key="order_key", value_type=row_type), ...
    )

`UpsertFunction` does this on Spark; a program without Spark uses `UpsertState`.  Events come from
`pyflinklike.spark.decode_debezium`; `pyflinklike.views` has tables that can be queried.
"""

from pyflinklike._exports import export_public
from pyflinklike.upsert.upsert_function import UpsertFunction
from pyflinklike.upsert.upsert_state import UpsertState
from pyflinklike.upsert.upsert_values import (
    Consolidating,
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
    consolidating_merge_function,
)

__all__ = [
    "Consolidating",
    "FinalizedValue",
    "GetStats",
    "MergeStats",
    "MergeValue",
    "ProvisionalValue",
    "PutStats",
    "PutValue",
    "SnapshotStats",
    "StateValue",
    "Tombstone",
    "UpsertFunction",
    "UpsertState",
    "UpsertValueAndSize",
    "ValueMetadata",
    "consolidating_merge_function",
]

export_public(globals())
