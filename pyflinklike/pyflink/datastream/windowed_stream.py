# SPDX-License-Identifier: Apache-2.0
"""Windows over a stream, as `pyflink.datastream.WindowedStream`.

keyed.window(TumblingEventTimeWindows.of(Time.minutes(1))).reduce(lambda a, b: a + b)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyflinklike._checks import warn_of_short
from pyflinklike.pyflink._foreign_names import renamed_keywords
from pyflinklike.pyflink.datastream.stream_node import OutputType, output_type_of
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction
from pyflinklike.types import TypeInformation
from pyflinklike.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import LateDataOption, Windowed

__all__ = ["WindowedStream"]

S = TypeVar("S")


class WindowedStream(LateDataOption, Generic[S]):
    """Windows over a stream, without a function yet, as in PyFlink.

    Args:
        keyed_stream: The `KeyedStream` of the elements.
        windowed: The declaration of the windows so far.
        result: Takes the operator and the type of its outputs, and returns their stream.
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
        """Return the environment in which the stream was made."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the elements."""
        kind: TypeInformation = self._stream.get_type()
        return kind

    @renamed_keywords(result_type="output_type")
    def reduce(
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: OutputType = None,
    ) -> S:
        """Reduce the elements of a window to one, each as it arrives.

        Args:
            reduce_function: A `ReduceFunction` or a callable; it reduces two elements to one.
            window_function: Makes outputs of the reduced element; None makes the element the output.
            output_type: The type of the outputs, as for `DataStream.map`.  Without a window function,
                None takes the type of the elements.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        is_same = window_function is None and output_type is None
        kind = self.get_input_type() if is_same else output_type_of(output_type)
        return self._result(self._windowed.reduce(reduce_function, window_function), kind)

    @renamed_keywords(result_type="output_type")
    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        accumulator_type: OutputType = None,
        output_type: OutputType = None,
    ) -> S:
        """Add the elements of a window to an accumulator, each as it arrives.

        Args:
            aggregate_function: Adds an element to an accumulator, and makes a result of it.
            window_function: Makes outputs of the result; None makes the result the output.
            accumulator_type: The type of the accumulator, as for `DataStream.map`.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        kind = output_type_of(accumulator_type)
        operator = self._windowed.aggregate(aggregate_function, window_function, kind)
        return self._result(operator, output_type_of(output_type))

    @renamed_keywords(result_type="output_type")
    def apply(
        self, window_function: WindowFunction | AllWindowFunction, output_type: OutputType = None
    ) -> S:
        """Make outputs of all elements of a window.

        Args:
            window_function: Gets the window and its elements.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        return self._result(self._windowed.apply(window_function), output_type_of(output_type))

    @renamed_keywords(result_type="output_type")
    def process(
        self,
        process_window_function: ProcessWindowFunction | ProcessAllWindowFunction,
        output_type: OutputType = None,
    ) -> S:
        """Make outputs of all elements of a window, with a context.

        Args:
            process_window_function: Gets the elements and a context of the window.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        operator = self._windowed.process(process_window_function)
        return self._result(operator, output_type_of(output_type))
