# SPDX-License-Identifier: Apache-2.0
"""Replicas: states and stores of a query, read outside it with their own semantics.

A host gives the logs that an operator keeps after a micro-batch, and later writes to them.  A
replica decodes a key group when it is asked for, as a worker would, and never changes it.
"""

from pyflinklike.engine.doors import pin
from pyflinklike.replica.decoded_groups import ReplicaMetrics
from pyflinklike.replica.image import Position
from pyflinklike.replica.queryable_state import QueryableState, open_state
from pyflinklike.replica.read_only_states import (
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
    "open_state",
]

pin(globals())
