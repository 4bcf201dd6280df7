# SPDX-License-Identifier: Apache-2.0
"""Streams, as `pyflink.datastream.data_stream`: every call adds a node to the graph of a job.

The classes make each other, so they are in one module, as in PyFlink.  What checks and makes the
functions is elsewhere: `api`, `windows`, `folds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from pyflinklike.api.broadcast import BroadcastProcessFunction, KeyedBroadcastProcessFunction
from pyflinklike.api.co_process import (
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedCoProcessFunction,
)
from pyflinklike.api.map_functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    as_filter_function,
    as_flat_map_function,
    as_map_function,
)
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.api.process import KeyedProcessFunction, ProcessFunction
from pyflinklike.api.selectors import (
    KeySelector,
    NullByteKeySelector,
    Partitioner,
    as_key_selector,
)
from pyflinklike.common.types import Row
from pyflinklike.datastream.declared import (
    CloseableIterator,
    DataStreamSink,
    Outlets,
    output_type_of,
)
from pyflinklike.datastream.keys import ObjectKeyTypeInfo
from pyflinklike.errors import DeclarationError, DeclarationTypeError
from pyflinklike.folds.reducers import Max, MaxBy, Min, MinBy, Sum
from pyflinklike.functions import AggregateFunction, ReduceFunction, as_reduce_function
from pyflinklike.graph.captured import captured
from pyflinklike.graph.nodes import (
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
    TwoInputs,
    Union,
    WithBroadcast,
)
from pyflinklike.graph.sinks import Sink
from pyflinklike.graph.watermarks import WatermarkStrategy
from pyflinklike.shown import instance_of, shown
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.types import TypeInformation
from pyflinklike.types.rows import TupleTypeInfo
from pyflinklike.windows.assigner import WindowAssigner
from pyflinklike.windows.evictor import Evictor
from pyflinklike.windows.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from pyflinklike.windows.operator import WindowOperator
from pyflinklike.windows.trigger import Trigger
from pyflinklike.windows.windowed import Windowed, count_window, window, window_all

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]

OutputType = TypeInformation | list[TypeInformation] | None
_ANY = output_type_of(None)


def _checked(function: Any, kinds: tuple[type, ...], message: str) -> Any:
    """A function of its own, if it is of a kind.

    Raises:
        DeclarationTypeError: It is of none, or cannot be pickled.
    """
    if not isinstance(function, kinds):
        remedy = instance_of(kinds[0], function, f"subclass {kinds[0].__name__}")
        msg = f"{message}, got {shown(function)}; {remedy}"
        raise DeclarationTypeError(msg)
    return captured(function)


class DataStream(Outlets):
    """A stream of elements, as `pyflink.datastream.DataStream`; an environment makes the first."""

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
        return self._with(Map, "Map", captured(as_map_function(func)), output_type_of(output_type))

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
        return self._with(FlatMap, "FlatMap", function, output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """The elements for which a function gives something true.

        Raises:
            DeclarationTypeError: It is no filter function.
        """
        return self._with(Filter, "Filter", captured(as_filter_function(func)), self.get_type())

    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Any number of outputs for each element, also to side outputs.

        Args:
            func: A `ProcessFunction`; on a keyed stream a `KeyedProcessFunction`.
            output_type: As of `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = _checked(func, (ProcessFunction,), "ProcessFunction is required for DataStream.")
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
        strategy = _checked(
            watermark_strategy, (WatermarkStrategy,), "it takes a WatermarkStrategy"
        )
        return self._next(
            AssignTimestamps, "Timestamps/Watermarks", self.get_type(), strategy=strategy
        )

    # Of several streams

    def union(self, *streams: DataStream) -> DataStream:
        """The elements of this stream and others; the same stream twice gives each one twice."""
        inputs = [stream._values()._number for stream in (self, *streams)]
        node = self._program.add(
            Union, name="Union", inputs=tuple(inputs), type_info=self.get_type()
        )
        return DataStream(self._program, node.id)

    def connect(self, ds: Any) -> Any:
        """This stream and another one, for a function of both.

        Args:
            ds: A `DataStream` or a `BroadcastStream`.

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
            inputs=(self._values()._number,),
            type_info=self.get_type(),
            selector=selector,
            key_type=kind,
        )
        return KeyedStream(self._program, node.id)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Windows over all elements; one instance has them all.

        Raises:
            DeclarationTypeError: It is no window assigner.
        """
        windowed = window_all(captured(window_assigner), self.get_type())
        return WindowedStream(self.key_by(NullByteKeySelector()), windowed)

    # Which instance gets an element

    def shuffle(self) -> DataStream:
        """Elements go to instances by chance."""
        return self._partition(Partitioning.SHUFFLE)

    def rebalance(self) -> DataStream:
        """Elements go to instances in turn."""
        return self._partition(Partitioning.REBALANCE)

    def rescale(self) -> DataStream:
        """Elements go to some of the instances in turn."""
        return self._partition(Partitioning.RESCALE)

    def forward(self) -> DataStream:
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
        self,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
    ) -> DataStream:
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

    def _values(self) -> DataStream:
        """The elements without their keys."""
        return self


class KeyedStream(DataStream):
    """A stream of elements that have keys, as `pyflink.datastream.KeyedStream`."""

    def map(
        self, func: MapFunction | Callable[[Any], Any], output_type: OutputType = None
    ) -> DataStream:
        """As of `DataStream`; `open` may obtain state of keys."""
        function = captured(as_map_function(func))
        return self._with(Keyed, "Map", function, output_type_of(output_type))

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: OutputType = None,
    ) -> DataStream:
        """As of `DataStream`; `open` may obtain state of keys."""
        function = captured(as_flat_map_function(func))
        return self._with(Keyed, "FlatMap", function, output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """As of `DataStream`; `open` may obtain state of keys."""
        return self._with(Keyed, "Filter", captured(as_filter_function(func)), self.get_type())

    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Any number of outputs for each element and timer, with state of keys.

        Args:
            func: A `KeyedProcessFunction`.
            output_type: As of `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        message = "KeyedProcessFunction is required for KeyedStream."
        function = _checked(func, (KeyedProcessFunction,), message)
        return self._with(Keyed, "KEYED PROCESS", function, output_type_of(output_type))

    def reduce(self, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> DataStream:
        """The fold of the elements of each key: so far for each element, in batch mode once.

        Raises:
            DeclarationTypeError: It is no reduce function.
        """
        return self._with(Fold, "Reduce", captured(as_reduce_function(func)), self.get_type())

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """The sum of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Sum", Sum(position_to_sum), self.get_type())

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """The least value of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Min", Min(position_to_min), self.get_type())

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """The greatest value of a field; the other fields are those of the key's first element."""
        return self._with(Fold, "Max", Max(position_to_max), self.get_type())

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """The element with the least value of a field, the earliest of them."""
        return self._with(Fold, "MinBy", MinBy(position_to_min_by), self.get_type())

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """The element with the greatest value of a field, the earliest of them."""
        return self._with(Fold, "MaxBy", MaxBy(position_to_max_by), self.get_type())

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Windows over the elements of each key.

        Raises:
            DeclarationTypeError: It is no window assigner.
        """
        return WindowedStream(self, window(captured(window_assigner), self.get_type()))

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of so many elements of each key.

        Args:
            size: How many a window has.
            slide: At every which element one begins; 0 is one after another.
        """
        return WindowedStream(self, count_window(size, slide, self.get_type()))

    def project(self, *field_indexes: int) -> DataStream:
        """As of `DataStream`."""
        return self._values().project(*field_indexes)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Give `Row(key, element)` to a sink, as PyFlink does."""
        return self._with_keys().sink_to(sink)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> Any:
        """Collect `Row(key, element)`, as PyFlink does."""
        stream: Any = self._with_keys()
        return stream.execute_and_collect(job_execution_name, limit)

    def _with_keys(self) -> DataStream:
        node = self._node
        assert isinstance(node, KeyBy)
        key_of = node.selector.get_key
        pair = captured(as_map_function(lambda value: Row(key_of(value), value)))
        return self._values()._with(Map, "Key and value", pair, _ANY)

    def _values(self) -> DataStream:
        return DataStream(self._program, self._node.inputs[0])

    def _partition(self, how: Partitioning, **fields: Any) -> NoReturn:  # noqa: ARG002
        msg = f"Cannot override partitioning for KeyedStream, got {how.value.lower()}; call it before key_by"
        raise DeclarationError(msg)

    def _set(self, **settings: Any) -> NoReturn:
        msg = f"Setting {', '.join(settings)} for KeyedStream is not supported, got {settings}; set it on the operator behind"
        raise DeclarationError(msg)

    def get_name(self) -> NoReturn:
        """Refuse it: a keyed stream is no operator.

        Raises:
            DeclarationError: Always.
        """
        self._set(name="a name")


class WindowedStream:
    """Windows over a stream of which it is yet to be said what they do, as PyFlink's.

    Args:
        keyed_stream: With the elements.
        windowed: Says what is known of the windows.
    """

    def __init__(self, keyed_stream: KeyedStream, windowed: Windowed) -> None:
        self._stream, self._windowed = keyed_stream, windowed

    def get_execution_environment(self) -> Any:
        """The environment that the stream was made in."""
        return self._stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """The type of the elements."""
        return self._stream.get_type()

    def trigger(self, trigger: Trigger[Any, Any]) -> WindowedStream:
        """Say when a window fires: `Windowed.trigger`."""
        self._windowed.trigger(trigger)
        return self

    def evictor(self, evictor: Evictor[Any, Any]) -> WindowedStream:
        """Remove elements when a window fires: `Windowed.evictor`; PyFlink has none."""
        self._windowed.evictor(evictor)
        return self

    def allowed_lateness(self, time_ms: int) -> WindowedStream:
        """Keep windows open for so many ms behind their end: `Windowed.allowed_lateness`."""
        self._windowed.allowed_lateness(time_ms)
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
        """Send late elements to a side output: `Windowed.side_output_late_data`."""
        self._windowed.side_output_late_data(output_tag)
        return self

    def reduce(
        self,
        reduce_function: ReduceFunction[Any] | Callable[[Any, Any], Any],
        window_function: WindowFunction | ProcessWindowFunction | None = None,
        output_type: OutputType = None,
    ) -> DataStream:
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
    ) -> DataStream:
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
    ) -> DataStream:
        """Make outputs of all elements of a window.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        return self._result(self._windowed.apply(window_function), output_type_of(output_type))

    def process(
        self,
        process_window_function: ProcessWindowFunction | ProcessAllWindowFunction,
        output_type: OutputType = None,
    ) -> DataStream:
        """Make outputs of all elements of a window, with its context.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        operator = self._windowed.process(process_window_function)
        return self._result(operator, output_type_of(output_type))

    def _result(self, operator: WindowOperator, output_type: TypeInformation) -> DataStream:
        name = type(operator.declared.assigner).__name__
        return self._stream._with(Keyed, name, captured(operator), output_type)


class ConnectedStreams:
    """Two streams for a function of both, as `pyflink.datastream.ConnectedStreams`.

    Args:
        stream1: The first input.
        stream2: The second input.
    """

    def __init__(self, stream1: DataStream, stream2: DataStream) -> None:
        self.stream1, self.stream2 = stream1, stream2

    def key_by(
        self,
        key_selector1: KeySelector | Callable[[Any], Any],
        key_selector2: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> ConnectedStreams:
        """The streams with keys of one type, also where they have others already."""
        first = self.stream1.key_by(key_selector1, key_type)
        return ConnectedStreams(first, self.stream2.key_by(key_selector2, key_type))

    def map(self, func: CoMapFunction, output_type: OutputType = None) -> DataStream:
        """At most one output for each element: None is none.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = _checked(func, (CoMapFunction,), "The input function must be a CoMapFunction!")
        return self._result("Co-Map", function, output_type)

    def flat_map(self, func: CoFlatMapFunction, output_type: OutputType = None) -> DataStream:
        """Any number of outputs for each element.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        message = "The input must be a CoFlatMapFunction!"
        function = _checked(func, (CoFlatMapFunction,), message)
        return self._result("Co-Flat Map", function, output_type)

    def process(
        self, func: CoProcessFunction | KeyedCoProcessFunction, output_type: OutputType = None
    ) -> DataStream:
        """Any number of outputs for each element, also to side outputs.

        Args:
            func: Where both streams have keys a `KeyedCoProcessFunction`.
            output_type: As of `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        kind = KeyedCoProcessFunction if self._is_keyed else CoProcessFunction
        name = f"{'KEYED ' if self._is_keyed else ''}CO-PROCESS"
        function = _checked(func, (kind,), f"The input must be a {kind.__name__}!")
        return self._result(name, function, output_type)

    @property
    def _is_keyed(self) -> bool:
        return all(isinstance(each, KeyedStream) for each in (self.stream1, self.stream2))

    def _result(self, name: str, function: Any, output_type: OutputType) -> DataStream:
        first, second = self.stream1, self.stream2
        node = first._program.add(
            TwoInputs,
            name=name,
            inputs=(first._number, second._number),
            type_info=output_type_of(output_type),
            function=function,
            is_keyed=self._is_keyed,
        )
        return DataStream(first._program, node.id)


class BroadcastStream:
    """A stream that every instance gets whole, as `pyflink.datastream.BroadcastStream`.

    Args:
        input_stream: With the elements.
        broadcast_state_descriptors: The states that they change.
    """

    def __init__(
        self,
        input_stream: DataStream,
        broadcast_state_descriptors: Iterable[MapStateDescriptor[Any, Any]],
    ) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = tuple(broadcast_state_descriptors)


class BroadcastConnectedStream:
    """A stream and a broadcast one, for a function of both, as PyFlink's.

    Args:
        non_broadcast_stream: The first input.
        broadcast_stream: The second input.
    """

    def __init__(self, non_broadcast_stream: DataStream, broadcast_stream: BroadcastStream) -> None:
        self.non_broadcast_stream, self.broadcast_stream = non_broadcast_stream, broadcast_stream

    def process(
        self,
        func: BroadcastProcessFunction | KeyedBroadcastProcessFunction,
        output_type: OutputType = None,
    ) -> DataStream:
        """Any number of outputs for each element, also to side outputs.

        Args:
            func: A `KeyedBroadcastProcessFunction` where the first stream has keys, else a
                `BroadcastProcessFunction`.
            output_type: As of `DataStream.map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        main, other = self.non_broadcast_stream, self.broadcast_stream
        is_keyed = isinstance(main, KeyedStream)
        kind: type = KeyedBroadcastProcessFunction if is_keyed else BroadcastProcessFunction
        of = "keyed" if is_keyed else "non-keyed"
        function = _checked(
            func, (kind,), f"A {kind.__name__} should be applied to {of} DataStream"
        )
        node = main._program.add(
            WithBroadcast,
            name=f"{'Keyed ' if is_keyed else ''}Broadcast Process",
            inputs=(main._number, other.input_stream._values()._number),
            type_info=output_type_of(output_type),
            function=function,
            states=other.broadcast_state_descriptors,
        )
        return DataStream(main._program, node.id)
