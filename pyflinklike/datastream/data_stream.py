# SPDX-License-Identifier: Apache-2.0
"""Streams, as `pyflink.datastream.data_stream`: every call adds a node to the graph of a job.

Both kinds of streams make each other, so they are in one module.  What they give for windows and
for functions of two streams has modules of its own.

Which instance of the next operator gets an element, with PyFlink's names.

The folds of a keyed stream, with PyFlink's names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from pyflinklike.common.types import Row
from pyflinklike.datastream.connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    Connectable,
    ConnectedStreams,
)
from pyflinklike.datastream.stream_node import (
    CloseableIterator,
    DataStreamSink,
    ObjectKeyTypeInfo,
    Outlets,
    OutputType,
    checked_function,
    output_type_of,
)
from pyflinklike.datastream.windowed_stream import WindowedStream
from pyflinklike.engine.api.element_functions import (
    FilterFunction,
    FlatMapFunction,
    KeySelector,
    MapFunction,
    NullByteKeySelector,
    Partitioner,
    as_filter_function,
    as_flat_map_function,
    as_key_selector,
    as_map_function,
)
from pyflinklike.engine.api.output_tag import OutputTag
from pyflinklike.engine.api.process_functions import KeyedProcessFunction, ProcessFunction
from pyflinklike.engine.functions import ReduceFunction, as_reduce_function
from pyflinklike.engine.graph.function_copies import captured
from pyflinklike.engine.graph.nodes import (
    AssignTimestamps,
    Filter,
    FlatMap,
    Fold,
    KeyBy,
    Keyed,
    Map,
    Node,
    Partition,
    Partitioning,
    Process,
    SideOutput,
    Union,
)
from pyflinklike.engine.graph.sinks import Sink
from pyflinklike.engine.graph.watermarks import WatermarkStrategy
from pyflinklike.engine.shown import shown
from pyflinklike.engine.state.descriptors import MapStateDescriptor
from pyflinklike.engine.types import TypeInformation
from pyflinklike.engine.types.row_types import TupleTypeInfo
from pyflinklike.errors import DeclarationError, DeclarationTypeError
from pyflinklike.folds.fold import Max, MaxBy, Min, MinBy, Sum
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import Windowed, count_window

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "Distributed",
    "Folded",
    "KeyedStream",
    "WindowedStream",
]


class _Kinds(NamedTuple):
    """The nodes of functions of one element."""

    map: type[Node]
    flat_map: type[Node]
    filter: type[Node]


S = TypeVar("S", bound=Outlets)


class Distributed(Connectable[S]):
    """A stream whose elements can be sent to other instances."""

    def shuffle(self: D) -> D:
        """Elements go to instances by chance."""
        return self._partition(Partitioning.SHUFFLE)

    def rebalance(self: D) -> D:
        """Elements go to instances in turn."""
        return self._partition(Partitioning.REBALANCE)

    def rescale(self: D) -> D:
        """Elements go to some of the instances in turn."""
        return self._partition(Partitioning.RESCALE)

    def forward(self: D) -> D:
        """Elements stay with their instance."""
        return self._partition(Partitioning.FORWARD)

    def broadcast(self, *broadcast_state_descriptors: MapStateDescriptor[Any, Any]) -> Any:
        """A stream that every instance of the next operator gets whole.

        Args:
            broadcast_state_descriptors: The states that its elements change; with them it is a
                `BroadcastStream`, for `connect`.

        Raises:
            DeclarationTypeError: One is no `MapStateDescriptor`.
        """
        if not broadcast_state_descriptors:
            return self._partition(Partitioning.BROADCAST)
        for each in broadcast_state_descriptors:
            if not isinstance(each, MapStateDescriptor):
                msg = f"broadcast_state_descriptor must be MapStateDescriptor, got {shown(each)}"
                raise DeclarationTypeError(msg)
        return BroadcastStream(self, broadcast_state_descriptors)

    def partition_custom(
        self: D,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
    ) -> D:
        """Elements go to the instance that a function tells.

        Args:
            partitioner: Is given a key and the number of instances.
            key_selector: Tells the key.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        given = getattr(partitioner, "partition", partitioner)
        if not callable(given) or isinstance(partitioner, type):
            msg = f"Parameter partitioner should be type of Partitioner or a callable function, got {shown(partitioner)}"
            raise DeclarationTypeError(msg)
        selector = captured(as_key_selector(key_selector))
        how = {"partitioner": captured(given), "selector": selector.get_key}
        return self._partition(Partitioning.CUSTOM, **how)

    def _partition(self: D, how: Partitioning, **fields: Any) -> D:
        raise NotImplementedError


class DataStream(Distributed["DataStream"]):
    """A stream of elements, as `pyflink.datastream.DataStream`; an environment makes the first."""

    _kinds = _Kinds(Map, FlatMap, Filter)

    def get_name(self) -> str:
        """What it is called where jobs are shown."""
        return self._node.name

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Say how many key groups it has."""
        return self._set(max_parallelism=max_parallelism)

    def force_non_parallel(self) -> DataStream:
        """Have one instance."""
        return self._set(parallelism=1)

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:  # noqa: ARG002
        """Nothing: how elements travel is the host's matter."""
        return self

    def start_new_chain(self) -> DataStream:
        """Nothing: how steps are put together is the host's matter."""
        return self

    # Of one element

    def map(
        self, func: MapFunction | Callable[[Any], Any], output_type: OutputType = None
    ) -> DataStream:
        """One output for each element, None included.

        Args:
            func: Makes it.
            output_type: Of the outputs; a list of types is a row, None any object that pickles.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = captured(as_map_function(func))
        return self._with(self._kinds.map, "Map", function, output_type_of(output_type))

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: OutputType = None,
    ) -> DataStream:
        """Any number of outputs for each element; None is none.

        Args:
            func: Makes them.
            output_type: As of `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = captured(as_flat_map_function(func))
        return self._with(self._kinds.flat_map, "FlatMap", function, output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """The elements for which a function gives something true.

        Raises:
            DeclarationTypeError: It is no filter function.
        """
        function = captured(as_filter_function(func))
        return self._with(self._kinds.filter, "Filter", function, self.get_type())

    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Any number of outputs for each element, also to side outputs.

        Args:
            func: A `ProcessFunction`; on a keyed stream a `KeyedProcessFunction`.
            output_type: As of `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = checked_function(
            func, (ProcessFunction,), "ProcessFunction is required for DataStream"
        )
        return self._with(Process, "PROCESS", function, output_type_of(output_type))

    def project(self, *field_indexes: int) -> DataStream:
        """Some fields of each tuple, in this order.

        Raises:
            DeclarationTypeError: The elements are no tuples.
        """
        kind = self.get_type()
        if type(kind) is not TupleTypeInfo:
            msg = f"Only Tuple DataStreams can be projected, got {kind!r}; declare a Types.TUPLE"
            raise DeclarationTypeError(msg)
        types = kind.get_field_types()
        output_type = TupleTypeInfo([types[index] for index in field_indexes])
        picked = as_map_function(lambda value: tuple([value[index] for index in field_indexes]))
        return self._with(Map, "Projection", captured(picked), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give elements event times, and have watermarks follow, from here on.

        Raises:
            DeclarationTypeError: It is no `WatermarkStrategy`.
        """
        strategy = checked_function(
            watermark_strategy, (WatermarkStrategy,), "it takes a WatermarkStrategy"
        )
        return self._next(
            AssignTimestamps, "Timestamps/Watermarks", self.get_type(), strategy=strategy
        )

    # Of several streams

    def union(self, *streams: DataStream) -> DataStream:
        """The elements of this stream and others; the same stream twice gives each one twice.

        Args:
            streams: Also of another environment: the job of this stream's then runs its steps, too.

        Raises:
            DeclarationTypeError: One is no `DataStream`.
        """
        for each in streams:
            if not isinstance(each, DataStream):
                msg = f"union takes DataStreams, got {shown(each)}; give for example a.union(b, c)"
                raise DeclarationTypeError(msg)
        inputs = [
            self._program.number_of(stream._program, stream._number)
            for stream in (each.without_keys() for each in (self, *streams))
        ]
        node = self._program.add(
            Union, name="Union", inputs=tuple(inputs), type_info=self.get_type()
        )
        return DataStream(self._program, node.id)

    def connect(self, ds: Any) -> Any:
        """This stream and another one, for a function of both.

        Args:
            ds: A `DataStream` or a `BroadcastStream`, also of another environment, as in `union`.

        Returns:
            `ConnectedStreams`, or a `BroadcastConnectedStream`.

        Raises:
            DeclarationTypeError: It is neither.
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        msg = f"connect takes a DataStream or a BroadcastStream, got {shown(ds)}"
        raise DeclarationTypeError(msg)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """What the operator of this stream put out with a tag.

        Raises:
            DeclarationTypeError: It is no output tag.
        """
        if not isinstance(output_tag, OutputTag):
            msg = f"get_side_output takes an OutputTag, got {shown(output_tag)}"
            raise DeclarationTypeError(msg)
        return self._next(SideOutput, "Side Output", output_tag.type_info, tag=output_tag)

    # Keys and windows

    def key_by(
        self,
        key_selector: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """The stream with a key for each element.

        Args:
            key_selector: Tells it; called once for each element.
            key_type: Of the keys; None for any that pickle, which are equal if their pickles are.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        selector = captured(as_key_selector(key_selector))
        kind = ObjectKeyTypeInfo() if key_type is None else output_type_of(key_type)
        node = self._program.add(
            KeyBy,
            name="KeyBy",
            inputs=(self.without_keys()._number,),
            type_info=self.get_type(),
            selector=selector,
            key_type=kind,
        )
        return KeyedStream(self._program, node.id)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[DataStream]:
        """Windows over all elements; one instance has them all.

        Raises:
            DeclarationTypeError: It is no window assigner.
        """
        env = self.get_execution_environment()
        windowed = Windowed(captured(window_assigner), self.get_type(), keyed=False, env=env)
        keyed = self.key_by(NullByteKeySelector())
        return WindowedStream(keyed, windowed, keyed._of_windows)

    # Nodes

    def _partition(self, how: Partitioning, **fields: Any) -> DataStream:
        return self._next(Partition, how.value.title(), self.get_type(), how=how, **fields)

    def _with(
        self, kind: type[Node], name: str, function: Any, output_type: TypeInformation
    ) -> DataStream:
        return self._next(kind, name, output_type, function=function)

    def _next(
        self, kind: type[Node], name: str, type_info: TypeInformation, **fields: Any
    ) -> DataStream:
        node = self._program.add(
            kind, name=name, inputs=(self._number,), type_info=type_info, **fields
        )
        return DataStream(self._program, node.id)

    def without_keys(self) -> DataStream:
        """This stream."""
        return self

    def joined(
        self,
        kind: type[Node],
        name: str,
        other: Connectable[Any],
        type_info: TypeInformation,
        **fields: Any,
    ) -> DataStream:
        """What a node gives that has this stream and another one as its inputs."""
        inputs = self._number, self._program.number_of(other._program, other._number)
        node = self._program.add(kind, name=name, inputs=inputs, type_info=type_info, **fields)
        return DataStream(self._program, node.id)


class Folded(Outlets, Generic[S]):
    """What a stream with keys can fold; a fold is a stream of kind `S`."""

    def _with(self, kind: type[Node], name: str, function: Any, output_type: TypeInformation) -> S:
        raise NotImplementedError

    def reduce(self, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> S:
        """The fold of the elements of each key: so far for each element, in batch mode once.

        Raises:
            DeclarationTypeError: It is no reduce function.
        """
        return self._with(Fold, "Reduce", captured(as_reduce_function(func)), self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> S:
        """The sum of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Sum", Sum(position_to_sum), self.get_type())

    def min(self, position_to_min: int | str = 0) -> S:
        """The least value of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Min", Min(position_to_min), self.get_type())

    def max(self, position_to_max: int | str = 0) -> S:
        """The greatest value of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Max", Max(position_to_max), self.get_type())

    def min_by(self, position_to_min_by: int | str = 0) -> S:
        """The element with the least value of a field, the earliest of them."""
        return self._with(Fold, "MinBy", MinBy(position_to_min_by), self.get_type())

    def max_by(self, position_to_max_by: int | str = 0) -> S:
        """The element with the greatest value of a field, the earliest of them."""
        return self._with(Fold, "MaxBy", MaxBy(position_to_max_by), self.get_type())


class KeyedStream(DataStream, Folded["DataStream"]):
    """A stream of elements that have keys, as `pyflink.datastream.KeyedStream`."""

    has_keys = True
    _kinds = _Kinds(Keyed, Keyed, Keyed)
    """`map`, `flat_map` and `filter` may obtain state of keys in `open`."""

    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Any number of outputs for each element and timer, with state of keys.

        Args:
            func: A `KeyedProcessFunction`.
            output_type: As of `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        message = "KeyedProcessFunction is required for KeyedStream"
        function = checked_function(func, (KeyedProcessFunction,), message)
        return self._with(Keyed, "KEYED PROCESS", function, output_type_of(output_type))

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[DataStream]:
        """Windows over the elements of each key.

        Raises:
            DeclarationTypeError: It is no window assigner.
        """
        env = self.get_execution_environment()
        windowed = Windowed(captured(window_assigner), self.get_type(), env=env)
        return WindowedStream(self, windowed, self._of_windows)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[DataStream]:
        """Windows of so many elements of each key.

        Args:
            size: How many a window has.
            slide: At every which element one begins; 0 is one after another.
        """
        windowed = count_window(size, slide, self.get_type())
        return WindowedStream(self, windowed, self._of_windows)

    def project(self, *field_indexes: int) -> DataStream:
        """As of `DataStream`."""
        return self.without_keys().project(*field_indexes)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Give rows to a sink, as PyFlink does: `f0` is the key, `f1` the element."""
        return self._with_keys().sink_to(sink)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> Any:
        """Collect rows, as PyFlink does: `f0` is the key, `f1` the element."""
        stream: Any = self._with_keys()
        return stream.execute_and_collect(job_execution_name, limit)

    def _with_keys(self) -> DataStream:
        node = self._node
        assert isinstance(node, KeyBy)
        key_of = node.selector.get_key
        pair = captured(as_map_function(lambda value: Row(key_of(value), value)))
        kind = output_type_of([node.key_type, self.get_type()])
        return self.without_keys()._with(Map, "Key and value", pair, kind)

    def without_keys(self) -> DataStream:
        """The elements without their keys."""
        return DataStream(self._program, self._node.inputs[0])

    def _of_windows(self, operator: WindowOperator, output_type: TypeInformation) -> DataStream:
        name = type(operator.declared.assigner).__name__
        return self._with(Keyed, name, captured(operator), output_type)

    def _partition(self, how: Partitioning, **fields: Any) -> NoReturn:  # noqa: ARG002
        msg = f"Cannot override partitioning for KeyedStream, got {how.value.lower()}; call it before key_by"
        raise DeclarationError(msg)

    def _set(self, **settings: Any) -> NoReturn:
        given = ", ".join(f"{name}={shown(value)}" for name, value in settings.items())
        msg = (
            f"Setting {', '.join(settings)} for KeyedStream is not supported, got {given}; set it on "
            "the operator behind"
        )
        raise DeclarationError(msg)

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Refuse it: a keyed stream is no operator.

        Raises:
            DeclarationError: Always.
        """
        self._set(uid_hash=uid_hash)

    def get_name(self) -> NoReturn:
        """Refuse it: a keyed stream is no operator.

        Raises:
            DeclarationError: Always.
        """
        msg = (
            "get_name for KeyedStream is not supported, got that of a key_by; ask the operator before "
            "it or behind it"
        )
        raise DeclarationError(msg)


D = TypeVar("D", bound="Distributed[Any]")
