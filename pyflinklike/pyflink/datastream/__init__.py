# SPDX-License-Identifier: Apache-2.0
"""PyFlink's DataStream API, under the names of `pyflink.datastream`."""

from pyflinklike._clock import TimeDomain
from pyflinklike._exports import export_public
from pyflinklike.functions.contexts import TimerService
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.pyflink._graph.job import RuntimeExecutionMode
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.async_data_stream import AsyncDataStream
from pyflinklike.pyflink.datastream.checkpoint_config import *
from pyflinklike.pyflink.datastream.data_stream import *
from pyflinklike.pyflink.datastream.functions import *
from pyflinklike.pyflink.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from pyflinklike.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.window import *

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
