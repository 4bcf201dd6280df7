# SPDX-License-Identifier: Apache-2.0
"""The window operator at work, step by step as Flink's `WindowOperator`.

State and timers of a window are those of the pair of key and window.  Contents of windows that
merge are those of a pair with their state window; the trigger's state is always that of the
window itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Any

from pyflinklike.api.namespaces import NamespacedRuntimeContext
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.api.results import check_results
from pyflinklike.state.table import Setting
from pyflinklike.types.copies import as_given
from pyflinklike.windows.assigner import fixed_windows, kind_of
from pyflinklike.windows.contents import CONTENTS, Kept
from pyflinklike.windows.contexts import AssignerContext, FunctionContext, TaskTriggerContext
from pyflinklike.windows.continuous import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
)
from pyflinklike.windows.declaration import WindowDeclaration
from pyflinklike.windows.ends import WindowEnds
from pyflinklike.windows.kinds import Window
from pyflinklike.windows.merging_windows import MergingWindowSet
from pyflinklike.windows.trigger import TriggerResult
from pyflinklike.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger, PurgingTrigger

__all__ = ["LATE_RECORDS", "WindowTask"]

LATE_RECORDS = "numLateRecordsDropped"
"""Name of the counter, as Flink's."""

CONTINUE = TriggerResult.CONTINUE


class WindowTask:
    """Windows of the keys of an operator that is open.

    Args:
        declared: What the user said.
        context: Of the operator.
    """

    def __init__(self, declared: WindowDeclaration, context: NamespacedRuntimeContext) -> None:
        assigner, serializer = declared.assigner, declared.assigner.get_window_serializer()
        self._assign, self._trigger = assigner.assign_windows, declared.trigger
        self._ends = WindowEnds(assigner, declared.allowed_lateness, context.timers)
        self._is_event_time, self._cleanup_time = self._ends.by_event_time, self._ends.time
        self._function, self._collect = declared.function, declared.collect
        self._late_tag, self._late_output = declared.late_data_tag, declared.late_output
        self._to_namespace, self._to_window = serializer.to_namespace, serializer.to_window
        self._current, self._timers = context.current, context.timers
        self._assigner_context = AssignerContext(context)
        self._trigger_context = TaskTriggerContext(context)
        self._kept = Kept.of(
            declared.contents,
            context,
            declared.evictor,
            self._trigger_context,
            kind_of(assigner),
            _settings_of(declared),
        )
        for of_window in declared.trigger.descriptors():
            self._trigger_context.get_partitioned_state(of_window)
        for descriptor in assigner.descriptors():
            context.get_state(descriptor)  # now, so that what does not fit is refused at once
            context.reserve(descriptor)
        self._merging = MergingWindowSet.of(assigner, context)
        self._function_context = FunctionContext(context, merging=self._merging is not None)
        self._merge_contents = context.merge_namespaces
        self._late_records = context.get_metrics_group().counter(LATE_RECORDS)
        # The default trigger is not asked: it registers the very timer that ends the window, and
        # fires at no element, which would be late.
        self._is_plain = (
            self._is_event_time
            and self._ends.lateness == 0
            and type(self._trigger) is EventTimeTrigger
        )
        self._register_end = self._timers.register_event_time_timer
        # A session that grows keeps its first timer, which sees to the next one when it fires.
        self._timers_lag = (
            self._is_plain and self._merging is not None and self._merging.by_intersection
        )
        # Of sliding windows each element is in many, so what is asked per window counts.
        self._is_simple = self._is_plain and self._merging is None and declared.evictor is None
        self._outputs: list[Any] = []
        self._key: Callable[[], Any] = lambda: None

    # Elements

    def process_element(
        self, value: Any, timestamp: int | None, key: Callable[[], Any]
    ) -> list[Any] | None:
        """Put an element into its windows; the outputs of those that fire.

        Args:
            value: The element.
            timestamp: Its event time in ms, or None.
            key: Tells its key.
        """
        self._key, self._outputs = key, []
        watermark, is_skipped = self._timers.current_watermark(), True
        to_namespace, merging = self._to_namespace, self._merging
        windows = self._assign(value, timestamp, self._assigner_context)
        if self._is_simple:
            if self._add_simply(value, windows, watermark) and self._is_late(timestamp, watermark):
                self._dismiss(value)
            return self._taken()
        for window in windows:
            if merging is not None:
                is_skipped &= self._add_to_merged(value, timestamp, window, merging, watermark)
            elif not self._ends.is_late(window, watermark):
                is_skipped = False
                namespace = to_namespace(window)
                self._add(value, timestamp, window, namespace, namespace)
        if is_skipped and self._is_late(timestamp, watermark):
            self._dismiss(value)
        return self._taken()

    def _add_simply(self, value: Any, windows: Collection[Window], watermark: int) -> bool:
        """Put an element into those of its windows that are open; whether none is."""
        current, to_namespace, add = self._current, self._to_namespace, self._kept.state.add
        register_end, is_skipped = self._register_end, True
        for window in windows:
            end = window.max_timestamp()
            if end > watermark:
                is_skipped = False
                current.namespace = to_namespace(window)
                add(value)
                register_end(end)
        return is_skipped

    def _add(
        self,
        value: Any,
        timestamp: int | None,
        window: Window,
        namespace: Hashable,
        state_window: Hashable,
    ) -> None:
        """Put an element into a window that is open."""
        current = self._current
        current.namespace = state_window
        self._kept.add(value, timestamp)
        current.namespace = namespace
        if self._is_plain:
            if not self._timers_lag or namespace == state_window:
                self._register_end(window.max_timestamp())
            return
        result = self._trigger.on_element(value, timestamp, window, self._trigger_context)
        if result is not CONTINUE:
            self._act(result, window, state_window)
            current.namespace = namespace
        self._ends.register(window)

    def _add_to_merged(
        self,
        value: Any,
        timestamp: int | None,
        window: Window,
        merging: MergingWindowSet,
        watermark: int,
    ) -> bool:
        """Put an element into the window that its own becomes; whether that is late."""
        found = merging.add(window, self._merged, lambda each: self._ends.is_late(each, watermark))
        if found is None:
            return True
        actual, state_window = found
        self._add(value, timestamp, actual, self._to_namespace(actual), state_window)
        return False

    def _is_late(self, timestamp: int | None, watermark: int) -> bool:
        if not self._is_event_time or timestamp is None:
            return False
        return timestamp + self._ends.lateness <= watermark

    def _dismiss(self, value: Any) -> None:
        output = None if self._late_tag is None else (self._late_tag, value)
        if self._late_output is not None:
            output = self._late_output(value)
        if output is None:
            self._late_records.inc()
        else:
            self._outputs.append(output)

    # Merging

    def _merged(
        self, window: Any, olds: Sequence[Any], state_window: Any, others: Sequence[Any]
    ) -> None:
        """Windows became one, or one has grown: so do the trigger's state and the contents."""
        if not self._timers_lag:
            self._pass_on(window, olds)
        elif all(self._ends.is_late(old, self._timers.current_watermark()) for old in olds):
            # They are here because of a greater lateness before a restart, and what was to fire at
            # their ends has fired.
            self._current.namespace = self._to_namespace(window)
            self._register_end(window.max_timestamp())
        if others:
            self._merge_contents(CONTENTS, state_window, others)

    def _pass_on(self, window: Any, olds: Sequence[Any]) -> None:
        """Have the trigger and the timers follow."""
        self._ends.refuse_passed(window)
        trigger, context, current = self._trigger, self._trigger_context, self._current
        context.merged = [self._to_namespace(old) for old in olds]
        current.namespace = self._to_namespace(window)
        trigger.on_merge(window, context)
        for old, namespace in zip(olds, context.merged):
            current.namespace = namespace
            trigger.clear(old, context)
            self._ends.delete(old)
        context.merged = ()

    def _catch_up(self, window: Window, merging: MergingWindowSet) -> None:
        """A timer fires of a window that has grown since, or is over: that of now gets its own."""
        grown = merging.holding(window)
        if grown is not None:
            self._current.namespace = self._to_namespace(grown)
            if not self._ends.is_registered(grown):
                self._ends.register(grown)
                self._register_end(grown.max_timestamp())

    # Timers

    def on_timer(
        self, timestamp: int, *, is_event: bool, key: Callable[[], Any]
    ) -> list[Any] | None:
        """A timer of the current namespace fires; the outputs.

        Args:
            timestamp: Its time in ms.
            is_event: Whether it is one of event time.
            key: Tells its key.
        """
        self._key, self._outputs = key, []
        namespace: Hashable = self._current.namespace
        window = self._to_window(namespace)
        state_window = namespace
        if self._merging is not None:
            state_window = self._merging.state_window(window)
            if state_window is None:
                if is_event and timestamp == window.max_timestamp():
                    self._catch_up(window, self._merging)
                return None
        trigger = self._trigger
        on_time = trigger.on_event_time if is_event else trigger.on_processing_time
        result = on_time(timestamp, window, self._trigger_context)
        if result is not CONTINUE:
            self._act(result, window, state_window)
        if is_event is self._is_event_time:
            self._end_if_over(timestamp, window, namespace, state_window)
        return self._taken()

    def _end_if_over(
        self, timestamp: int, window: Window, namespace: Hashable, state_window: Hashable
    ) -> None:
        """End a window whose time is over, also where the lateness was another before a restart."""
        end = self._cleanup_time(window)
        if timestamp == end:
            self._end(window, namespace, state_window)
        elif timestamp > end:
            # A merged window is in its set until it has ended, whatever a trigger has purged.
            self._current.namespace = state_window
            if self._merging is not None or not self._kept.is_empty():
                self._end(window, namespace, state_window)
        elif timestamp >= window.max_timestamp():
            self._current.namespace = namespace
            self._ends.register(window)

    def _end(self, window: Window, namespace: Hashable, state_window: Hashable) -> None:
        """Free all that there is of a window."""
        self._current.namespace = state_window
        self._kept.clear()
        self._current.namespace = namespace
        self._trigger.clear(window, self._trigger_context)
        self._function_context.current_window = window
        self._function.clear(self._function_context)
        if self._merging is not None:
            self._merging.retire(state_window)

    # Outputs

    def _act(self, result: TriggerResult, window: Window, state_window: Hashable) -> None:
        """Do what the trigger says."""
        self._current.namespace = state_window
        if result.is_fire():
            self._kept.fire(window, self._apply)
        if result.is_purge():
            self._kept.clear()

    def _apply(self, window: Window, contents: Sequence[Any]) -> None:
        """Apply the function, and take all that it gives while its window is current."""
        state_window = self._current.namespace
        self._current.namespace = self._to_namespace(window)
        self._function_context.current_window = window
        results = self._function.process(self._key, self._function_context, contents)
        if results is not None:
            check_results(results, f"calls of {self._function.call()}")
            self._emit(window, results)
        self._current.namespace = state_window  # an evictor goes on with the contents

    def _emit(self, window: Window, results: Iterable[Any]) -> None:
        """Gather what the function gives; a generator runs here."""
        for result in results:
            if result.__class__ is tuple and result and result[0].__class__ is OutputTag:
                given = (result[0], *map(as_given, result[1:]))
            elif self._collect is None:
                given = as_given(result)
            else:
                given = self._collect(self._key(), window, as_given(result))
            self._outputs.append(given)

    def _taken(self) -> list[Any] | None:
        """The outputs of a call."""
        return self._outputs or None


_BY_END, _BY_CLOCK = "its end", "times of the clock"
_BY_OTHERS = "its elements, or times of its trigger's own"
_UNFIRED = "windows that are open would end without firing: keep the former trigger"


def _settings_of(declared: WindowDeclaration) -> list[Setting]:
    """What a restart may not change of windows, beside the kind of their contents."""
    settings = [_fired_by(declared)]
    fixed = declared.assigner.fixed()
    if fixed is not None:
        settings.append(fixed_windows(fixed))
    return settings


def _fired_by(declared: WindowDeclaration) -> Setting:
    """What fires windows: a trigger that waits for a timer needs one that has registered it."""
    trigger = declared.trigger
    while isinstance(trigger, PurgingTrigger):
        trigger = trigger.nested_trigger
    by, needed, remedy = _BY_OTHERS, False, f"{_UNFIRED}, or begin a new checkpoint"
    if isinstance(trigger, (EventTimeTrigger, ContinuousEventTimeTrigger)):
        # Without a lateness the timer that frees the window is at the end, too, whatever the
        # trigger was.
        by, needed = _BY_END, declared.allowed_lateness > 0
        remedy = f"{_UNFIRED}, allow no lateness, or begin a new checkpoint"
    elif isinstance(trigger, (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger)):
        # Windows of the clock end by it.
        by, needed = _BY_CLOCK, declared.assigner.is_event_time()
    accepts = () if needed else (_BY_END, _BY_CLOCK, _BY_OTHERS)
    return Setting("what fires a window", by, accepts, remedy)
