# SPDX-License-Identifier: Apache-2.0
"""What users subclass, under the path that PyFlink has for it."""

from pyflinklike.api.async_function import AsyncFunction, AsyncRetryPredicate, AsyncRetryStrategy
from pyflinklike.api.broadcast import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
)
from pyflinklike.api.co_process import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from pyflinklike.api.context import KeyedStateStore, RuntimeContext
from pyflinklike.api.map_functions import FilterFunction, FlatMapFunction, MapFunction
from pyflinklike.api.process import KeyedProcessFunction, ProcessFunction
from pyflinklike.api.selectors import KeySelector, NullByteKeySelector, Partitioner
from pyflinklike.common.missing import refusing
from pyflinklike.functions import AggregateFunction, Function, ReduceFunction
from pyflinklike.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "WindowFunction",
]

__getattr__ = refusing(
    __name__,
    {
        "SourceFunction": "it is Java's; use from_collection or from_source",
        "SinkFunction": "it is Java's; use sink_to or print",
    },
)
