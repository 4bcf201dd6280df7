# SPDX-License-Identifier: Apache-2.0
"""Flink's keyed state, TTL and timers for Spark, in pure Python."""

from pyflinklike._clock import MAX_WATERMARK, MIN_WATERMARK, Duration, Time, TimeDomain
from pyflinklike._exports import export_public
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.local_database import PredefinedOptions
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.contexts import RuntimeContext, TimerService
from pyflinklike.functions.dead_letters import DeadLetters
from pyflinklike.functions.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.functions.metric_group import MetricGroup
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.state import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from pyflinklike.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.state.fold_functions import (
    AggregateFunction,
    Function,
    ReduceFunction,
    ReduceFunctionWrapper,
)
from pyflinklike.state.ttl_config import StateTtlConfig
from pyflinklike.types import Instant, Pickled, TypeInformation, Types
from pyflinklike.types.row import Row, restore_row

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "BroadcastProcessFunction",
    "BroadcastState",
    "CoFlatMapFunction",
    "CoMapFunction",
    "DeadLetters",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "HashMapStateBackend",
    "Instant",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "ListState",
    "ListStateDescriptor",
    "MapFunction",
    "MapState",
    "MapStateDescriptor",
    "MergingState",
    "MetricGroup",
    "OutputTag",
    "PredefinedOptions",
    "ReadOnlyBroadcastState",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "Row",
    "RuntimeContext",
    "State",
    "StateBackend",
    "StateDescriptor",
    "StateTtlConfig",
    "Time",
    "TimeDomain",
    "TimerService",
    "TypeInformation",
    "Types",
    "ValueState",
    "ValueStateDescriptor",
]

__version__ = "0.1.0"

export_public(
    globals(),
    Pickled,
    ReduceFunctionWrapper,
    restore_row,
)
