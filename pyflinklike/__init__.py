# SPDX-License-Identifier: Apache-2.0
"""Flink's keyed state, TTL and timers for Spark, in pure Python."""

from pyflinklike.engine.api.contexts import ColumnTimerService, RuntimeContext, TimerService
from pyflinklike.engine.api.dead_letters import DeadLetters
from pyflinklike.engine.api.element_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.engine.api.metric_group import MetricGroup
from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.api.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
)
from pyflinklike.engine.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.engine.backends.rocksdb.rocksdb_backend import (
    EmbeddedRocksDBStateBackend,
    PredefinedOptions,
)
from pyflinklike.engine.backends.state_backend import StateBackend
from pyflinklike.engine.clock import MAX_WATERMARK, MIN_WATERMARK, Duration, Time, TimeDomain
from pyflinklike.engine.doors import pin
from pyflinklike.engine.functions import (
    AggregateFunction,
    Function,
    ReduceFunction,
    ReduceFunctionWrapper,
)
from pyflinklike.engine.legacy_backends import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
from pyflinklike.engine.state import (
    AggregatingState,
    AppendingState,
    ListState,
    MapState,
    MergingState,
    ReducingState,
    State,
    ValueState,
)
from pyflinklike.engine.state.broadcast_state import BroadcastState, ReadOnlyBroadcastState
from pyflinklike.engine.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.engine.state.ttl_config import StateTtlConfig
from pyflinklike.engine.types import Instant, Pickled, TypeInformation, Types
from pyflinklike.engine.types.row import Row, restore_row

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
    "ColumnTimerService",
    "DeadLetters",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "HashMapStateBackend",
    "Instant",
    "KeyedBatchFunction",
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

pin(
    globals(),
    Pickled,
    ReduceFunctionWrapper,
    restore_row,
    # Flink 1.x's, which are shown where PyFlink has them: pyflinklike.datastream.state_backend.
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
