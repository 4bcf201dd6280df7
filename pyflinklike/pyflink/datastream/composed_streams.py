# SPDX-License-Identifier: Apache-2.0
"""Streams that get their function in a second step: connected, broadcast and windowed ones.

PyFlink has them in `pyflink.datastream.data_stream`.  The module of `DataStream` imports this one, so their
streams are `Any` here.

    keyed.window(TumblingEventTimeWindows.of(Time.minutes(1))).reduce(lambda a, b: a + b)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from pyflinklike._checks import warn_of_short
from pyflinklike._deprecation import WithoutJava
from pyflinklike.functions.element_functions import KeySelector
from pyflinklike.functions.process_functions import (
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from pyflinklike.pyflink._foreign_names import renamed_keywords
from pyflinklike.pyflink._graph.nodes import TwoInputs, WithBroadcast
from pyflinklike.pyflink.datastream.stream_node import OutputType, check_function, output_type_of
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import AggregateFunction, ReduceFunction, adopt
from pyflinklike.types import TypeInformation
from pyflinklike.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import LateDataOption, Windowed

__all__ = ["BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams", "WindowedStream"]

S = TypeVar("S")


class ConnectedStreams(WithoutJava):
    """Two streams for a function of both, as `pyflink.datastream.ConnectedStreams`.

    Args:
        stream1: The stream of the function's first method.
        stream2: The stream of the function's second method.
    """

    def __init__(self, stream1: Any, stream2: Any) -> None:
        self.stream1, self.stream2 = stream1, stream2

    def key_by(
        self,
        key_selector1: KeySelector | Callable[[Any], Any],
        key_selector2: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """Key the elements of both streams, with keys of one type; earlier keys are replaced.

        Args:
            key_selector1: Returns the key of an element of the first stream.
            key_selector2: Returns the key of an element of the second stream.
            key_type: The type of the keys; None for any objects that pickle can write.
        """
        first = self.stream1.key_by(key_selector1, key_type)
        return ConnectedStreams(first, self.stream2.key_by(key_selector2, key_type))

    def map(self, func: CoMapFunction, output_type: OutputType = None) -> Any:
        """Make at most one output of each element; None is no output.

        Args:
            func: A `CoMapFunction`, with a method for each stream.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = check_function(
            func, (CoMapFunction,), "The input function must be a CoMapFunction!"
        )
        return self._result("Co-Map", function, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: OutputType = None) -> Any:
        """Make any number of outputs of each element.

        Args:
            func: A `CoFlatMapFunction`, with a method for each stream.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        message = "The input must be a CoFlatMapFunction!"
        function = check_function(func, (CoFlatMapFunction,), message)
        return self._result("Co-Flat Map", function, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: OutputType = None
    ) -> Any:
        """Make any number of outputs of each element, also for side outputs.

        Args:
            func: A `CoProcessFunction`.  If both streams have keys, it has keyed state, and may be a
                `KeyedCoProcessFunction`.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        if self._is_keyed:
            kinds: tuple[type, ...] = KeyedCoProcessFunction, CoProcessFunction
            name, message = "KEYED CO-PROCESS", "The input must be a KeyedCoProcessFunction"
        else:
            kinds, name = (CoProcessFunction,), "CO-PROCESS"
            message = "The input must be a CoProcessFunction unless both streams have keys"
        return self._result(name, check_function(func, kinds, message), output_type)

    @property
    def _is_keyed(self) -> bool:
        return bool(self.stream1.has_keys and self.stream2.has_keys)

    def _result(self, name: str, function: Any, output_type: OutputType) -> Any:
        kind, is_keyed = output_type_of(output_type), self._is_keyed
        return self.stream1._next(
            TwoInputs, name, kind, self.stream2, function=function, is_keyed=is_keyed
        )


class BroadcastStream:
    """A stream whose elements go to each instance, as `pyflink.datastream.BroadcastStream`.

    Args:
        input_stream: The stream of the elements.
        broadcast_state_descriptors: The states that the elements change.
    """

    def __init__(
        self,
        input_stream: Any,
        broadcast_state_descriptors: Iterable[MapStateDescriptor[Any, Any]],
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = tuple(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream and a broadcast stream for a function of both, as in PyFlink.

    Args:
        non_broadcast_stream: The stream whose elements go to one instance each.
        broadcast_stream: The stream whose elements go to each instance.
    """

    def __init__(self, non_broadcast_stream: Any, broadcast_stream: BroadcastStream) -> None:
        self.non_broadcast_stream, self.broadcast_stream = non_broadcast_stream, broadcast_stream

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: OutputType = None,
    ) -> Any:
        """Make any number of outputs of each element, also for side outputs.

        Args:
            func: A `KeyedBroadcastProcessFunction` if the first stream has keys, otherwise a
                `BroadcastProcessFunction`.
            output_type: The type of the outputs, as for `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        main, other = self.non_broadcast_stream, self.broadcast_stream
        kind: type = KeyedBroadcastProcessFunction if main.has_keys else BroadcastProcessFunction
        of = "keyed" if main.has_keys else "non-keyed"
        message = f"A {kind.__name__} should be applied to {of} DataStream"
        function = check_function(adopt(func, kind), (kind,), message)
        return main._next(
            WithBroadcast,
            f"{'Keyed ' if main.has_keys else ''}Broadcast Process",
            output_type_of(output_type),
            # Every instance gets every element, so a key would have no use.
            other.input_stream.without_keys(),
            function=function,
            states=other.broadcast_state_descriptors,
        )


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
