# SPDX-License-Identifier: Apache-2.0
"""PyFlink's DataStream API, under the names of `pyflink.datastream`."""

from pyflinklike._clock import TimeDomain
from pyflinklike._exports import export_public
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.rocksdb_backend import (
    EmbeddedRocksDBStateBackend,
    PredefinedOptions,
)
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.contexts import RuntimeContext, TimerService
from pyflinklike.functions.element_functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    Partitioner,
)
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
)
from pyflinklike.pyflink._graph.functions import (
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from pyflinklike.pyflink._graph.job import RuntimeExecutionMode
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.async_data_stream import AsyncDataStream
from pyflinklike.pyflink.datastream.checkpoint_config import (
    CheckpointConfig,
    CheckpointingMode,
    ExternalizedCheckpointRetention,
)
from pyflinklike.pyflink.datastream.data_stream import (
    BroadcastConnectedStream,
    BroadcastStream,
    CloseableIterator,
    ConnectedStreams,
    DataStream,
    DataStreamSink,
    KeyedStream,
    WindowedStream,
)
from pyflinklike.pyflink.datastream.state_backend import CustomStateBackend
from pyflinklike.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction
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

export_public(globals())
