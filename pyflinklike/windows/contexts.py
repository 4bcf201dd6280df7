# SPDX-License-Identifier: Apache-2.0
"""What triggers, assigners, evictors and functions of windows are handed.

One object of each serves all calls.  The task says before a call which window it is about.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

from pyflinklike.api.context import KeyedStateStore, RuntimeContext
from pyflinklike.api.metrics import MetricGroup
from pyflinklike.api.namespaces import NamespacedRuntimeContext
from pyflinklike.errors import StateAccessError
from pyflinklike.shown import shown
from pyflinklike.state.descriptors import StateDescriptor
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.evictor import Evictor
from pyflinklike.windows.functions import ProcessAllWindowFunction, ProcessWindowFunction
from pyflinklike.windows.trigger import Trigger

__all__ = ["AssignerContext", "FunctionContext", "TaskTriggerContext"]

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
        state = self._context.get_partitioned_state(_name_of(state_descriptor), state_descriptor)
        self._states[state_descriptor.name] = state_descriptor, state
        return state

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """The state of the merged windows becomes that of the new one."""
        self.get_partitioned_state(state_descriptor)
        target = self._context.current.namespace
        self._context.merge_namespaces(_name_of(state_descriptor), target, self.merged)


def _name_of(state_descriptor: StateDescriptor) -> str:
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
