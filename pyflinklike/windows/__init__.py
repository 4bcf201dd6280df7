# SPDX-License-Identifier: Apache-2.0
"""Flink's windows: over the elements of a key, by time, by sessions, by number, or all in one.

    from pyflinklike import Time
    from pyflinklike.windows import TumblingEventTimeWindows, window

    clicks_per_minute = window(TumblingEventTimeWindows.of(Time.minutes(1))).aggregate(Count())

The names are PyFlink's (`pyflink.datastream.window`), the semantics Flink's.  What `window(...)`
ends in is a `WindowOperator`, a `KeyedProcessFunction` that every host runs.
"""

from pyflinklike.doors import pin
from pyflinklike.windows.assigner import MergingWindowAssigner, WindowAssigner
from pyflinklike.windows.continuous import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
)
from pyflinklike.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    GlobalWindows,
)
from pyflinklike.windows.evictor import (
    CountEvictor,
    DeltaEvictor,
    Evictor,
    TimeEvictor,
    TimestampedValue,
)
from pyflinklike.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.kinds import (
    CountWindow,
    CountWindowSerializer,
    GlobalWindow,
    GlobalWindowSerializer,
    TimeWindow,
    TimeWindowSerializer,
    Window,
    WindowSerializer,
)
from pyflinklike.windows.operator import WindowOperator
from pyflinklike.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from pyflinklike.windows.time_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pyflinklike.windows.trigger import Trigger, TriggerResult
from pyflinklike.windows.triggers import (
    CountTrigger,
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
)
from pyflinklike.windows.windowed import Windowed, count_window, window, window_all

__all__ = [
    "AllWindowFunction",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountEvictor",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DeltaEvictor",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "Evictor",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeEvictor",
    "TimeWindow",
    "TimeWindowSerializer",
    "TimestampedValue",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowOperator",
    "WindowSerializer",
    "Windowed",
    "count_window",
    "window",
    "window_all",
]

pin(globals())
