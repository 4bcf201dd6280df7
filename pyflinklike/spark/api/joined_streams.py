# SPDX-License-Identifier: Apache-2.0
"""`a.join(b).window(assigner).apply(function, ...)` and `a.co_group(b)` for keyed DataFrames.

As in Flink both inputs are one stream of tagged elements, in the windows of any other stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from pyflinklike.clock import DurationLike
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.joins.functions import CoGroupFunction, FlatJoinFunction, JoinFunction
from pyflinklike.joins.grouping import CoGrouping, JoinedGroups, LateByInput
from pyflinklike.joins.tagged import TaggedTypeInfo
from pyflinklike.shown import instance_of, shown
from pyflinklike.spark.joined_late import JoinedLate
from pyflinklike.spark.keyed_connected_streams import InputOf, KeyedConnectedStreams, connected
from pyflinklike.spark.setup.joins import kind_of_join, with_late_outputs
from pyflinklike.spark.window_result import WindowResult
from pyflinklike.spark.wire.element_types import element_type
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.checks import warn_of_short
from pyflinklike.windows.evictor import Evictor
from pyflinklike.windows.trigger import Trigger
from pyflinklike.windows.windowed import Windowed

if TYPE_CHECKING:
    from pyflinklike.spark.keyed_connected_streams import EventTimes
    from pyflinklike.spark.setup.options import CommonOptions
    from pyflinklike.type_vars import Unpack

__all__ = ["CoGroupedStreams", "JoinedStreams", "WindowedCoGroup", "WindowedJoin"]


class _Windowed(JoinedLate):
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

    def trigger(self, trigger: Trigger[Any, Any]) -> Any:
        """Say when a window fires, instead of the assigner's default.

        Raises:
            DeclarationTypeError: It is no trigger, or cannot merge where windows do.
        """
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> Any:
        """Remove elements when a window fires.

        Raises:
            DeclarationTypeError: It is no evictor.
        """
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: DurationLike) -> Any:
        """Keep windows of event time open for so long behind their end.

        Args:
            time_ms: An int of ms, a `Time`, `Duration` or `timedelta`.

        Raises:
            DeclarationTypeError, DeclarationValueError: It is none of these, or negative.
        """
        self._windowed.allowed_lateness(time_ms)
        return self

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
