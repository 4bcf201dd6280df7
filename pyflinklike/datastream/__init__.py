# SPDX-License-Identifier: Apache-2.0
"""PyFlink's DataStream API, under the names of `pyflink.datastream`."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.datastream.async_data_stream import AsyncDataStream
from pyflinklike.datastream.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)
from pyflinklike.datastream.data_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    WindowedStream,
)
from pyflinklike.datastream.stream_execution_environment import StreamExecutionEnvironment
from pyflinklike.engine.api.async_function import (
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from pyflinklike.engine.api.contexts import RuntimeContext, TimerService
from pyflinklike.engine.api.element_functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
)
from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.api.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from pyflinklike.engine.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.engine.backends.rocksdb.rocksdb_backend import (
    EmbeddedRocksDBStateBackend,
    PredefinedOptions,
)
from pyflinklike.engine.backends.state_backend import StateBackend
from pyflinklike.engine.clock import TimeDomain
from pyflinklike.engine.doors import pin
from pyflinklike.engine.functions import AggregateFunction, ReduceFunction
from pyflinklike.engine.graph.job import RuntimeExecutionMode
from pyflinklike.engine.legacy_backends import CustomStateBackend
from pyflinklike.windows import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    ProcessWindowFunction,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
    WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CheckpointConfig",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FilterFunction",
    "FlatMapFunction",
    "GlobalWindow",
    "HashMapStateBackend",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

__getattr__ = of_pyflink(__name__)

pin(globals())
