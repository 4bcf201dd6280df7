# SPDX-License-Identifier: Apache-2.0
"""Flink's keyed state, TTL and timers for Spark, in pure Python."""

from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap import HashMapStateBackend
from pyflinklike.backends.legacy import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    RocksDBStateBackend,
)
from pyflinklike.backends.rocksdb import EmbeddedRocksDBStateBackend, PredefinedOptions
from pyflinklike.clock import MAX_WATERMARK, MIN_WATERMARK, Duration, Time, TimeDomain
from pyflinklike.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from pyflinklike.functions import (
    AggregateFunction,
    Function,
    KeyedProcessFunction,
    OutputTag,
    ReduceFunction,
    RuntimeContext,
    TimerService,
)
from pyflinklike.metrics import MetricGroup
from pyflinklike.row import Row
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
from pyflinklike.ttl_config import StateTtlConfig
from pyflinklike.types import Instant, TypeInformation, Types

__all__ = [
    "MAX_WATERMARK",
    "MIN_WATERMARK",
    "AggregateFunction",
    "AggregatingState",
    "AggregatingStateDescriptor",
    "AppendingState",
    "CustomStateBackend",
    "Duration",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "Function",
    "HashMapStateBackend",
    "Instant",
    "KeyedProcessFunction",
    "ListState",
    "ListStateDescriptor",
    "MapState",
    "MapStateDescriptor",
    "MemoryStateBackend",
    "MergingState",
    "MetricGroup",
    "OutputTag",
    "PredefinedOptions",
    "ReduceFunction",
    "ReducingState",
    "ReducingStateDescriptor",
    "RocksDBStateBackend",
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
