# SPDX-License-Identifier: Apache-2.0
"""Replicas: states and stores of a query, read outside it with their own semantics.

A host gives the logs that an operator keeps after a micro-batch, and later writes to them.  A
replica decodes a key group when it is asked for, as a worker would, and never changes it.
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
    ReplicaStateReader,
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
    "ReplicaStateReader",
    "Timer",
]

export_public(globals())
