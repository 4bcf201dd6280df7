# SPDX-License-Identifier: Apache-2.0
"""Functions that users subclass, at PyFlink's path."""

from pyflinklike.functions.contexts import KeyedStateStore, RuntimeContext
from pyflinklike.functions.element_functions import *
from pyflinklike.functions.process_functions import *
from pyflinklike.pyflink._graph.functions import (
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
)
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.state.fold_functions import AggregateFunction, Function, ReduceFunction
from pyflinklike.windows.window_functions import *

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

__getattr__ = of_pyflink(__name__)
