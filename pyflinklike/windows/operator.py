# SPDX-License-Identifier: Apache-2.0
"""Windows as a function of a keyed stream, which any host runs."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, Final

import attrs

from pyflinklike.api.context import RuntimeContext
from pyflinklike.api.namespaces import NamespacedFunction, NamespacedRuntimeContext
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.api.results import TimedResult
from pyflinklike.clock import TimeDomain
from pyflinklike.functions import AggregateFunction
from pyflinklike.shown import shown
from pyflinklike.types import TypeInformation
from pyflinklike.windows.contents import CONTENTS
from pyflinklike.windows.continuous import ContinuousProcessingTimeTrigger
from pyflinklike.windows.declaration import Collect, WindowDeclaration
from pyflinklike.windows.kinds import TimeWindowSerializer, Window
from pyflinklike.windows.task import WindowTask
from pyflinklike.windows.trigger import Trigger
from pyflinklike.windows.triggers import ProcessingTimeTrigger

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
