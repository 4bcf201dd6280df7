# SPDX-License-Identifier: Apache-2.0
"""State, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.state import *
from pyflinklike.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState
from pyflinklike.state.descriptors import *
from pyflinklike.state.ttl_config import StateTtlConfig

__all__ = [
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastState",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "ReadOnlyBroadcastState",
    "ReducingState",
    "ReducingStateDescriptor",
    "State",
    "StateDescriptor",
    "StateTtlConfig",
    "ValueState",
    "ValueStateDescriptor",
]

__getattr__ = of_pyflink(__name__)
