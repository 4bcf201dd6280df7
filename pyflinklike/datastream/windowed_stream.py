# SPDX-License-Identifier: Apache-2.0
"""Windows over a stream, as `pyflink.datastream.WindowedStream`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyflinklike.datastream.stream_node import Outlets, OutputType, output_type_of
from pyflinklike.engine.checks import warn_of_short
from pyflinklike.engine.functions import AggregateFunction, ReduceFunction
from pyflinklike.engine.types import TypeInformation
from pyflinklike.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import LateDataOption, Windowed

__all__ = ["WindowedStream"]

S = TypeVar("S", bound=Outlets)


class WindowedStream(LateDataOption, Generic[S]):
    """Windows over a stream of which it is yet to be said what they do, as PyFlink's.

    Args:
        keyed_stream: With the elements.
        windowed: Says what is known of the windows.
        result: Makes the stream of what they give: of the operator, and the type of its outputs.
    """

    def __init__(
        self,
        keyed_stream: Outlets,
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
        return self._stream.get_type()

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
