# SPDX-License-Identifier: Apache-2.0
"""Windows as a function of a keyed stream, which any host runs.

The window operator at work, step by step as Flink's `WindowOperator`.

State and timers of a window are those of the pair of key and window.  Contents of windows that
merge are those of a pair with their state window; the trigger's state is always that of the
window itself.

What triggers, assigners, evictors and functions of windows are handed.

One object of each serves all calls.  The task says before a call which window it is about.

When windows end for good, and the timers that tell.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from types import FrameType
from typing import Any, Final, TypeVar

import attrs

from pyflinklike.engine.api.contexts import (
    KeyedStateStore,
    NamespacedRuntimeContext,
    NamespacedTimerService,
    RuntimeContext,
)
from pyflinklike.engine.api.metric_group import MetricGroup
from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.api.process_functions import (
    KeyedProcessFunction,
    NamespacedFunction,
    TimedResult,
    check_results,
)
from pyflinklike.engine.clock import MAX_WATERMARK, TimeDomain
from pyflinklike.engine.functions import AggregateFunction
from pyflinklike.engine.shown import shown
from pyflinklike.engine.state.descriptors import StateDescriptor
from pyflinklike.engine.state.table import Setting
from pyflinklike.engine.types import TypeInformation
from pyflinklike.engine.types.copies import as_given
from pyflinklike.errors import DeclarationError, StateAccessError
from pyflinklike.windows.assigners import WindowAssigner, fixed_windows, kind_of
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
from pyflinklike.windows.window_contents import CONTENTS, Collect, Kept, WindowDeclaration
from pyflinklike.windows.window_functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflinklike.windows.window_kinds import TimeWindowSerializer, Window

__all__ = ["WindowOperator"]


_OURS: Final = f"{__name__.partition('.')[0]}."
_BY_CLOCK = (ProcessingTimeTrigger, ContinuousProcessingTimeTrigger)


class WindowOperator(NamespacedFunction):
    """Windows over the elements of each key, as a `KeyedProcessFunction`.

    `pyflinklike.windows.window(...)` makes it.  It runs wherever such a function runs: in a
    `KeyedProcessHarness`, and on a Spark stream or batch through `key_by(df, ...).process(...)`.

    Args:
        declared: What the user said.
    """

    def __init__(self, declared: WindowDeclaration) -> None:
        self.declared = declared
        self._task: WindowTask | None = None
        self._uid = ""

    hidden_state = CONTENTS

    @property
    def namespace_type(self) -> TypeInformation:  # type: ignore[override]
        """Of the windows."""
        return self.declared.assigner.get_window_serializer().type_info

    @property
    def functions(self) -> tuple[object, ...]:
        """The user's: that which folds the elements, and that which makes outputs of a window."""
        found = getattr(self.declared.contents, "function", None), self.declared.function.function
        return tuple(each for each in found if each is not None)

    def collecting(self, collect: Collect) -> WindowOperator:
        """The same with other outputs: what `collect` makes of key, window and each result.

        Args:
            collect: It must be picklable where the host is a cluster.
        """
        return WindowOperator(attrs.evolve(self.declared, collect=collect))

    def timed(self) -> WindowOperator:
        """The same, whose results have the window's `max_timestamp()` as their time, as in Flink.

        For a host that keeps the times of outputs: each result is a `TimedResult`.
        """
        return self.collecting(_at_its_end)

    def giving_late(self, late_output: Callable[[Any], Any]) -> WindowOperator:
        """The same with other late data: what `late_output` makes of an element, None to count it.

        Args:
            late_output: It must be picklable where the host is a cluster.
        """
        return WindowOperator(attrs.evolve(self.declared, late_output=late_output))

    def uses_processing_timers(self, registers: Callable[[object], bool]) -> bool:
        """Whether its windows end by the clock, or its trigger may register such timers.

        Args:
            registers: Tells it of a user's trigger by the code of its class.
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
        """Put an element into its windows; the outputs of those that fire."""
        assert self._task is not None
        return self._task.process_element(value, ctx.timestamp(), ctx.get_current_key)

    def on_timer(
        self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext
    ) -> Iterable[Any] | None:
        """A window fires, or ends; the outputs."""
        assert self._task is not None
        is_event = ctx.time_domain() is TimeDomain.EVENT_TIME
        return self._task.on_timer(timestamp, is_event=is_event, key=ctx.get_current_key)

    # Messages

    def called(self) -> str:
        """By the user's function of windows, else that which folds, else the assigner."""
        return _name_of(next(reversed(self.functions), self.declared.assigner))

    def failed_call(self, error: BaseException, method: str) -> tuple[str, str]:
        """The user's method that raised, and the window and the uid, as the traceback has them."""
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        tasks = [each for each in frames if isinstance(each.f_locals.get("self"), WindowTask)]
        windows = [each.f_locals.get("window") for each in tasks]
        window = next((each for each in reversed(windows) if isinstance(each, Window)), None)
        place = "" if window is None else f"window {shown(window)}, "
        return _call_in(frames) or self._own_call(tasks, method), f"{place}uid {self._uid!r}"

    def _own_call(self, tasks: Iterable[FrameType], method: str) -> str:
        """The call whose result we refused."""
        applies = any(each.f_code is WindowTask._apply.__code__ for each in tasks)
        fold = getattr(self.declared.contents, "function", None)
        if applies and self.declared.function.function is not None:
            return self.declared.function.call()
        if fold is None:
            return f"{self.called()}.{method}"
        return f"{_name_of(fold)}.{'add' if isinstance(fold, AggregateFunction) else 'reduce'}"

    def __getstate__(self) -> dict[str, Any]:
        return {"declared": self.declared, "_task": None, "_uid": ""}

    def __repr__(self) -> str:
        return f"WindowOperator({self.declared!r})"


def _at_its_end(_: Any, window: Window, result: Any) -> TimedResult:
    return TimedResult(result, window.max_timestamp())


def _name_of(function: object) -> str:
    """The user's class, or function, that one of ours may wrap."""
    while type(function).__module__.startswith(_OURS):
        inner = vars(function).get("_function") if hasattr(function, "__dict__") else None
        inner = inner if inner is not None else getattr(function, "_func", None)
        if inner is None:
            break
        function = inner
    return getattr(function, "__qualname__", type(function).__qualname__)


def _call_in(frames: Iterable[FrameType]) -> str:
    """The first call of code that is not ours, by class and method; "" if there is none."""
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
    """A trigger, and those that are within it."""
    nested = [each for each in vars(trigger).values() if isinstance(each, Trigger)]
    return [trigger, *(inner for each in nested for inner in _with_nested(each))]


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


_BY_END, _BY_TIMES_OF_THE_CLOCK = "its end", "times of the clock"
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
        by, needed = _BY_TIMES_OF_THE_CLOCK, declared.assigner.is_event_time()
    accepts = () if needed else (_BY_END, _BY_TIMES_OF_THE_CLOCK, _BY_OTHERS)
    return Setting("what fires a window", by, accepts, remedy)


S = TypeVar("S")


class AssignerContext(WindowAssigner.WindowAssignerContext):
    """For an assigner.

    Args:
        context: Of the operator.
    """

    def __init__(self, context: NamespacedRuntimeContext) -> None:
        self._context = context

    def get_current_processing_time(self) -> int:
        """The processing time in ms."""
        return self._context.timers.current_processing_time()

    def get_runtime_context(self) -> RuntimeContext:
        """Where the operator runs."""
        return self._context


class TaskTriggerContext(Trigger.OnMergeContext, Evictor.EvictorContext):
    """For a trigger or an evictor; the current namespace is the trigger's window.

    Args:
        context: Of the operator.
    """

    def __init__(self, context: NamespacedRuntimeContext) -> None:
        self._context = context
        self._timers = context.timers
        self._states: dict[str, tuple[StateDescriptor, Any]] = {}
        self.merged: Sequence[Hashable] = ()
        """The namespaces of the windows that became one, in `on_merge`."""

    def get_current_processing_time(self) -> int:
        """The processing time in ms."""
        return self._timers.current_processing_time()

    def get_current_watermark(self) -> int:
        """The watermark in ms."""
        return self._timers.current_watermark()

    def get_metric_group(self) -> MetricGroup:
        """The operator's."""
        return self._context.get_metrics_group()

    def register_processing_time_timer(self, time: int) -> None:
        """A timer of the window."""
        self._timers.register_processing_time_timer(time)

    def register_event_time_timer(self, time: int) -> None:
        """A timer of the window."""
        self._timers.register_event_time_timer(time)

    def delete_processing_time_timer(self, time: int) -> None:
        """A timer of the window."""
        self._timers.delete_processing_time_timer(time)

    def delete_event_time_timer(self, time: int) -> None:
        """A timer of the window."""
        self._timers.delete_event_time_timer(time)

    def get_partitioned_state(self, state_descriptor: StateDescriptor[S]) -> S:
        """The trigger's state of the window."""
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
        """The state of the merged windows becomes that of the new one."""
        self.get_partitioned_state(state_descriptor)
        target = self._context.current.namespace
        self._context.merge_namespaces(_state_name_of(state_descriptor), target, self.merged)


def _state_name_of(state_descriptor: StateDescriptor) -> str:
    """The name of a trigger's state, which is no other state's."""
    return f"trigger:{state_descriptor.name}"


class FunctionContext(ProcessWindowFunction.Context, ProcessAllWindowFunction.Context):
    """For a function of windows; the current namespace is its window.

    Args:
        context: Of the operator.
        merging: Whether windows merge.
    """

    def __init__(self, context: NamespacedRuntimeContext, *, merging: bool) -> None:
        self._context = context
        self._window_state = _WindowState(context, merging=merging)
        self.current_window: Any = None
        """The window that the call is about."""

    def window(self) -> Any:
        """The window."""
        return self.current_window

    def current_processing_time(self) -> int:
        """The processing time in ms."""
        return self._context.timers.current_processing_time()

    def current_watermark(self) -> int:
        """The watermark in ms."""
        return self._context.timers.current_watermark()

    def window_state(self) -> KeyedStateStore:
        """State of this key and window."""
        return self._window_state

    def global_state(self) -> KeyedStateStore:
        """State of this key."""
        return self._context


class _WindowState(KeyedStateStore):
    """State of the current key and window; all getters are one."""

    def __init__(self, context: NamespacedRuntimeContext, *, merging: bool) -> None:
        self._context = context
        self._merging = merging

    def _get(self, state_descriptor: Any) -> Any:
        if self._merging:
            msg = (
                "Per-window state is not allowed when using merging windows, got "
                f"{shown(state_descriptor)}; use global_state()"
            )
            raise StateAccessError(msg)
        # The getter of its kind refuses what is no descriptor of that kind.
        return self._context.get_partitioned_state(
            f"window:{state_descriptor.name}", state_descriptor
        )

    get_state = _get
    get_list_state = _get
    get_map_state = _get
    get_reducing_state = _get
    get_aggregating_state = _get


class WindowEnds:
    """The ends of windows, by event time with a lateness, or by the clock.

    Args:
        assigner: Of the windows.
        allowed_lateness: How long windows of event time are open beyond their end, in ms.
        timers: Of the current key and namespace.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        allowed_lateness: int,
        timers: NamespacedTimerService,
    ) -> None:
        self.by_event_time = assigner.is_event_time()
        """Whether they end by event time."""
        self.lateness = allowed_lateness if self.by_event_time else 0
        """How long they are open beyond their end, in ms."""
        self._timers = timers
        self._now = timers.current_processing_time
        self._register = timers.register_processing_time_timer
        self._delete = timers.delete_processing_time_timer
        if self.by_event_time:
            self._now = timers.current_watermark
            self._register = timers.register_event_time_timer
            self._delete = timers.delete_event_time_timer

    def time(self, window: Window) -> int:
        """When a window ends, in ms: its contents are freed then."""
        if not self.lateness:
            return window.max_timestamp()
        return min(window.max_timestamp() + self.lateness, MAX_WATERMARK)

    def is_late(self, window: Window, watermark: int) -> bool:
        """Whether a window is over for elements to come; by the clock it never is."""
        return self.by_event_time and self.time(window) <= watermark

    def register(self, window: Window) -> None:
        """Have a timer tell when a window, the current one, ends; none tells of the end of time."""
        time = self.time(window)
        if time < MAX_WATERMARK:
            self._register(time)

    def is_registered(self, window: Window) -> bool:
        """Whether a timer of event time tells when a window, the current one, ends."""
        return self._timers.has_event_time_timer(self.time(window))

    def delete(self, window: Window) -> None:
        """Forget that timer."""
        self._delete(self.time(window))

    def refuse_passed(self, window: Window) -> None:
        """Refuse what no assigner of ours does: a merged window that is over.

        Raises:
            DeclarationError: It is.
        """
        now = self._now()
        if self.time(window) <= now:
            time = "event" if self.by_event_time else "processing"
            msg = (
                f"the end of a window of {time} time must not become earlier than now by merging, "
                f"got {window!r} at {now}; merge into a window that covers all of them"
            )
            raise DeclarationError(msg)
