# SPDX-License-Identifier: Apache-2.0
"""`a.interval_join(b).between(lower, upper).process(function, ...)` for keyed DataFrames.

`pyflinklike.joins` has the join itself; here are its declaration and its checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from pyflinklike.api.output_tag import OutputTag
from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.joins.functions import ProcessJoinFunction
from pyflinklike.joins.interval import IntervalJoin, JoinBounds
from pyflinklike.shown import instance_of, shown
from pyflinklike.spark.joined_late import JoinedLate
from pyflinklike.spark.keyed_connected_streams import InputOf, KeyedConnectedStreams
from pyflinklike.spark.setup.joins import kind_of_join, with_late_outputs
from pyflinklike.spark.wire.element_types import element_type

if TYPE_CHECKING:
    from pyflinklike.spark.setup.options import CommonOptions
    from pyflinklike.type_vars import Unpack

__all__ = ["IntervalJoined"]

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
