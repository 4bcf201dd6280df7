# SPDX-License-Identifier: Apache-2.0
"""The window operator, step by step as Flink's `WindowOperator`: a function that any host runs.

State and timers belong to a pair of key and window.  If windows merge, their contents belong to the
pair of key and *state window* (see `merging_window_set`), but the state of the trigger always
belongs to the window itself.

If failed calls become dead letters, an element that cannot be put into its windows counts as not
come.  A firing is a part that can fail alone: the operator undoes what the user's function did, and
the window is purged, goes on or ends as if the function had succeeded.

https://github.com/apache/flink/blob/master/flink-runtime/src/main/java/org/apache/flink/streaming/runtime/operators/windowing/WindowOperator.java
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from types import FrameType
from typing import Any, Final, TypeVar

import attrs

from pyflinklike._clock import MAX_WATERMARK, TimeDomain
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationError, StateAccessError
from pyflinklike.functions.contexts import (
    KeyedStateStore,
    NamespacedRuntimeContext,
    NamespacedTimerService,
    RuntimeContext,
)
from pyflinklike.functions.metric_group import MetricGroup
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import (
    KeyedProcessFunction,
    NamespacedFunction,
    PreparedTogether,
    TimedResult,
    check_results,
)
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.state.fold_functions import AggregateFunction
from pyflinklike.state.table import Setting
from pyflinklike.types import TypeInformation
from pyflinklike.types.copies import are_unchangeable, as_given
from pyflinklike.windows.assigners import WindowAssigner, kind_of, make_windows_setting
from pyflinklike.windows.evictors import Evictor
from pyflinklike.windows.merging_window_set import MergingWindowSet
from pyflinklike.windows.triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
)
from pyflinklike.windows.window_contents import (
    CONTENTS,
    Collect,
    Gathered,
    StoredContents,
    WindowDeclaration,
)
from pyflinklike.windows.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflinklike.windows.window_groups import WindowGroups
from pyflinklike.windows.window_kinds import TimeWindowSerializer, Window

_OURS: Final = f"{__name__.partition('.')[0]}."
_BY_CLOCK = (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger)


class WindowOperator(NamespacedFunction):
    """The windows over the elements of each key, as a `KeyedProcessFunction`.

    `pyflinklike.windows.window(...)` makes it.  It runs wherever such a function runs: in a
    `KeyedProcessHarness`, and on a Spark stream or batch through `key_by(df, ...).process(...)`.

    Args:
        declared: Assigner, trigger, contents and functions, as the user declared them.
    """

    def __init__(self, declared: WindowDeclaration) -> None:
        self.declared = declared
        self._task: WindowTask | None = None
        self._uid = ""

    hidden_state = CONTENTS

    @property
    def registrar(self) -> str:  # type: ignore[override]
        """The trigger, since windows never register a timer for a time that has come."""
        return f"the trigger {_name_of(_with_nested(self.declared.trigger)[-1])}"

    @property
    def namespace_type(self) -> TypeInformation:  # type: ignore[override]
        """The type of a window as a namespace of state."""
        return self.declared.assigner.get_window_serializer().type_info

    @property
    def functions(self) -> tuple[object, ...]:
        """The user's functions: first the one that folds elements, then the one for outputs."""
        found = getattr(self.declared.contents, "function", None), self.declared.function.function
        return tuple(each for each in found if each is not None)

    def collecting(self, collect: Collect) -> WindowOperator:
        """Return this operator with outputs that a function makes from the results.

        Args:
            collect: Makes an output from key, window and result; picklable if the host is a
                cluster.
        """
        return WindowOperator(attrs.evolve(self.declared, collect=collect))

    def timed(self) -> WindowOperator:
        """Return this operator for a host that keeps the times of outputs.

        Each result is a `TimedResult` with the window's `max_timestamp()`, as in Flink.
        """
        return self.collecting(_at_its_end)

    def giving_late(self, late_output: Callable[[Any], Any]) -> WindowOperator:
        """Return this operator with another treatment of late elements.

        Args:
            late_output: Makes an output from a late element; if it returns None, the element is
                counted.  Picklable if the host is a cluster.
        """
        return WindowOperator(attrs.evolve(self.declared, late_output=late_output))

    def uses_processing_timers(self, registers: Callable[[object], bool]) -> bool:
        """Return whether windows end by the clock, or the trigger may register such timers.

        Args:
            registers: Returns whether the code of a trigger's class registers such timers.
        """
        assigner = self.declared.assigner
        serializer = assigner.get_window_serializer()
        ends_by_clock = not assigner.is_event_time() and serializer == TimeWindowSerializer()
        return ends_by_clock or any(
            isinstance(each, _BY_CLOCK) or registers(each)
            for each in _with_nested(self.declared.trigger)
        )

    def open(self, runtime_context: RuntimeContext) -> None:
        """Declare the states, and open the user's function."""
        assert isinstance(runtime_context, NamespacedRuntimeContext)
        self._task = WindowTask(self.declared, runtime_context)
        self._uid = runtime_context.get_task_name()
        self.declared.function.open(runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        self._task = None
        self.declared.function.close()

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Put an element into its windows; return the outputs of those that fire."""
        assert self._task is not None
        return self._task.process_element(value, ctx.timestamp(), ctx.get_current_key)

    def add_bulk(
        self,
        keys: Sequence[Any],
        values: Sequence[Any],
        timestamps: Sequence[int | None],
        *,
        unchanged: bool,
    ) -> PreparedTogether | None:
        """Prepare to put records into their windows in one step, if no user code could notice."""
        assert self._task is not None
        groups = self._task.groups
        if groups is None:
            return None
        # A fold that raises may have changed its elements, and the records then go one by one.
        is_fold = not isinstance(self.declared.contents, Gathered)
        if unchanged and is_fold and not are_unchangeable(values):
            return None
        return groups.prepare(keys, values, timestamps, self._task.current_watermark())

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """Fire or end a window; return the outputs."""
        assert self._task is not None
        is_event = ctx.time_domain() is TimeDomain.EVENT_TIME
        return self._task.on_timer(timestamp, is_event=is_event, key=ctx.get_current_key)

    # Messages

    def called(self) -> str:
        """Name the user's window function, else the function that folds, else the assigner."""
        return _name_of(next(reversed(self.functions), self.declared.assigner))

    def failed_call(self, error: BaseException, method: str) -> tuple[str, str]:
        """Name the user's method that raised, the window and the uid, from the traceback."""
        # From the frames, since to note the window before each call would cost every element.
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        tasks = [each for each in frames if isinstance(each.f_locals.get("self"), WindowTask)]
        windows = [each.f_locals.get("window") for each in tasks]
        window = next((each for each in reversed(windows) if isinstance(each, Window)), None)
        place = "" if window is None else f"window {short_repr(window)}, "
        return _call_in(frames) or self._own_call(tasks, method), f"{place}uid {self._uid!r}"

    def _own_call(self, tasks: Iterable[FrameType], method: str) -> str:
        """Name the call of the user's code whose result was refused."""
        applies = any(each.f_code is WindowTask._apply.__code__ for each in tasks)
        fold = getattr(self.declared.contents, "function", None)
        if not tasks and method == "on_timer":  # the timer queue raised: there were too many timers
            return _name_of(_with_nested(self.declared.trigger)[-1])
        if applies and self.declared.function.function is not None:
            return self.declared.function.call()
        if fold is None:
            return f"{self.called()}.{method}"
        return f"{_name_of(fold)}.{'add' if isinstance(fold, AggregateFunction) else 'reduce'}"

    # Without the open task, whose backend cannot be pickled.
    def __getstate__(self) -> dict[str, Any]:
        return {"declared": self.declared, "_task": None, "_uid": ""}

    def __repr__(self) -> str:
        return f"WindowOperator({self.declared!r})"


def _at_its_end(_: Any, window: Window, result: Any) -> TimedResult:
    return TimedResult(result, window.max_timestamp())


def _name_of(function: object) -> str:
    """Name the user's class or function, which one of ours may wrap."""
    while type(function).__module__.startswith(_OURS):
        inner = vars(function).get("_function") if hasattr(function, "__dict__") else None
        inner = inner if inner is not None else getattr(function, "_func", None)
        if inner is None:
            break
        function = inner
    return getattr(function, "__qualname__", type(function).__qualname__)


def _call_in(frames: Iterable[FrameType]) -> str:
    """Name the first call of code that is not ours, by class and method; "" without one."""
    for frame in frames:
        code = frame.f_code
        if str(frame.f_globals.get("__name__", "")).startswith(_OURS):
            continue
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if callable(getattr(type(owner), code.co_name, None)):
            return f"{type(owner).__qualname__}.{code.co_name}"
        return getattr(code, "co_qualname", code.co_name)  # co_qualname is Python 3.11's
    return ""


def _with_nested(trigger: Trigger[Any, Any]) -> list[Trigger[Any, Any]]:
    """Return a trigger and all triggers within it."""
    nested = [each for each in vars(trigger).values() if isinstance(each, Trigger)]
    return [trigger, *(inner for each in nested for inner in _with_nested(each))]


# The operator while it is open


LATE_RECORDS = "numLateRecordsDropped"
"""Name of the counter, as in Flink."""

CONTINUE = TriggerResult.CONTINUE


class WindowTask:
    """The windows of all keys of an open operator.

    Args:
        declared: Assigner, trigger, contents and functions, as the user declared them.
        context: The context of the operator.
    """

    def __init__(self, declared: WindowDeclaration, context: NamespacedRuntimeContext) -> None:
        assigner, serializer = declared.assigner, declared.assigner.get_window_serializer()
        self._assign, self._trigger = assigner.assign_windows, declared.trigger
        self._ends = WindowEnds(assigner, declared.allowed_lateness, context.timers)
        self._is_event_time, self._cleanup_time = self._ends.by_event_time, self._ends.time
        self._function, self._collect = declared.function, declared.collect
        self._has_state = declared.function.clears()
        self._givers = f"calls of {declared.function.call()}"
        self._late_tag, self._late_output = declared.late_data_tag, declared.late_output
        self._to_namespace, self._to_window = serializer.to_namespace, serializer.to_window
        self._current, self._timers = context.current, context.timers
        self._task_context = WindowTaskContext(context)
        self._late_records = context.get_metrics_group().counter(LATE_RECORDS)
        self.current_watermark = self._timers.current_watermark
        """Return the watermark in ms."""
        self._outputs: list[Any] = []
        self._key: Callable[[], Any] = lambda: None
        self._declare_states(declared, context)
        self._choose_ways(declared)

    def _declare_states(
        self, declared: WindowDeclaration, context: NamespacedRuntimeContext
    ) -> None:
        """Declare the states of contents, trigger, assigner and merging windows."""
        assigner = declared.assigner
        self._contents = StoredContents.of(
            declared.contents,
            context,
            declared.evictor,
            self._task_context,
            kind_of(assigner),
            _settings_of(declared),
        )
        for of_window in declared.trigger.descriptors():
            self._task_context.get_partitioned_state(of_window)
        for descriptor in assigner.descriptors():
            # Obtained now, so that a restored state that does not fit is refused at once.
            context.get_state(descriptor)
            context.reserve(descriptor)
        self._merging = MergingWindowSet.of(assigner, context)
        self._function_context = FunctionContext(context, merging=self._merging is not None)
        self._merge_contents = context.merge_namespaces
        self._attempt = context._attempt
        if self._attempt is not None:
            self._contents.alone = partial(self._alone, self._show)

    def _choose_ways(self, declared: WindowDeclaration) -> None:
        """Choose the steps that windows of this kind can leave out."""
        # The default trigger need not be asked: its timer is the one that ends the window, and it
        # fires at an element only if that is late.
        self._is_plain = (
            self._is_event_time
            and self._ends.lateness == 0
            and type(self._trigger) is EventTimeTrigger
        )
        self._register_end = self._timers.register_event_time_timer
        # A session that grows keeps its first timer; when that fires, it registers the next one.
        self._timers_lag = (
            self._is_plain and self._merging is not None and self._merging.by_intersection
        )
        # An element is in many sliding windows, so each question per window costs.
        self._is_simple = self._is_plain and self._merging is None and declared.evictor is None
        self.groups = WindowGroups.of(
            declared, self._current, self._contents, self._register_end, self._merging
        )
        """The bulk path of records into their windows; None if these windows cannot take it."""

    # Elements

    def process_element(
        self, value: Any, timestamp: int | None, key: Callable[[], Any]
    ) -> list[Any] | None:
        """Put an element into its windows; return the outputs of those that fire.

        Args:
            value: The element that is put into windows.
            timestamp: Its event time in ms, or None.
            key: Returns its key; called only if needed, since the key must be thawed.
        """
        self._key, self._outputs = key, []
        watermark, is_skipped = self._timers.current_watermark(), True
        to_namespace, merging = self._to_namespace, self._merging
        windows = self._assign(value, timestamp, self._task_context)
        if self._is_simple:
            if self._add_simply(value, windows, watermark) and self._is_late(timestamp, watermark):
                self._dismiss(value)
            return self._collect_outputs()
        for window in windows:
            if merging is not None:
                is_skipped &= self._add_to_merged(value, timestamp, window, merging, watermark)
            elif not self._ends.is_late(window, watermark):
                is_skipped = False
                namespace = to_namespace(window)
                self._add(value, timestamp, window, namespace, namespace)
        if is_skipped and self._is_late(timestamp, watermark):
            self._dismiss(value)
        return self._collect_outputs()

    def _add_simply(self, value: Any, windows: Collection[Window], watermark: int) -> bool:
        """Put an element into its open windows; return whether all were over."""
        current, to_namespace, add = self._current, self._to_namespace, self._contents.state.add
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
        self._contents.add(value, timestamp)
        current.namespace = namespace
        if self._is_plain:
            if not self._timers_lag or namespace == state_window:
                self._register_end(window.max_timestamp())
            return
        result = self._trigger.on_element(value, timestamp, window, self._task_context)
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
        """Put an element into the window that its own one joins; return whether that is late."""
        found = merging.add(
            window, self._merge_windows, lambda each: self._ends.is_late(each, watermark)
        )
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
        # As in Flink, a late element is counted only if no side output takes it.
        output = None if self._late_tag is None else (self._late_tag, value)
        if self._late_output is not None:
            output = self._late_output(value)
        if output is None:
            self._late_records.inc()
        else:
            self._outputs.append(output)

    # Merging

    def _merge_windows(
        self, window: Any, olds: Sequence[Any], state_window: Any, others: Sequence[Any]
    ) -> None:
        """Merge contents and triggers' state of windows that became one, or of one that grew."""
        if not self._timers_lag:
            self._pass_on(window, olds)
        elif all(self._ends.is_late(old, self._timers.current_watermark()) for old in olds):
            # The lateness was greater before a restart, so they are still here; the timers at their
            # ends have fired already.
            self._current.namespace = self._to_namespace(window)
            self._register_end(window.max_timestamp())
        if others:
            self._merge_contents(CONTENTS, state_window, others)

    def _pass_on(self, window: Any, olds: Sequence[Any]) -> None:
        """Let the trigger and the timers follow a merge."""
        self._ends.refuse_passed(window)
        trigger, context, current = self._trigger, self._task_context, self._current
        context.merged = [self._to_namespace(old) for old in olds]
        current.namespace = self._to_namespace(window)
        trigger.on_merge(window, context)
        for old, namespace in zip(olds, context.merged):
            current.namespace = namespace
            trigger.clear(old, context)
            self._ends.delete(old)
        context.merged = ()

    def _catch_up(self, window: Window, merging: MergingWindowSet) -> None:
        """Register the end of a window that grew after the firing timer was registered."""
        grown = merging.find_holding(window)
        if grown is not None:
            self._current.namespace = self._to_namespace(grown)
            if not self._ends.is_registered(grown):
                self._ends.register(grown)
                self._register_end(grown.max_timestamp())

    # Timers

    def on_timer(
        self, timestamp: int, *, is_event: bool, key: Callable[[], Any]
    ) -> list[Any] | None:
        """Handle a timer of the current namespace; return the outputs.

        Args:
            timestamp: The time of the timer in ms.
            is_event: True for a timer of event time.
            key: Returns the key of the timer.
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
        if self._is_plain and is_event and timestamp == window.max_timestamp():
            self._current.namespace = state_window
            self._fire(window)
            self._end(window, namespace, state_window)
            return self._collect_outputs()
        trigger = self._trigger
        on_time = trigger.on_event_time if is_event else trigger.on_processing_time
        result = self._ask(on_time, timestamp, window)
        if result is not CONTINUE:
            self._act(result, window, state_window)
        if is_event is self._is_event_time:
            self._end_if_over(timestamp, window, namespace, state_window)
        return self._collect_outputs()

    def _end_if_over(
        self, timestamp: int, window: Window, namespace: Hashable, state_window: Hashable
    ) -> None:
        """End a window whose time is over, also if the lateness was different before a restart."""
        end = self._cleanup_time(window)
        if timestamp == end:
            self._end(window, namespace, state_window)
        elif timestamp > end:
            # A merged window stays in its set until its end, even if a trigger purged its contents.
            self._current.namespace = state_window
            if self._merging is not None or not self._contents.is_empty():
                self._end(window, namespace, state_window)
        elif timestamp >= window.max_timestamp():
            # The lateness is greater than before the restart, so the window ends later.
            self._current.namespace = namespace
            self._ends.register(window)

    def _end(self, window: Window, namespace: Hashable, state_window: Hashable) -> None:
        """Release the contents, the trigger's state and the function's state of a window."""
        self._current.namespace = state_window
        self._contents.clear()
        self._current.namespace = namespace
        if not self._is_plain:  # the default trigger has nothing to clear
            self._alone(short_repr, window, self._trigger.clear, window, self._task_context)
        if self._has_state:
            self._function_context.current_window = window
            self._alone(short_repr, window, self._function.clear, self._function_context)
        if self._merging is not None:
            self._merging.retire(state_window)

    # Calls of the user's code that can fail alone, if failed calls become dead letters

    def _ask(
        self, on_time: Callable[..., TriggerResult], time: int, window: Window
    ) -> TriggerResult:
        """Return the trigger's decision for a timer; `CONTINUE` if it fails."""
        said = [CONTINUE]
        self._alone(
            short_repr, window, lambda: said.append(on_time(time, window, self._task_context))
        )
        return said[-1]

    def _fire(self, window: Window) -> None:
        """Apply the function to the contents of a window, in the current namespace."""
        if self._attempt is None:
            self._contents.fire(window, self._apply)
        else:
            self._alone(self._show, window, self._contents.fire, window, self._apply)

    def _alone(
        self,
        show: Callable[[Any], str],
        window: Window,
        call: Callable[..., object],
        *given: Any,
    ) -> bool:
        """Make a call of the user's code that may fail alone; return whether it succeeded."""
        if self._attempt is None:
            call(*given)
            return True
        # The call collects into a list of its own, so that a failed call leaves no outputs behind.
        outputs = self._outputs
        results = self._attempt(
            partial(self._call_alone, window, call, given), partial(show, window)
        )
        self._outputs = outputs
        if results is None:
            return False
        outputs += results
        return True

    def _call_alone(
        self,
        window: Window,
        call: Callable[..., object],
        given: Sequence[Any],
    ) -> list[Any]:
        """Make a call, and return its outputs."""
        self._outputs = []
        call(*given)
        return self._outputs

    def _show(self, window: Window) -> str:
        """Show a window and the contents of the current namespace."""
        try:
            return f"{short_repr(window)} of {short_repr(self._contents.look())}"
        except Exception:  # the user's fold raised; the letter has that error already
            return short_repr(window)

    # Outputs

    def _act(self, result: TriggerResult, window: Window, state_window: Hashable) -> None:
        """Fire and purge as the trigger says."""
        self._current.namespace = state_window
        if result.is_fire():
            self._fire(window)
        if result.is_purge():
            self._contents.clear()

    def _apply(self, window: Window, contents: Sequence[Any]) -> None:
        """Apply the function, and collect all that it returns while its window is current."""
        state_window = self._current.namespace
        self._current.namespace = self._to_namespace(window)
        self._function_context.current_window = window
        results = self._function.process(self._key, self._function_context, contents)
        if results is not None:
            check_results(results, self._givers)
            self._emit(window, results)
        self._current.namespace = state_window  # an evictor goes on with the contents

    def _emit(self, window: Window, results: Iterable[Any]) -> None:
        """Collect the results of the function; a generator runs here."""
        for result in results:
            if result.__class__ is tuple and result and result[0].__class__ is OutputTag:
                given = (result[0], *map(as_given, result[1:]))
            elif self._collect is None:
                given = as_given(result)
            else:
                given = self._collect(self._key(), window, as_given(result))
            self._outputs.append(given)

    def _collect_outputs(self) -> list[Any] | None:
        """Return the outputs of the call, or None."""
        return self._outputs or None


# Settings that a restart must not change


_BY_END, _BY_TIMES_OF_THE_CLOCK = "its end", "times of the clock"
_BY_OTHERS = "its elements, or times of its trigger's own"
_UNFIRED = "windows that are open would end without firing: keep the former trigger"


def _settings_of(declared: WindowDeclaration) -> list[Setting]:
    """Return the settings of windows that a restart must not change, without their contents'."""
    settings = [_describe_firing(declared)]
    fixed = declared.assigner.fixed()
    if fixed is not None:
        settings.append(make_windows_setting(fixed))
    return settings


def _describe_firing(declared: WindowDeclaration) -> Setting:
    """Return the way in which windows fire, as a setting.

    A trigger that waits for a timer works after a restart only if the former trigger registered it.
    """
    trigger = declared.trigger
    while isinstance(trigger, PurgingTrigger):
        trigger = trigger.nested_trigger
    by, needed, remedy = _BY_OTHERS, False, f"{_UNFIRED}, or begin a new checkpoint"
    if isinstance(trigger, (EventTimeTrigger, ContinuousEventTimeTrigger)):
        # Without a lateness, the timer that frees the window is also at its end, with any trigger.
        by, needed = _BY_END, declared.allowed_lateness > 0
        remedy = f"{_UNFIRED}, allow no lateness, or begin a new checkpoint"
    elif isinstance(trigger, (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger)):
        # Windows of processing time have timers of the clock with any trigger.
        by, needed = _BY_TIMES_OF_THE_CLOCK, declared.assigner.is_event_time()
    accepts = () if needed else (_BY_END, _BY_TIMES_OF_THE_CLOCK, _BY_OTHERS)
    return Setting("what fires a window", by, accepts, remedy)


# Contexts of triggers, assigners, evictors and functions
#
# One object of each serves all calls.  Before a call the task sets the window that it is about.


S = TypeVar("S")


class WindowTaskContext(
    Trigger.OnMergeContext, Evictor.EvictorContext, WindowAssigner.WindowAssignerContext
):
    """The context of triggers, evictors and assigners.

    The current namespace is the window of the trigger; an assigner needs none.

    Args:
        context: The context of the operator.
    """

    def __init__(self, context: NamespacedRuntimeContext) -> None:
        self._context = context
        self._timers = context.timers
        self._states: dict[str, tuple[StateDescriptor, Any]] = {}
        self.merged: Sequence[Hashable] = ()
        """The namespaces of the windows that became one, in `on_merge`."""

    def get_runtime_context(self) -> RuntimeContext:
        """Return the context of the operator."""
        return self._context

    def get_current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._timers.current_processing_time()

    def get_current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._timers.current_watermark()

    def get_metric_group(self) -> MetricGroup:
        """Return the operator's metric group."""
        return self._context.get_metrics_group()

    def register_processing_time_timer(self, time: int) -> None:
        """Register a timer of the window."""
        self._timers.register_processing_time_timer(time)

    def register_event_time_timer(self, time: int) -> None:
        """Register a timer of the window."""
        self._timers.register_event_time_timer(time)

    def delete_processing_time_timer(self, time: int) -> None:
        """Delete a timer of the window."""
        self._timers.delete_processing_time_timer(time)

    def delete_event_time_timer(self, time: int) -> None:
        """Delete a timer of the window."""
        self._timers.delete_event_time_timer(time)

    def list_processing_time_timers(self) -> list[int]:
        """Return the times in ms of the window's processing-time timers, ascending."""
        return self._timers.list_processing_time_timers()

    def list_event_time_timers(self) -> list[int]:
        """Return the times in ms of the window's event-time timers, ascending."""
        return self._timers.list_event_time_timers()

    def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
        """Return the trigger's state of the window."""
        known = self._states.get(state_descriptor.name)
        if known is not None and known[0] is state_descriptor:
            state: S = known[1]
            return state
        state = self._context.get_partitioned_state(
            _state_name_of(state_descriptor), state_descriptor
        )
        self._states[state_descriptor.name] = state_descriptor, state
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merge the state of the old windows into the state of the new one."""
        self.get_partitioned_state(state_descriptor)
        target = self._context.current.namespace
        self._context.merge_namespaces(_state_name_of(state_descriptor), target, self.merged)


def _state_name_of(state_descriptor: StateDescriptor) -> str:
    """Name a trigger's state apart from all other states."""
    return f"trigger:{state_descriptor.name}"


class FunctionContext(ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    """The context of a window function; the current namespace is its window.

    Args:
        context: The context of the operator.
        merging: True if windows merge.
    """

    def __init__(self, context: NamespacedRuntimeContext, *, merging: bool) -> None:
        self._context = context
        self._window_state = _WindowState(context, merging=merging)
        self.current_window: Any = None
        """The window that the call is about."""

    def window(self) -> Any:
        """Return the window."""
        return self.current_window

    def current_processing_time(self) -> int:
        """Return the processing time in ms."""
        return self._context.timers.current_processing_time()

    def current_watermark(self) -> int:
        """Return the watermark in ms."""
        return self._context.timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        """Return the states of this key and window."""
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        """Return the states of this key."""
        return self._context


class _WindowState(KeyedStateStore):
    """The states of the current key and window; one getter serves all kinds."""

    def __init__(self, context: NamespacedRuntimeContext, *, merging: bool) -> None:
        self._context = context
        self._merging = merging

    def _get(self, state_descriptor: Any) -> Any:
        if self._merging:
            msg = (
                "Per-window state is not allowed when using merging windows, got "
                f"{short_repr(state_descriptor)}; use global_state()"
            )
            raise StateAccessError(msg)
        # `get_partitioned_state` looks at the kind of the descriptor, so one getter is enough.
        return self._context.get_partitioned_state(
            f"window:{state_descriptor.name}", state_descriptor
        )

    get_state = _get
    get_list_state = _get
    get_map_state = _get
    get_reducing_state = _get
    get_aggregating_state = _get


class WindowEnds:
    """The ends of windows and the timers that wait for them.

    Windows end by event time, with a lateness, or by the clock.

    Args:
        assigner: The assigner of the windows.
        allowed_lateness: The time in ms for which windows of event time stay open beyond their end.
        timers: The timers of the current key and namespace.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        allowed_lateness: int,
        timers: NamespacedTimerService,
    ) -> None:
        self.by_event_time = assigner.is_event_time()
        """Whether windows end by event time."""
        self.lateness = allowed_lateness if self.by_event_time else 0
        """How long windows stay open beyond their end, in ms."""
        self._timers = timers
        self._now = timers.current_processing_time
        self._register = timers.register_processing_time_timer
        self._delete = timers.delete_processing_time_timer
        if self.by_event_time:
            self._now = timers.current_watermark
            self._register = timers.register_event_time_timer
            self._delete = timers.delete_event_time_timer

    def time(self, window: Window) -> int:
        """Return the time in ms at which a window ends and its contents are freed."""
        if not self.lateness:
            return window.max_timestamp()
        return min(window.max_timestamp() + self.lateness, MAX_WATERMARK)

    def is_late(self, window: Window, watermark: int) -> bool:
        """Return whether a window takes no more elements; windows of processing time always do."""
        return self.by_event_time and self.time(window) <= watermark

    def register(self, window: Window) -> None:
        """Register a timer for the end of the current window, unless it never ends."""
        time = self.time(window)
        if time < MAX_WATERMARK:
            self._register(time)

    def is_registered(self, window: Window) -> bool:
        """Return whether a timer of event time waits for the end of the current window."""
        return self._timers.has_event_time_timer(self.time(window))

    def delete(self, window: Window) -> None:
        """Delete the timer that waits for the end of a window."""
        self._delete(self.time(window))

    def refuse_passed(self, window: Window) -> None:
        """Refuse a merged window that is over; only an assigner of the user can make one.

        Raises:
            DeclarationError: The window is over.
        """
        now = self._now()
        if self.time(window) <= now:
            time = "event" if self.by_event_time else "processing"
            msg = (
                f"the end of a window of {time} time must not become earlier than now by merging, "
                f"got {window!r} at {now}; merge into a window that covers all of them"
            )
            raise DeclarationError(msg)
