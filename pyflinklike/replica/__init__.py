# SPDX-License-Identifier: Apache-2.0
"""Replicas: states and stores of a query, read outside it with their own semantics.

A host gives the logs that an operator keeps after a micro-batch, and later writes to them.  A
replica decodes a key group when it is asked for, as a worker would, and never changes it.
"""

from pyflinklike.doors import pin
from pyflinklike.replica.counters import ReplicaMetrics
from pyflinklike.replica.opening import open_state
from pyflinklike.replica.position import Position
from pyflinklike.replica.queryable import QueryableState
from pyflinklike.replica.state_reader import StateReader
from pyflinklike.replica.states import ReadOnlyState
from pyflinklike.replica.stores import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyStore,
    ReadOnlyVersionedStore,
    ReadOnlyWindowStore,
)
from pyflinklike.replica.timers import ReadOnlyTimers, Timer

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
