# SPDX-License-Identifier: Apache-2.0
"""`a.join(b).window(assigner).apply(function, ...)` and `a.co_group(b)` for keyed DataFrames.

As in Flink both inputs are one stream of tagged elements, in the windows of any other stream.

`a.interval_join(b).between(lower, upper).process(function, ...)` for keyed DataFrames.

`pyflinklike.joins` has the join itself; here are its declaration and its checks.

Late records of two DataFrames that are joined, to side outputs.

Checks of what declares a join.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pyspark.sql import DataFrame

from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.checks import warn_of_short
from pyflinklike.engine.clock import DurationLike, to_milliseconds
from pyflinklike.engine.shown import instance_of, shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.joins.interval_joiner import IntervalJoin, JoinBounds
from pyflinklike.joins.join_functions import (
    CoGroupFunction,
    FlatJoinFunction,
    JoinFunction,
    ProcessJoinFunction,
)
from pyflinklike.joins.window_joiner import CoGrouping, JoinedGroups, LateByInput, TaggedTypeInfo
from pyflinklike.spark.api.keyed_connected_streams import InputOf, KeyedConnectedStreams, connected
from pyflinklike.spark.api.windowed_stream import WindowResult
from pyflinklike.spark.wire.element_types import element_type
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.window_options import Windowed, WindowOptions

if TYPE_CHECKING:
    from pyflinklike.engine.type_vars import Unpack
    from pyflinklike.spark.plan.process_options import CommonOptions

__all__ = [
    "CoGroupedStreams",
    "IntervalJoined",
    "JoinedLate",
    "JoinedStreams",
    "WindowedCoGroup",
    "WindowedJoin",
    "checked_tag",
    "kind_of_join",
    "with_late_outputs",
]


class JoinedLate:
    """What a join says of records that come too late for it; its methods change it and return it.

    Without a side output they are dropped, and the metric `numLateRecordsDropped` counts them.
    """

    def __init__(self) -> None:
        self._late: list[OutputTag | None] = [None, None]

    def side_output_left_late_data(self: J, output_tag: OutputTag) -> J:
        """Send the late records of the first DataFrame to a side output.

        Args:
            output_tag: Of the side output, whose type is that of the records.

        Raises:
            DeclarationTypeError: It is no `OutputTag`.
        """
        self._late[0] = checked_tag(output_tag)
        return self

    def side_output_right_late_data(self: J, output_tag: OutputTag) -> J:
        """Send the late records of the second DataFrame to a side output.

        Args:
            output_tag: Another one than that of the first DataFrame.

        Raises:
            DeclarationTypeError: It is no `OutputTag`.
        """
        self._late[1] = checked_tag(output_tag)
        return self


class _Windowed(WindowOptions, JoinedLate):
    """Two keyed DataFrames in common windows; its methods change it and return it.

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
            for each in (first(None), second(None))
        )
        self._windowed = Windowed(assigner, TaggedTypeInfo(*kinds))
        warn_of_short(assigner)

    def _applied(
        self,
        function: CoGroupFunction,
        output_type: Any,
        event_time: EventTimes | None,
        options: Any,
    ) -> DataFrame:
        source = connected(self._first, self._second, event_time)
        late = LateByInput((self._late[0], self._late[1]))
        operator = self._windowed.process(CoGrouping(function)).giving_late(late)
        name = f"{self._name}In{type(operator.declared.assigner).__name__}"
        result = WindowResult.of(source, operator, output_type, name)
        schemas = [each.element_schema() for each in (source.first, source.second)]
        sides = with_late_outputs((), self._late, schemas)
        return result.over(source, sides, source.df.schema, options)


class JoinedStreams:
    """Two keyed DataFrames to be joined within windows; `KeyedStream.join` makes it."""

    def __init__(self, first: InputOf, second: InputOf, how: str) -> None:
        KeyedConnectedStreams(first, second)  # their keys are alike
        self._inputs, self._how = (first, second), kind_of_join(how)

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedJoin:
        """The windows within which records of one key are pairs.

        Args:
            assigner: It is given pairs of the number of an input, 1 or 2, and a record.

        Raises:
            DeclarationTypeError: It is no assigner.
        """
        return WindowedJoin(*self._inputs, assigner, self._how)


class WindowedJoin(_Windowed):
    """A join within windows, of which it is yet to be said what it makes of a pair."""

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
        """Apply a function to every pair of records of one key and window, when that fires.

        Args:
            function: Makes one output of a pair (a callable of two does, too), or, as a
                `FlatJoinFunction`, any number.
            output_type: Of the outputs: DDL, a `StructType` or `Types.ROW_NAMED`.  Before its
                columns the result has those of the first input's key and of the window.
            event_time: The timestamp column of both DataFrames, or a pair of names.
            **options: Of `KeyedStream.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        if not isinstance(function, (JoinFunction, FlatJoinFunction)) and not callable(function):
            remedy = instance_of(
                (JoinFunction, FlatJoinFunction), function, "give a function of two"
            )
            msg = (
                f"join takes a JoinFunction or a FlatJoinFunction, got {shown(function)}; {remedy}"
            )
            raise DeclarationTypeError(msg)
        return self._applied(JoinedGroups(function, self._how), output_type, event_time, options)


class CoGroupedStreams:
    """Two keyed DataFrames to be grouped within windows; `KeyedStream.co_group` makes it."""

    def __init__(self, first: InputOf, second: InputOf) -> None:
        KeyedConnectedStreams(first, second)  # their keys are alike
        self._inputs = first, second

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedCoGroup:
        """The windows within which records of one key are a group.

        Args:
            assigner: It is given pairs of the number of an input, 1 or 2, and a record.

        Raises:
            DeclarationTypeError: It is no assigner.
        """
        return WindowedCoGroup(*self._inputs, assigner, "CoGroup")


class WindowedCoGroup(_Windowed):
    """Groups within windows, of which it is yet to be said what is made of two groups."""

    def apply(
        self,
        function: CoGroupFunction,
        output_type: Any,
        *,
        event_time: EventTimes | None = None,
        **options: Unpack[CommonOptions],
    ) -> DataFrame:
        """Apply a function to the records of both inputs of one key and window, when that fires.

        Args:
            function: Is given two lists, of which one may be empty.
            output_type: As of a join within windows.
            event_time: The timestamp column of both DataFrames, or a pair of names.
            **options: Of `KeyedStream.process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        if not isinstance(function, CoGroupFunction):
            remedy = instance_of(CoGroupFunction, function, "subclass it")
            msg = f"co_group takes a CoGroupFunction, got {shown(function)}; {remedy}"
            raise DeclarationTypeError(msg)
        return self._applied(function, output_type, event_time, options)


EventTimes = str | tuple[str, str]

_UNBOUNDED = "an interval join needs bounds, got none; call between(lower, upper) first"


class IntervalJoined(JoinedLate):
    """Two keyed DataFrames to be joined by an interval of time; `KeyedStream.interval_join` makes it.

    Its methods change it and return it.
    """

    def __init__(self, first: InputOf, second: InputOf, how: str) -> None:
        super().__init__()
        self._connected = KeyedConnectedStreams(first, second)
        self._inputs = first(None), second(None)
        self._how = kind_of_join(how)
        self._bounds: tuple[int, int] | None = None
        self._excluded = [0, 0]

    def between(self, lower_bound: DurationLike, upper_bound: DurationLike) -> IntervalJoined:
        """Which records of the second DataFrame are partners of one of the first.

        Args:
            lower_bound: The least time of the partner behind that of the record of the first
                one: a `timedelta`, `Time`, `Duration` or an int of ms, often negative.  It is
                included, unless `lower_bound_exclusive` is called.
            upper_bound: The greatest one.

        Raises:
            DeclarationTypeError: A bound is of the wrong kind.
        """
        lower = to_milliseconds(lower_bound, "lower_bound")
        self._bounds = lower, to_milliseconds(upper_bound, "upper_bound")
        return self

    def lower_bound_exclusive(self) -> IntervalJoined:
        """Leave out the records that are at the lower bound."""
        self._excluded[0] = 1
        return self

    def upper_bound_exclusive(self) -> IntervalJoined:
        """Leave out the records that are at the upper bound."""
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
            process_join_function: It is pickled to the workers and opened there.
            output_type: Of what it yields: DDL, a `StructType` or `Types.ROW_NAMED`.
            event_time: The timestamp column of both DataFrames, or a pair of names.
            side_outputs: The tags whose outputs are wanted besides those of late records.
            output_event_time: The column of the result that holds its event time.
            **options: Of `KeyedStream.process`.

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
            self._checked_bounds(),
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
            side_outputs=with_late_outputs(
                side_outputs, self._late, [each.element_schema() for each in self._inputs]
            ),
            output_event_time=output_event_time,
            **named,
        )

    def _checked_bounds(self) -> JoinBounds:
        if self._bounds is None:
            raise DeclarationValueError(_UNBOUNDED)
        lower, upper = self._bounds[0] + self._excluded[0], self._bounds[1] - self._excluded[1]
        if lower > upper:
            msg = (
                f"the lower bound of an interval must not be above the upper one, got {lower} and "
                f"{upper} ms; turn them round"
            )
            raise DeclarationValueError(msg)
        return JoinBounds(lower, upper)


def _check(process_join_function: Any, event_time: Any) -> None:
    """Refuse what is no function of joins, and a join without times.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is one of these.
    """
    if not isinstance(process_join_function, ProcessJoinFunction):
        remedy = instance_of(ProcessJoinFunction, process_join_function, "subclass it")
        msg = f"process takes a ProcessJoinFunction, got {shown(process_join_function)}; {remedy}"
        raise DeclarationTypeError(msg)
    if event_time is None:
        msg = (
            "an interval join needs the times of its records, got event_time=None; name the column"
        )
        raise DeclarationValueError(msg)


J = TypeVar("J", bound="JoinedLate")

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
"""By Spark's names of joins, without underscores."""


def kind_of_join(how: Any) -> str:
    """The join that one of Spark's names means.

    Raises:
        DeclarationValueError: It means none that is here.
    """
    kind = _KINDS.get(how.lower().replace("_", "")) if isinstance(how, str) else None
    if kind is None:
        msg = (
            f"how must be 'inner', 'left_outer', 'right_outer' or 'full_outer', got {shown(how)}; "
            "for semi and anti joins write a KeyedCoProcessFunction, or take Spark's own join"
        )
        raise DeclarationValueError(msg)
    return kind


def with_late_outputs(
    declared: Iterable[OutputTag] | Mapping[OutputTag, Any],
    late: Sequence[OutputTag | None],
    schemas: Sequence[Any],
) -> dict[OutputTag, Any]:
    """The side outputs of a join with those of late records, whose type is that of the records.

    Args:
        declared: The others.
        late: The tag of each input's late records, or None.
        schemas: Of the records of each input.

    Raises:
        DeclarationValueError: Two have one tag.
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


def checked_tag(output_tag: Any) -> OutputTag:
    """The tag itself.

    Raises:
        DeclarationTypeError: It is no `OutputTag`.
    """
    if not isinstance(output_tag, OutputTag):
        msg = f"a side output is given by an OutputTag, got {shown(output_tag)}; write OutputTag('late')"
        raise DeclarationTypeError(msg)
    return output_tag
