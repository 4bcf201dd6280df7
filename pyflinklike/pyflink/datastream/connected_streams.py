# SPDX-License-Identifier: Apache-2.0
"""Two streams for one function, as in `pyflink.datastream.data_stream`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

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
from pyflinklike.pyflink._graph.nodes import Node, TwoInputs, WithBroadcast
from pyflinklike.pyflink.datastream.stream_node import OutputType, check_function, output_type_of
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import adopt
from pyflinklike.types import TypeInformation

__all__ = ["BroadcastConnectedStream", "BroadcastStream", "ConnectedStreams"]

S = TypeVar("S")
S_co = TypeVar("S_co", covariant=True)


class Connectable(Protocol[S_co]):
    """A stream that can be an input of a function of two streams; outputs are streams of type `S_co`."""

    @property
    def has_keys(self) -> bool:
        """Whether elements have keys."""

    def key_by(
        self,
        key_selector: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> Any:
        """Make a stream whose elements have keys."""

    def without_keys(self) -> Connectable[S_co]:
        """Return the stream of the same elements, without keys."""

    def joined(
        self,
        kind: type[Node],
        name: str,
        other: Any,
        type_info: TypeInformation,
        **fields: Any,
    ) -> S_co:
        """Add a node whose inputs are this stream and another one, and return its stream."""


class ConnectedStreams(Generic[S], WithoutJava):
    """Two streams for a function of both, as `pyflink.datastream.ConnectedStreams`.

    Args:
        stream1: The stream of the function's first method.
        stream2: The stream of the function's second method.
    """

    def __init__(self, stream1: Connectable[S], stream2: Connectable[S]) -> None:
        self.stream1, self.stream2 = stream1, stream2

    def key_by(
        self,
        key_selector1: KeySelector | Callable[[Any], Any],
        key_selector2: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams[S]:
        """Key the elements of both streams, with keys of one type; earlier keys are replaced.

        Args:
            key_selector1: Returns the key of an element of the first stream.
            key_selector2: Returns the key of an element of the second stream.
            key_type: The type of the keys; None for any objects that pickle can write.
        """
        first = self.stream1.key_by(key_selector1, key_type)
        return ConnectedStreams(first, self.stream2.key_by(key_selector2, key_type))

    def map(self, func: CoMapFunction, output_type: OutputType = None) -> S:
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

    def flat_map(self, func: CoFlatMapFunction, output_type: OutputType = None) -> S:
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
    ) -> S:
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
        return self.stream1.has_keys and self.stream2.has_keys

    def _result(self, name: str, function: Any, output_type: OutputType) -> S:
        kind, is_keyed = output_type_of(output_type), self._is_keyed
        return self.stream1.joined(
            TwoInputs, name, self.stream2, kind, function=function, is_keyed=is_keyed
        )


class BroadcastStream:
    """A stream whose elements go to each instance, as `pyflink.datastream.BroadcastStream`.

    Args:
        input_stream: The stream of the elements.
        broadcast_state_descriptors: The states that the elements change.
    """

    def __init__(
        self,
        input_stream: Connectable[Any],
        broadcast_state_descriptors: Iterable[MapStateDescriptor[Any, Any]],
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = tuple(broadcast_state_descriptors)


class BroadcastConnectedStream(Generic[S]):
    """A stream and a broadcast stream for a function of both, as in PyFlink.

    Args:
        non_broadcast_stream: The stream whose elements go to one instance each.
        broadcast_stream: The stream whose elements go to each instance.
    """

    def __init__(
        self, non_broadcast_stream: Connectable[S], broadcast_stream: BroadcastStream
    ) -> None:
        self.non_broadcast_stream, self.broadcast_stream = non_broadcast_stream, broadcast_stream

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: OutputType = None,
    ) -> S:
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
        return main.joined(
            WithBroadcast,
            f"{'Keyed ' if main.has_keys else ''}Broadcast Process",
            # Every instance gets every element, so a key would have no use.
            other.input_stream.without_keys(),
            output_type_of(output_type),
            function=function,
            states=other.broadcast_state_descriptors,
        )
