# SPDX-License-Identifier: Apache-2.0
"""Joins of two keyed DataFrames: by an interval of time, within windows, and as groups of a window.

    a.interval_join(b).between(lower, upper).process(function, ...)
    a.join(b).window(assigner).apply(function, ...)
    a.co_group(b).window(assigner).apply(function, ...)

`pyflinklike.joins` has the joins themselves; this module declares and checks them.  As in Flink,
both inputs of a window join become one stream of tagged elements, with the same windows as any
other stream.  Each join can send the late records of either input to a side output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
from pyspark.sql import DataFrame

from pyflinklike._checks import warn_of_short
from pyflinklike._clock import DurationLike, to_milliseconds
from pyflinklike._messages import instance_of, short_repr
from pyflinklike._type_vars import Unpack
from pyflinklike.aggregations._element_types import element_type
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.joins.interval_joiner import IntervalJoin, JoinBounds
from pyflinklike.joins.join_functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from pyflinklike.joins.window_joiner import CoGrouping, JoinedGroups, LateByInput, TaggedTypeInfo
from pyflinklike.spark._api.connected_data_frames import KeyedConnectedDataFrames, connect
from pyflinklike.spark._api.inputs import InputOf
from pyflinklike.spark._plan.process_options import (
    CommonOptions,
    EventTimes,
    ProcessOptions,
)
from pyflinklike.state.fold_functions import check_call, check_methods
from pyflinklike.windows._spark import WindowResult
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.window_options import Windowed, WindowOptions

J = TypeVar("J", bound="JoinedLate")


class JoinedLate:
    """The side outputs of records that come too late for a join; its methods change and return it.

    Without a side output, late records are dropped, and the metric `numLateRecordsDropped` counts
    them.
    """

    def __init__(self) -> None:
        self._late: list[OutputTag | None] = [None, None]

    def side_output_left_late_data(self: J, output_tag: OutputTag) -> J:
        """Send the late records of the first DataFrame to a side output.

        Args:
            output_tag: The tag of the side output, whose type is the type of the records.

        Raises:
            DeclarationTypeError: It is not an `OutputTag`.
        """
        self._late[0] = _check_tag(output_tag)
        return self

    def side_output_right_late_data(self: J, output_tag: OutputTag) -> J:
        """Send the late records of the second DataFrame to a side output.

        Args:
            output_tag: Another tag than the one for the first DataFrame; its type is the type of
                the records.

        Raises:
            DeclarationTypeError: It is not an `OutputTag`.
        """
        self._late[1] = _check_tag(output_tag)
        return self


class _Windowed(WindowOptions, JoinedLate):
    """Two keyed DataFrames in common windows; the methods that set options return it.

    Assigners, triggers and evictors see an element as a pair of the number of its input, 1 or 2,
    and the record.
    """

    def __init__(
        self, first: InputOf, second: InputOf, assigner: WindowAssigner[Any, Any], name: str
    ) -> None:
        super().__init__()
        self._first, self._second, self._name = first, second, name
        kinds = (
            element_type(each.element_schema(), each.time_zone)
            for each in (first(ProcessOptions()), second(ProcessOptions()))
        )
        self._windowed = Windowed(assigner, TaggedTypeInfo(*kinds))
        warn_of_short(assigner)

    def _apply(
        self,
        function: CoGroupFunction,
        output_type: Any,
        event_time: EventTimes | None,
        options: CommonOptions,
    ) -> DataFrame:
        given = attrs.evolve(ProcessOptions.of(options, CommonOptions), event_time=event_time)
        source = connect(self._first, self._second, given)
        late = LateByInput((self._late[0], self._late[1]))
        operator = self._windowed.process(CoGrouping(function)).giving_late(late)
        name = f"{self._name}In{type(operator.declared.assigner).__name__}"
        result = WindowResult.of(source, operator, output_type, name)
        schemas = [each.element_schema() for each in (source.first, source.second)]
        sides = _with_late_outputs((), self._late, schemas)
        return result.over(source, source.df.schema, attrs.evolve(given, side_outputs=sides))


class JoinedDataFrames:
    """Two keyed DataFrames to join within windows; `KeyedDataFrame.join` makes it."""

    def __init__(self, first: InputOf, second: InputOf, how: str) -> None:
        KeyedConnectedDataFrames(first, second)  # checks the two inputs
        self._inputs, self._how = (first, second), _kind_of_join(how)

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedJoin:
        """Set the windows; records of one key in the same window are pairs.

        Args:
            assigner: The assigner; it gets pairs of the number of an input, 1 or 2, and a record.

        Raises:
            DeclarationTypeError: It is not an assigner.
        """
        return WindowedJoin(*self._inputs, assigner, self._how)


class WindowedJoin(_Windowed):
    """A join within windows; `apply` makes outputs of its pairs."""

    def __init__(
        self, first: InputOf, second: InputOf, assigner: WindowAssigner[Any, Any], how: str
    ) -> None:
        super().__init__(first, second, assigner, "Join")
        self._how = how

    def apply(
        self,
        function: JoinFunction | FlatJoinFunction | Callable[[Any, Any], Any],
        output_type: Any,
        *,
        event_time: EventTimes | None = None,
        **options: Unpack[CommonOptions],
    ) -> DataFrame:
        """Apply a function to every pair of records of one key and window, when the window fires.

        Args:
            function: Makes one output from a pair; a callable of two records does, too.  A
                `FlatJoinFunction` makes any number of outputs.
            output_type: The type of the outputs: DDL, a `StructType` or `Types.ROW_NAMED`.  Before
                its columns the result has the columns of the first input's key and of the window.
            event_time: The timestamp column of both DataFrames, or a pair of names.
            **options: The options of `KeyedDataFrame.process` that every operator has.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        if not isinstance(function, (JoinFunction, FlatJoinFunction)) and not callable(function):
            remedy = instance_of(
                (JoinFunction, FlatJoinFunction), function, "give a function of two"
            )
            msg = f"join takes a JoinFunction or a FlatJoinFunction, got {short_repr(function)}; {remedy}"
            raise DeclarationTypeError(msg)
        # A mistake in its parameters shows here, and not in a task on a worker.
        if callable(function):
            check_call(function, "join", ["first", "second"])
        check_methods(function)
        return self._apply(JoinedGroups(function, self._how), output_type, event_time, options)


class CoGroupedDataFrames:
    """Two keyed DataFrames to group within windows; `KeyedDataFrame.co_group` makes it."""

    def __init__(self, first: InputOf, second: InputOf) -> None:
        KeyedConnectedDataFrames(first, second)  # checks the two inputs
        self._inputs = first, second

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedCoGroup:
        """Set the windows; records of one key in the same window are a group.

        Args:
            assigner: The assigner; it gets pairs of the number of an input, 1 or 2, and a record.

        Raises:
            DeclarationTypeError: It is not an assigner.
        """
        return WindowedCoGroup(*self._inputs, assigner, "CoGroup")


class WindowedCoGroup(_Windowed):
    """Two groups for each key and window; `apply` makes outputs of them."""

    def apply(
        self,
        function: CoGroupFunction,
        output_type: Any,
        *,
        event_time: EventTimes | None = None,
        **options: Unpack[CommonOptions],
    ) -> DataFrame:
        """Apply a function to the records of both inputs of one key and window, when it fires.

        Args:
            function: Gets two lists of records; one of the two may be empty.
            output_type: The type of the outputs, as a join within windows takes it.
            event_time: The timestamp column of both DataFrames, or a pair of names.
            **options: The options of `KeyedDataFrame.process` that every operator has.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        if not isinstance(function, CoGroupFunction):
            remedy = instance_of(CoGroupFunction, function, "subclass it")
            msg = f"co_group takes a CoGroupFunction, got {short_repr(function)}; {remedy}"
            raise DeclarationTypeError(msg)
        return self._apply(check_methods(function), output_type, event_time, options)


_UNBOUNDED = "an interval join needs bounds, got none; call between(lower, upper) first"


class IntervalJoined(JoinedLate):
    """Two keyed DataFrames to join by an interval of time; `KeyedDataFrame.interval_join` makes it.

    The methods to call before `process` change it and return it.
    """

    def __init__(self, first: InputOf, second: InputOf, how: str) -> None:
        super().__init__()
        self._connected = KeyedConnectedDataFrames(first, second)
        self._inputs = first(ProcessOptions()), second(ProcessOptions())
        self._how = _kind_of_join(how)
        self._bounds: tuple[int, int] | None = None
        self._excluded = [0, 0]

    def between(self, lower_bound: DurationLike, upper_bound: DurationLike) -> IntervalJoined:
        """Set how far apart in time two partners may be.

        Args:
            lower_bound: The least difference: the time of a record of the second DataFrame minus
                the time of its partner in the first.  It is a `timedelta`, `Time`, `Duration` or an
                int of ms, often negative, and included unless you call `lower_bound_exclusive`.
            upper_bound: The greatest such difference, included unless you call
                `upper_bound_exclusive`.

        Raises:
            DeclarationTypeError: A bound is of the wrong kind.
        """
        lower = to_milliseconds(lower_bound, "lower_bound")
        self._bounds = lower, to_milliseconds(upper_bound, "upper_bound")
        return self

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Exclude partners at the lower bound."""
        self._excluded[0] = 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Exclude partners at the upper bound."""
        self._excluded[1] = 1
        return self

    def process(
        self,
        process_join_function: ProcessJoinFunction,
        output_type: Any,
        *,
        event_time: EventTimes,
        side_outputs: Iterable[OutputTag] | Mapping[OutputTag, Any] = (),
        output_event_time: str | None = None,
        **options: Unpack[CommonOptions],
    ) -> DataFrame:
        """Apply a function to every pair.

        Args:
            process_join_function: The function, which is pickled to the workers and opened there.
            output_type: The type of its outputs: DDL, a `StructType` or `Types.ROW_NAMED`.
            event_time: The timestamp column of both DataFrames, or a pair of names.
            side_outputs: The tags whose outputs are wanted, without the tags of late records.
            output_event_time: The column of the result that holds its event time.
            **options: The options of `KeyedDataFrame.process` that every operator has.

        Returns:
            The main output; with side outputs, late records included, all outputs.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        _check(process_join_function, event_time)
        first, second = (
            element_type(each.element_schema(), each.time_zone) for each in self._inputs
        )
        join = IntervalJoin(
            process_join_function,
            self._check_bounds(),
            self._how,
            left_type=first,
            right_type=second,
            left_late=self._late[0],
            right_late=self._late[1],
        )
        named: CommonOptions = {**options, "uid": options.get("uid") or "IntervalJoin"}
        return self._connected.process(
            join,
            output_type,
            event_time=event_time,
            side_outputs=_with_late_outputs(
                side_outputs, self._late, [each.element_schema() for each in self._inputs]
            ),
            output_event_time=output_event_time,
            **named,
        )

    def _check_bounds(self) -> JoinBounds:
        if self._bounds is None:
            raise DeclarationValueError(_UNBOUNDED)
        # Times are ints of ms, so an excluded bound is the next one inside.
        lower, upper = self._bounds[0] + self._excluded[0], self._bounds[1] - self._excluded[1]
        if lower > upper:
            msg = (
                f"the lower bound of an interval must not be above the upper one, got {lower} and "
                f"{upper} ms; swap them"
            )
            raise DeclarationValueError(msg)
        return JoinBounds(lower, upper)


def _check(process_join_function: Any, event_time: Any) -> None:
    """Check that a function is a `ProcessJoinFunction`, and that records have times.

    Raises:
        DeclarationTypeError, DeclarationValueError: One of the two is not so.
    """
    if not isinstance(process_join_function, ProcessJoinFunction):
        remedy = instance_of(ProcessJoinFunction, process_join_function, "subclass it")
        msg = f"process takes a ProcessJoinFunction, got {short_repr(process_join_function)}; {remedy}"
        raise DeclarationTypeError(msg)
    check_methods(process_join_function)
    if event_time is None:
        msg = (
            "an interval join needs the times of its records, got event_time=None; name the column"
        )
        raise DeclarationValueError(msg)


_KINDS: Final = {
    "inner": "inner",
    "left": "left_outer",
    "leftouter": "left_outer",
    "right": "right_outer",
    "rightouter": "right_outer",
    "full": "full_outer",
    "outer": "full_outer",
    "fullouter": "full_outer",
}
"""The kind of a join by Spark's names for it, without underscores."""


def _kind_of_join(how: Any) -> str:
    """Return the kind of join for one of Spark's names.

    Raises:
        DeclarationValueError: Joins here do not have that kind.
    """
    kind = _KINDS.get(how.lower().replace("_", "")) if isinstance(how, str) else None
    if kind is None:
        msg = (
            f"how must be 'inner', 'left_outer', 'right_outer' or 'full_outer', got {short_repr(how)}; "
            "for semi and anti joins write a KeyedCoProcessFunction, or use Spark's own join"
        )
        raise DeclarationValueError(msg)
    return kind


def _with_late_outputs(
    declared: Iterable[OutputTag] | Mapping[OutputTag, Any],
    late: Sequence[OutputTag | None],
    schemas: Sequence[Any],
) -> dict[OutputTag, Any]:
    """Add the side outputs of late records, which have the type of the records.

    Args:
        declared: The side outputs that the user declared.
        late: The tag of each input's late records; None without a side output.
        schemas: The columns of each input's records.

    Raises:
        DeclarationValueError: Two side outputs have one tag.
    """
    tags = dict(declared) if isinstance(declared, Mapping) else dict.fromkeys(declared)
    for tag, schema in zip(late, schemas):
        if tag is None:
            continue
        if tag in tags:
            msg = f"side outputs differ by their tags, got {tag.tag_id!r} twice; rename one"
            raise DeclarationValueError(msg)
        tags[tag] = schema
    return tags


def _check_tag(output_tag: Any) -> OutputTag:
    """Return an argument that is an `OutputTag`.

    Raises:
        DeclarationTypeError: It is not an `OutputTag`.
    """
    if not isinstance(output_tag, OutputTag):
        msg = f"a side output needs an OutputTag, got {short_repr(output_tag)}; write OutputTag('late')"
        raise DeclarationTypeError(msg)
    return output_tag
