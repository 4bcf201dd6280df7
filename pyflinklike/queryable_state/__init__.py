# SPDX-License-Identifier: Apache-2.0
"""Replicas read the states and stores of a query from outside it, with their own semantics.

A host gives a replica the logs of an operator after a micro-batch, and later the writes to them.
When a read asks for a key group, the replica decodes its log as a worker would.  It never writes.

    with QueryableState.open(spark, "/checkpoints/visits", states=["pages"]) as state:
        state["pages"].get("ann")
"""

from pyflinklike._exports import export_public
from pyflinklike.queryable_state.decoded_groups import ReplicaMetrics
from pyflinklike.queryable_state.image import Position
from pyflinklike.queryable_state.queryable_state import QueryableState
from pyflinklike.queryable_state.read_only_states import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyState,
    ReadOnlyStore,
    ReadOnlyTimers,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
    StateReader,
    Timer,
)

__all__ = [
    "Position",
    "QueryableState",
    "ReadOnlyKeyValueStore",
    "ReadOnlySessionStore",
    "ReadOnlyState",
    "ReadOnlyStore",
    "ReadOnlyTimers",
    "ReadOnlyVersionedStore",
    "ReadOnlyWindowStore",
    "ReplicaMetrics",
    "StateReader",
    "Timer",
]

export_public(globals())
