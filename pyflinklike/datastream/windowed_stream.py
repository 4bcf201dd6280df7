# SPDX-License-Identifier: Apache-2.0
"""Windows over a stream, as `pyflink.datastream.WindowedStream`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyflinklike.datastream.stream_node import OutputType, output_type_of
from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.checks import warn_of_short
from pyflinklike.engine.functions import AggregateFunction, ReduceFunction
from pyflinklike.engine.types import TypeInformation
from pyflinklike.windows.evictors import Evictor
from pyflinklike.windows.triggers import Trigger
from pyflinklike.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import Windowed

__all__ = ["WindowedStream"]

S = TypeVar("S")


class WindowedStream(Generic[S]):
    """Windows over a stream of which it is yet to be said what they do, as PyFlink's.

    Args:
        keyed_stream: With the elements.
        windowed: Says what is known of the windows.
        result: Makes the stream of what they give: of the operator, and the type of its outputs.
    """

    def __init__(
        self,
        keyed_stream: Any,
        windowed: Windowed,
        result: Callable[[WindowOperator, TypeInformation], S],
    ) -> None:
        self._stream, self._windowed, self._result = keyed_stream, windowed, result
        warn_of_short(windowed.assigner)

    def get_execution_environment(self) -> Any:
        """The environment that the stream was made in."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The type of the elements."""
        kind: TypeInformation = self._stream.get_type()
        return kind

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedStream[S]:
        """Say when a window fires: `Windowed.trigger`."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedStream[S]:
        """Remove elements when a window fires: `Windowed.evictor`; PyFlink has none."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> WindowedStream[S]:
        """Keep windows open for so many ms behind their end: `Windowed.allowed_lateness`."""
        self._windowed.allowed_lateness(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream[S]:
        """Send late elements to a side output: `Windowed.side_output_late_data`."""
        self._windowed.side_output_late_data(output_tag)
        return self

    def reduce(
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: OutputType = None,
    ) -> S:
        """Reduce the elements of a window to one of their kind, as they come.

        Args:
            reduce_function: Reduces two to one.
            window_function: Makes outputs of the one; without it that is the output.
            output_type: As of `DataStream.map`; without a window function that of the elements.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        is_same = window_function is None and output_type is None
        kind = self.get_input_type() if is_same else output_type_of(output_type)
        return self._result(self._windowed.reduce(reduce_function, window_function), kind)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
    ) -> S:
        """Fold the elements of a window into an accumulator, as they come.

        Args:
            aggregate_function: Folds them.
            window_function: Makes outputs of its result; without it that is the output.
            accumulator_type: Of the accumulator, as `output_type`.
            output_type: As of `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        kind = output_type_of(accumulator_type)
        operator = self._windowed.aggregate(aggregate_function, window_function, kind)
        return self._result(operator, output_type_of(output_type))

    def apply(
        self, window_function: WindowFunction | AllWindowFunction, output_type: OutputType = None
    ) -> S:
        """Make outputs of all elements of a window.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        return self._result(self._windowed.apply(window_function), output_type_of(output_type))

    def process(
        self,
        process_window_function: ProcessWindowFunction | ProcessAllWindowFunction,
        output_type: OutputType = None,
    ) -> S:
        """Make outputs of all elements of a window, with its context.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        operator = self._windowed.process(process_window_function)
        return self._result(operator, output_type_of(output_type))
