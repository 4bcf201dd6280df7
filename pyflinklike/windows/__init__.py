# SPDX-License-Identifier: Apache-2.0
"""Flink's windows: over the elements of a key, by time, by sessions, by number, or all in one.

    from pyflinklike import Time
    from pyflinklike.windows import TumblingEventTimeWindows, window

    clicks_per_minute = window(TumblingEventTimeWindows.of(Time.minutes(1))).aggregate(Count())

The names are PyFlink's (`pyflink.datastream.window`), the semantics Flink's.  The calls that begin
with `window(...)` end in a `WindowOperator`, a `KeyedProcessFunction` that every host runs.
"""

from pyflinklike._exports import export_public, is_loading

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

if is_loading(globals()):
    from pyflinklike.windows.assigners import (
        CountSlidingWindowAssigner,
        CountTumblingWindowAssigner,
        DynamicEventTimeSessionWindows,
        DynamicProcessingTimeSessionWindows,
        EventTimeSessionWindows,
        GlobalWindows,
        MergingWindowAssigner,
        ProcessingTimeSessionWindows,
        SessionWindowTimeGapExtractor,
        SlidingEventTimeWindows,
        SlidingProcessingTimeWindows,
        TumblingEventTimeWindows,
        TumblingProcessingTimeWindows,
        WindowAssigner,
    )
    from pyflinklike.windows.evictors import (
        CountEvictor,
        DeltaEvictor,
        Evictor,
        TimeEvictor,
        TimestampedValue,
    )
    from pyflinklike.windows.triggers import (
        ContinuousEventTimeTrigger,
        ContinuousProcessingTimeTrigger,
        CountTrigger,
        EventTimeTrigger,
        NeverTrigger,
        ProcessingTimeTrigger,
        PurgingTrigger,
        Trigger,
        TriggerResult,
    )
    from pyflinklike.windows.window_functions import (
        AllWindowFunction,
        ProcessAllWindowFunction,
        ProcessWindowFunction,
        WindowFunction,
    )
    from pyflinklike.windows.window_kinds import (
        CountWindow,
        CountWindowSerializer,
        GlobalWindow,
        GlobalWindowSerializer,
        TimeWindow,
        TimeWindowSerializer,
        Window,
        WindowSerializer,
    )
    from pyflinklike.windows.window_operator import WindowOperator
    from pyflinklike.windows.window_options import Windowed, count_window, window, window_all

    export_public(globals())
