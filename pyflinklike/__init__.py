# SPDX-License-Identifier: Apache-2.0
"""Flink's keyed state, TTL and timers for Spark, in pure Python."""

from pyflinklike.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflinklike.api.co_process import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
)
from pyflinklike.api.column_timers import ColumnTimerService
from pyflinklike.api.context import RuntimeContext, TimerService
from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.api.map_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.api.metrics import MetricGroup
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.backends.legacy import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
from pyflinklike.backends.rocksdb.backend import EmbeddedRocksDBStateBackend, PredefinedOptions
from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK, Duration, Time, TimeDomain
from pyflinklike.doors import pin
from pyflinklike.functions import (
    AggregateFunction,
    Function,
    ReduceFunction,
    ReduceFunctionWrapper,
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
from pyflinklike.state.broadcast import BroadcastState, ReadOnlyBroadcastState
from pyflinklike.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
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
    "ColumnTimerService",
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
