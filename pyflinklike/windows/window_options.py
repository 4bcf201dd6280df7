# SPDX-License-Identifier: Apache-2.0
"""The declaration of windows, one call after another, as PyFlink's `WindowedStream`.

The last call returns a `WindowOperator`.  Hosts with streams of their own have the same calls, and
make a stream from the operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import Self
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.state.fold_functions import (
    AggregateFunction,
    Function,
    ReduceFunction,
    adopt,
    as_reduce_function,
    check_methods,
)
from pyflinklike.types import TypeInformation, Types
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

_PICKLED = Types.PICKLED_BYTE_ARRAY()
_KEYED = (WindowFunction, ProcessWindowFunction)
_ALL = (AllWindowFunction, ProcessAllWindowFunction)


def window(
    assigner: WindowAssigner[Any, Any], element_type: TypeInformation | None = None
) -> Windowed:
    """Declare windows over the elements of each key, as `KeyedStream.window` of PyFlink.

    Example:
        ```python
        counts = window(TumblingEventTimeWindows.of(Time.minutes(1))).reduce(Sum("amount"))
        with KeyedProcessHarness(counts, key_selector=lambda row: row.user) as harness:
            harness.process_element(Row(user="ann", amount=3), timestamp=0)
            harness.process_element(Row(user="ann", amount=4), timestamp=30_000)
            assert harness.process_watermark(60_000) == [Row(user="ann", amount=7)]
        ```

    Args:
        assigner: Assigns elements to windows.
        element_type: The type of the elements, for windows that store them; pickled if None.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """
    return Windowed(assigner, element_type)


def window_all(
    assigner: WindowAssigner[Any, Any], element_type: TypeInformation | None = None
) -> Windowed:
    """Declare windows over all elements, as `DataStream.window_all` of PyFlink.

    Give all elements one key.

    Args:
        assigner: Assigns elements to windows.
        element_type: The type of the elements, for windows that store them; pickled if None.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """
    return Windowed(assigner, element_type, keyed=False)


def count_window(
    size: int, slide: int = 0, element_type: TypeInformation | None = None
) -> Windowed:
    """Declare windows of a number of elements of a key, as `KeyedStream.count_window` of PyFlink.

    Args:
        size: The number of elements in a window.
        slide: The number of elements from the first of one window to the first of the next; 0 for
            windows one after another.
        element_type: The type of the elements; pickled if None.

    Raises:
        DeclarationTypeError, DeclarationValueError: A number is not a positive int.
    """
    if slide == 0:
        return window(CountTumblingWindowAssigner(size), element_type)
    return window(CountSlidingWindowAssigner(size, slide), element_type)


class Windowed:
    """Windows without a function yet; the last call declares it.

    Args:
        assigner: Assigns elements to windows.
        element_type: The type of the elements; pickled if None.
        keyed: True if functions get the key.
        env: The environment of a job, which `get_default_trigger` of the assigner gets; None
            elsewhere.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        element_type: TypeInformation | None = None,
        *,
        keyed: bool = True,
        env: Any = None,
    ) -> None:
        assigner = adopt(assigner, WindowAssigner)
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
        """The assigner, which assigns elements to windows."""
        return self._assigner

    # When windows fire, and on which elements

    def trigger(self, trigger: Trigger[Any, Any]) -> Windowed:
        """Say when a window fires, instead of the assigner's default.

        Args:
            trigger: The trigger; it must be able to merge if windows merge.

        Raises:
            DeclarationTypeError: It is not a trigger, or it cannot merge but windows do.
        """
        trigger = adopt(trigger, Trigger)
        _check(trigger, Trigger, "trigger", "for example CountTrigger.of(10)")
        if isinstance(self._assigner, MergingWindowAssigner) and not trigger.can_merge():
            msg = (
                "A merging window assigner cannot be used with a trigger that does not support "
                f"merging, got {trigger!r}; define can_merge and on_merge in it"
            )
            raise DeclarationTypeError(msg)
        self._trigger = check_methods(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Windowed:
        """Remove elements when a window fires; each element is stored until then.

        Args:
            evictor: The evictor, which gets the elements with their event times.

        Raises:
            DeclarationTypeError: It is not an evictor.
        """
        _check(evictor, Evictor, "evictor", "for example CountEvictor.of(10)")
        self._evictor = check_methods(evictor)
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Windowed:
        """Keep windows of event time open for a time beyond their end; 0 by default.

        Args:
            time_ms: The time: an int of ms, a `Time`, `Duration` or `timedelta`.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is of another type, or negative.
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

        Args:
            output_tag: The tag of the side output.

        Raises:
            DeclarationTypeError: It is not an output tag.
        """
        _check(output_tag, OutputTag, "side_output_late_data", 'for example OutputTag("late")')
        self._late_data_tag = output_tag
        return self

    # The function of the windows

    def reduce(
        self,
        reduce_function: ReduceFunction | Callable[[Any, Any], Any],
        window_function: Any = None,
    ) -> WindowOperator:
        """Reduce the elements of a window to one of their kind, as they come.

        Args:
            reduce_function: Reduces two elements to one.
            window_function: Makes outputs from the result; None if the result is the output.

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
            aggregate_function: Adds an element to the accumulator, and makes the result from it.
            window_function: Makes outputs from the result; None if the result is the output.
            accumulator_type: The type of the accumulator; pickled if None, a row for a list.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        remedy = "subclass it, with create_accumulator, add, get_result and merge"
        _check(aggregate_function, AggregateFunction, "aggregate", remedy)
        _check_plain(check_methods(aggregate_function), "an AggregateFunction")
        if isinstance(accumulator_type, list):
            accumulator_type = Types.ROW(accumulator_type)
        kind = _PICKLED if accumulator_type is None else accumulator_type
        _check(kind, TypeInformation, "accumulator_type", "for example Types.LONG()")
        contents = Aggregated(aggregate_function, kind, self._element_type)
        return self._operator(contents, window_function)

    def apply(self, window_function: Any) -> WindowOperator:
        """Make outputs from all elements of a window, with a `WindowFunction`.

        Args:
            window_function: The function; without keys an `AllWindowFunction`.

        Raises:
            DeclarationTypeError: It is not such a function.
        """
        return self._whole(window_function, self._functions[:1])

    def process(self, process_window_function: Any) -> WindowOperator:
        """Make outputs from all elements of a window, with a `ProcessWindowFunction`.

        Args:
            process_window_function: The function; without keys a `ProcessAllWindowFunction`.

        Raises:
            DeclarationTypeError: It is not such a function.
        """
        return self._whole(process_window_function, self._functions[1:])

    def _whole(self, function: Any, kinds: tuple[type, ...]) -> WindowOperator:
        function = adopt(function, kinds[0])
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
    """The options of windows that Spark's streams and PyFlink's share.

    Each method changes the stream and returns it.
    """

    _windowed: Windowed

    def trigger(self, trigger: Trigger[Any, Any]) -> Self:
        """Say when a window fires, instead of the assigner's default.

        Args:
            trigger: The trigger; it must be able to merge if windows merge.

        Raises:
            DeclarationTypeError: It is not a trigger, or it cannot merge but windows do.
        """
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Self:
        """Remove elements when a window fires; each element is stored until then.

        PyFlink has no evictors, but Flink's Java API does.

        Args:
            evictor: The evictor, which gets the elements with their event times.

        Raises:
            DeclarationTypeError: It is not an evictor.
        """
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Self:
        """Keep windows of event time open for a time beyond their end; 0 by default.

        Args:
            time_ms: The time: an int of ms, a `Time`, `Duration` or `timedelta`.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is of another type, or negative.
        """
        self._windowed.allowed_lateness(time_ms)
        return self


class LateDataOption(WindowOptions):
    """The options of windows over one stream, whose late elements go to one side output."""

    def side_output_late_data(self, output_tag: OutputTag) -> Self:
        """Send elements that come too late for all their windows to a side output, unchanged.

        Without this they are dropped, and the metric `numLateRecordsDropped` counts them.

        Args:
            output_tag: The tag of the side output.  Over DataFrames the type of the records
                replaces its type.

        Raises:
            DeclarationTypeError: It is not an output tag.
        """
        self._windowed.side_output_late_data(output_tag)
        return self


def _default_trigger(assigner: WindowAssigner[Any, Any], env: Any) -> Trigger[Any, Any]:
    """Ask an assigner for its default trigger, with the environment if it takes one.

    Raises:
        DeclarationTypeError: It does not return a trigger.
    """
    ask: Callable[..., Any] = assigner.get_default_trigger
    # PyFlink's assigners must take the environment; assigners of users often leave it out.
    try:
        inspect.signature(ask).bind(env)
    except TypeError:
        given = ask()
    else:
        given = ask(env)
    given = adopt(given, Trigger)
    if not isinstance(given, Trigger):
        remedy = instance_of(Trigger, given, "return for example CountTrigger.of(10)")
        name = type(assigner).__name__
        msg = f"get_default_trigger of {name} must return a Trigger, got {short_repr(given)}; {remedy}"
        raise DeclarationTypeError(msg)
    return given


def _check_plain(function: Any, kind: str) -> None:
    """Refuse a function that has `open` or `close`, which Flink's windows do not call.

    Raises:
        DeclarationTypeError: It has one of them.
    """
    own = [each for each in ("open", "close") if _has_own(function, each)]
    if own:
        msg = (
            f"{kind} of windows gets elements only and cannot have open or close, got "
            f"{short_repr(function)} with {' and '.join(own)}; do that in the window_function"
        )
        raise DeclarationTypeError(msg)


def _has_own(function: Any, method: str) -> bool:
    if not isinstance(function, Function):
        return False
    return getattr(type(function), method) is not getattr(Function, method)


def _check(given: Any, kind: type, what: str, example: str) -> None:
    """Refuse an argument that is not of a kind."""
    if not isinstance(given, kind):
        msg = f"{what} takes a {kind.__name__}, got {short_repr(given)}; {instance_of(kind, given, example)}"
        raise DeclarationTypeError(msg)
