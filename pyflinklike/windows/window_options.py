# SPDX-License-Identifier: Apache-2.0
"""How a user says what windows do, one call after another, as PyFlink's `WindowedStream`.

What that comes to is a `WindowOperator`.  A host with streams of its own has these calls, too, and
makes a stream of the operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.clock import DurationLike, to_milliseconds
from pyflinklike.engine.functions import (
    AggregateFunction,
    Function,
    ReduceFunction,
    as_reduce_function,
)
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.engine.type_vars import Self
from pyflinklike.engine.types import TypeInformation, Types
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    MergingWindowAssigner,
    WindowAssigner,
)
from pyflinklike.windows.evictors import Evictor
from pyflinklike.windows.triggers import Trigger
from pyflinklike.windows.window_contents import (
    Aggregated,
    Contents,
    Gathered,
    Reduced,
    WindowDeclaration,
)
from pyflinklike.windows.window_functions import (
    AllWindowFunction,
    AppliedFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.window_operator import WindowOperator

__all__ = [
    "LateDataOption",
    "WindowOptions",
    "Windowed",
    "count_window",
    "window",
    "window_all",
]

_PICKLED = Types.PICKLED_BYTE_ARRAY()
_KEYED = (WindowFunction, ProcessWindowFunction)
_ALL = (AllWindowFunction, ProcessAllWindowFunction)


def window(
    assigner: WindowAssigner[Any, Any], element_type: TypeInformation | None = None
) -> Windowed:
    """Windows over the elements of each key, as `KeyedStream.window` of PyFlink.

        counts = window(TumblingEventTimeWindows.of(Time.minutes(1))).aggregate(Count())
        with KeyedProcessHarness(counts, key_selector=lambda click: click.user) as harness:
            ...

    Args:
        assigner: Says in which windows an element is.
        element_type: Of the elements, for windows that keep them; pickled where it is not given.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """
    return Windowed(assigner, element_type)


def window_all(
    assigner: WindowAssigner[Any, Any], element_type: TypeInformation | None = None
) -> Windowed:
    """Windows over all elements, as `DataStream.window_all` of PyFlink; give them all one key.

    Args:
        assigner: As of `window`.
        element_type: Likewise.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """
    return Windowed(assigner, element_type, keyed=False)


def count_window(
    size: int, slide: int = 0, element_type: TypeInformation | None = None
) -> Windowed:
    """Windows of so many elements of a key, as `KeyedStream.count_window` of PyFlink.

    Args:
        size: How many elements a window has.
        slide: At every which element a window begins; 0 is one after another.
        element_type: As of `window`.

    Raises:
        DeclarationTypeError, DeclarationValueError: A number is no positive int.
    """
    if slide == 0:
        return window(CountTumblingWindowAssigner(size), element_type)
    return window(CountSlidingWindowAssigner(size, slide), element_type)


class Windowed:
    """Windows of which it is yet to be said what they do.

    Args:
        assigner: Says in which windows an element is.
        element_type: Of the elements; pickled if None.
        keyed: Whether functions get the key.
        env: What the assigner is given when it is asked for its default trigger: the environment of
            a job, None elsewhere.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        element_type: TypeInformation | None = None,
        *,
        keyed: bool = True,
        env: Any = None,
    ) -> None:
        _check(assigner, WindowAssigner, "window", "for example TumblingEventTimeWindows.of(1000)")
        if element_type is not None:
            _check(element_type, TypeInformation, "element_type", "for example Types.LONG()")
        self._assigner, self._element_type = assigner, element_type or _PICKLED
        self._functions = _KEYED if keyed else _ALL
        self._trigger: Trigger[Any, Any]
        self.trigger(_default_trigger(assigner, env))
        self._evictor: Evictor[Any, Any] | None = None
        self._allowed_lateness = 0
        self._late_data_tag: OutputTag | None = None

    @property
    def assigner(self) -> WindowAssigner[Any, Any]:
        """What says in which windows an element is."""
        return self._assigner

    # When they fire, and on what

    def trigger(self, trigger: Trigger[Any, Any]) -> Windowed:
        """Say when a window fires, instead of the assigner's default.

        Raises:
            DeclarationTypeError: It is no trigger, or cannot merge where windows do.
        """
        _check(trigger, Trigger, "trigger", "for example CountTrigger.of(10)")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            msg = (
                "A merging window assigner cannot be used with a trigger that does not support "
                f"merging, got {trigger!r}; define can_merge and on_merge in it"
            )
            raise DeclarationTypeError(msg)
        self._trigger = trigger
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Windowed:
        """Remove elements when a window fires; every element is kept then.

        Raises:
            DeclarationTypeError: It is no evictor.
        """
        _check(evictor, Evictor, "evictor", "for example CountEvictor.of(10)")
        self._evictor = evictor
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Windowed:
        """Keep windows of event time open for so long behind their end; 0 if it is not said.

        Args:
            time_ms: An int of ms, a `Time`, `Duration` or `timedelta`.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is none of these, or negative.
        """
        lateness = to_milliseconds(time_ms, "allowed_lateness")
        if lateness < 0:
            msg = f"The allowed lateness cannot be negative, got {lateness} ms; give 0 or more"
            raise DeclarationValueError(msg)
        self._allowed_lateness = lateness
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> Windowed:
        """Send elements that come too late for all their windows to a side output.

        Without this they are dropped, and the counter `numLateRecordsDropped` counts them.

        Raises:
            DeclarationTypeError: It is no output tag.
        """
        _check(output_tag, OutputTag, "side_output_late_data", 'for example OutputTag("late")')
        self._late_data_tag = output_tag
        return self

    # What they do

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: Any = None,
    ) -> WindowOperator:
        """Reduce the elements of a window to one of their kind, as they come.

        Args:
            reduce_function: Reduces two to one.
            window_function: Makes outputs of the one; without it that is the output.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        _check_plain(reduce_function, "a ReduceFunction")
        contents = Reduced(as_reduce_function(reduce_function), self._element_type)
        return self._operator(contents, window_function)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: Any = None,
        accumulator_type: TypeInformation | list[TypeInformation] | None = None,
    ) -> WindowOperator:
        """Fold the elements of a window into an accumulator, as they come.

        Args:
            aggregate_function: Folds them.
            window_function: Makes outputs of its result; without it that is the output.
            accumulator_type: Of the accumulator; pickled if None, a row of a list of types.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        remedy = "subclass it, with create_accumulator, add, get_result and merge"
        _check(aggregate_function, AggregateFunction, "aggregate", remedy)
        _check_plain(aggregate_function, "an AggregateFunction")
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        kind = _PICKLED if accumulator_type is None else accumulator_type
        _check(kind, TypeInformation, "accumulator_type", "for example Types.LONG()")
        contents = Aggregated(aggregate_function, kind, self._element_type)
        return self._operator(contents, window_function)

    def apply(self, window_function: Any) -> WindowOperator:
        """Make outputs of all elements of a window, with a `WindowFunction`.

        Raises:
            DeclarationTypeError: It is none.
        """
        return self._whole(window_function, self._functions[:1])

    def process(self, process_window_function: Any) -> WindowOperator:
        """Make outputs of all elements of a window, with a `ProcessWindowFunction`.

        Raises:
            DeclarationTypeError: It is none.
        """
        return self._whole(process_window_function, self._functions[1:])

    def _whole(self, function: Any, kinds: tuple[type, ...]) -> WindowOperator:
        _check(function, kinds[0], "it", "subclass it")
        return self._operator(Gathered(self._element_type), function)

    def _operator(self, contents: Contents, function: Any) -> WindowOperator:
        return WindowOperator(
            WindowDeclaration(
                assigner=self._assigner,
                trigger=self._trigger,
                contents=contents,
                function=AppliedFunction.of(function, self._functions),
                allowed_lateness=self._allowed_lateness,
                late_data_tag=self._late_data_tag,
                evictor=self._evictor,
            )
        )


class WindowOptions:
    """What streams with windows, Spark's and PyFlink's, let a user say of them.

    Each method changes the stream and returns it.
    """

    _windowed: Windowed

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Say when a window fires, instead of the assigner's default.

        Args:
            trigger: Of a kind that can merge, where windows do.

        Raises:
            DeclarationTypeError: It is no trigger, or cannot merge where windows do.
        """
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Remove elements when a window fires, which then keeps every element until its end.

        PyFlink has no evictors; Flink in Java has.

        Args:
            evictor: Is given the elements with their event times.

        Raises:
            DeclarationTypeError: It is no evictor.
        """
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """Keep windows of event time open for a time beyond their end; 0 if this is not called.

        Args:
            time_ms: An int of ms, a `Time`, `Duration` or `timedelta`.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is none of these, or negative.
        """
        self._windowed.allowed_lateness(time_ms)
        return self


class LateDataOption(WindowOptions):
    """The options of windows over one stream, whose late elements go to one side output."""

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send elements that come too late for all their windows to a side output, unchanged.

        Without this they are dropped, and the metric `numLateRecordsDropped` counts them.

        Args:
            output_tag: Over DataFrames its type is not used: it is that of the records.

        Raises:
            DeclarationTypeError: It is no output tag.
        """
        self._windowed.side_output_late_data(output_tag)
        return self


def _default_trigger(assigner: WindowAssigner[Any, Any], env: Any) -> Trigger[Any, Any]:
    """Ask an assigner for its default trigger, with the environment if it takes one, as PyFlink's do.

    Raises:
        DeclarationTypeError: It gives none.
    """
    ask: Callable[..., Any] = assigner.get_default_trigger
    try:
        inspect.signature(ask).bind(env)
    except TypeError:
        given = ask()
    else:
        given = ask(env)
    if not isinstance(given, Trigger):
        remedy = instance_of(Trigger, given, "return for example CountTrigger.of(10)")
        name = type(assigner).__name__
        msg = f"get_default_trigger of {name} must return a Trigger, got {shown(given)}; {remedy}"
        raise DeclarationTypeError(msg)
    return given


def _check_plain(function: Any, kind: str) -> None:
    """Refuse a function that wants to be opened; Flink's windows take no rich ones.

    Raises:
        DeclarationTypeError: It has `open` or `close`.
    """
    own = [each for each in ("open", "close") if _has_own(function, each)]
    if own:
        msg = (
            f"{kind} of windows is given elements only and cannot have open or close, got "
            f"{shown(function)} with {' and '.join(own)}; do that in the window_function"
        )
        raise DeclarationTypeError(msg)


def _has_own(function: Any, method: str) -> bool:
    if not isinstance(function, Function):
        return False
    return getattr(type(function), method) is not getattr(Function, method)


def _check(given: Any, kind: type, what: str, example: str) -> None:
    """Refuse what is not of a kind."""
    if not isinstance(given, kind):
        msg = f"{what} takes a {kind.__name__}, got {shown(given)}; {instance_of(kind, given, example)}"
        raise DeclarationTypeError(msg)
