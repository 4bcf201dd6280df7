# SPDX-License-Identifier: Apache-2.0
"""Streams, as `pyflink.datastream.data_stream`: each call adds a node to the graph of a job.

A stream is a number of a node in the program's graph; nothing runs before the program executes a job.
Settings of a node may change until then.  Functions are copied when they are declared, so an object
that a program changes afterwards changes no job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, overload

from pyflinklike._checks import is_int
from pyflinklike._deprecation import INSIDE
from pyflinklike._messages import instance_of, short_repr
from pyflinklike.aggregations.fold import Max, MaxBy, Min, MinBy, Sum
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.element_functions import (
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
from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.functions.process_functions import KeyedProcessFunction, ProcessFunction
from pyflinklike.pyflink._foreign_names import make_refused, renamed_keywords, without_effect
from pyflinklike.pyflink._graph.function_copies import copy_function
from pyflinklike.pyflink._graph.nodes import (
    AssignTimestamps,
    Filter,
    FlatMap,
    KeyBy,
    Keyed,
    KeyedFold,
    Map,
    Node,
    Partition,
    Partitioning,
    Process,
    SideOutput,
    ToSink,
    Union,
)
from pyflinklike.pyflink._graph.sinks import CollectSink, PrintSink, Sink, SinkMaker
from pyflinklike.pyflink._graph.watermarks import WatermarkStrategy
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.execution_config import ExecutionConfig, check_max_parallelism
from pyflinklike.pyflink.common.types import Row
from pyflinklike.pyflink.datastream.connected_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
)
from pyflinklike.pyflink.datastream.stream_node import (
    CloseableIterator,
    DataStreamSink,
    ObjectKeyTypeInfo,
    OutputType,
    StreamNode,
    check_function,
    output_type_of,
)
from pyflinklike.pyflink.datastream.windowed_stream import WindowedStream
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import ReduceFunction, adopt, as_reduce_function
from pyflinklike.types import TypeInformation
from pyflinklike.types.row_types import TupleTypeInfo
from pyflinklike.windows.assigners import WindowAssigner
from pyflinklike.windows.window_operator import WindowOperator
from pyflinklike.windows.window_options import Windowed, count_window

__all__ = [
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "KeyedStream",
    "WindowedStream",
]

__getattr__ = of_pyflink(__name__)


class _Kinds(NamedTuple):
    """The classes of nodes for functions of one element."""

    map: type[Node]
    flat_map: type[Node]
    filter: type[Node]


class DataStream(StreamNode):
    """A stream of elements, as `pyflink.datastream.DataStream`; an environment makes the first."""

    has_keys = False
    """Whether elements have keys."""
    _kinds = _Kinds(Map, FlatMap, Filter)

    def get_name(self) -> str:
        """Return the name of the operator where jobs are shown."""
        return self._node.name

    def get_type(self) -> TypeInformation:
        """Return the type of the elements."""
        return self._node.type_info

    def get_execution_environment(self) -> Any:
        """Return the environment in which the stream was made."""
        return self._program.environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings of the environment's operators."""
        return self._program.execution_config

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Set the number of key groups of the operator.

        Args:
            max_parallelism: From 1 to 32768; it is fixed for the life of a checkpoint.

        Raises:
            DeclarationValueError: It is another number.
        """
        check_max_parallelism(max_parallelism)
        return self._set(max_parallelism=max_parallelism)

    def force_non_parallel(self) -> DataStream:
        """Run the operator in one instance."""
        return self._set(parallelism=1)

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """Accept a timeout without effect: here elements travel in batches.

        Args:
            timeout_millis: A time in ms; -1 takes the environment's.

        Raises:
            DeclarationValueError: It is less than -1.
        """
        if not is_int(timeout_millis) or timeout_millis < -1:
            msg = f"timeout must be >= -1, got {short_repr(timeout_millis)}; give ms, or -1 for the default"
            raise DeclarationValueError(msg)
        return self

    def start_new_chain(self) -> DataStream:
        """Return the stream unchanged: the host decides how it runs operators together."""
        return self

    # Of one element

    @renamed_keywords(type_info="output_type")
    def map(
        self, func: MapFunction | Callable[[Any], Any], output_type: OutputType = None
    ) -> DataStream:
        """Make one output of each element; an output may be None.

        Args:
            func: Returns the output of an element; a `MapFunction` or a callable.
            output_type: The type of the outputs; a list of types is a row, None any object that
                pickle can write.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = copy_function(as_map_function(func))
        return self._with(self._kinds.map, "Map", function, output_type_of(output_type))

    @renamed_keywords(result_type="output_type", type_info="output_type")
    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: OutputType = None,
    ) -> DataStream:
        """Make any number of outputs of each element.

        Args:
            func: Returns an iterable of the outputs of an element, or None for no outputs; a
                `FlatMapFunction` or a callable.
            output_type: The type of the outputs, as for `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = copy_function(as_flat_map_function(func))
        return self._with(self._kinds.flat_map, "FlatMap", function, output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """Keep the elements for which a function returns something true.

        Args:
            func: A `FilterFunction` or a callable.

        Raises:
            DeclarationTypeError: `func` is neither.
        """
        function = copy_function(as_filter_function(func))
        return self._with(self._kinds.filter, "Filter", function, self.get_type())

    @renamed_keywords(result_type="output_type")
    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Make any number of outputs of each element, also for side outputs.

        Args:
            func: A `ProcessFunction`; on a keyed stream a `KeyedProcessFunction`.
            output_type: The type of the outputs, as for `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        message = "ProcessFunction is required for DataStream"
        function = check_function(adopt(func, ProcessFunction), (ProcessFunction,), message)
        return self._with(Process, "PROCESS", function, output_type_of(output_type))

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of each tuple.

        Args:
            field_indexes: The positions of the fields from 0, in the order of the outputs.

        Raises:
            DeclarationTypeError: The elements are not declared as `Types.TUPLE`.
        """
        kind = self.get_type()
        if type(kind) is not TupleTypeInfo:
            msg = f"Only Tuple DataStreams can be projected, got {kind!r}; declare a Types.TUPLE"
            raise DeclarationTypeError(msg)
        types = kind.get_field_types()
        output_type = TupleTypeInfo([types[index] for index in field_indexes])
        picked = as_map_function(lambda value: tuple([value[index] for index in field_indexes]))
        return self._with(Map, "Projection", copy_function(picked), output_type)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream:
        """Give elements event times, and make watermarks of them, from here on.

        Args:
            watermark_strategy: Assigns the times, and says how far watermarks stay behind them.

        Raises:
            DeclarationTypeError: It is no `WatermarkStrategy`.
        """
        strategy = check_function(
            watermark_strategy, (WatermarkStrategy,), "it takes a WatermarkStrategy"
        )
        return self._next(
            AssignTimestamps, "Timestamps/Watermarks", self.get_type(), strategy=strategy
        )

    # Of several streams

    def union(self, *streams: DataStream) -> DataStream:
        """Make a stream of the elements of this stream and others; a stream given twice comes twice.

        Args:
            streams: The others.  One may be of another environment; the job of this stream then runs
                its operators, too.

        Raises:
            DeclarationTypeError: One is no `DataStream`.
        """
        for each in streams:
            if not isinstance(each, DataStream):
                msg = f"union takes DataStreams, got {short_repr(each)}; give for example a.union(b, c)"
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
        """Connect this stream and another one, for a function of both.

        Args:
            ds: A `DataStream` or a `BroadcastStream`; it may be of another environment, as in `union`.

        Returns:
            `ConnectedStreams`, or a `BroadcastConnectedStream`.

        Raises:
            DeclarationTypeError: It is neither.
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        msg = f"connect takes a DataStream or a BroadcastStream, got {short_repr(ds)}"
        raise DeclarationTypeError(msg)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Make a stream of the outputs that the operator of this stream has sent with a tag.

        Args:
            output_tag: The tag; its id counts.

        Raises:
            DeclarationTypeError: It is no `OutputTag`.
            DeclarationError: This stream is no operator, but a union, keyed, or dealt out anew.
        """
        if not isinstance(output_tag, OutputTag):
            msg = f"get_side_output takes an OutputTag, got {short_repr(output_tag)}"
            raise DeclarationTypeError(msg)
        if isinstance(self._node, (KeyBy, Partition, Union)):
            msg = (
                "get_side_output asks the stream that process() gave, got a stream behind it, "
                f"{short_repr(self._node.name)}; call it before"
            )
            raise DeclarationError(msg)
        return self._next(SideOutput, "Side Output", output_tag.type_info, tag=output_tag)

    # Which instance of the next operator gets an element

    def shuffle(self) -> DataStream:
        """Send elements to instances by chance."""
        return self._partition(Partitioning.SHUFFLE)

    def rebalance(self) -> DataStream:
        """Send elements to all instances in turn."""
        return self._partition(Partitioning.REBALANCE)

    def rescale(self) -> DataStream:
        """Send the elements of an instance to some of the next instances in turn."""
        return self._partition(Partitioning.RESCALE)

    def forward(self) -> DataStream:
        """Send elements to the instance of the same number."""
        return self._partition(Partitioning.FORWARD)

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor[Any, Any] | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    ) -> Any:
        """Send each element to all instances of the next operator.

        Args:
            broadcast_state_descriptor: A state that the elements change; with one the result is a
                `BroadcastStream`, for `connect`, else a `DataStream`.
            other_broadcast_state_descriptors: Further such states.

        Raises:
            DeclarationTypeError: One is no `MapStateDescriptor`.
        """
        if broadcast_state_descriptor is None and not other_broadcast_state_descriptors:
            return self._partition(Partitioning.BROADCAST)
        given: Any = broadcast_state_descriptor
        descriptors = (given, *other_broadcast_state_descriptors)
        for each in descriptors:
            if not isinstance(each, MapStateDescriptor):
                msg = (
                    f"broadcast_state_descriptor must be MapStateDescriptor, got {short_repr(each)}"
                )
                raise DeclarationTypeError(msg)
        return BroadcastStream(self, descriptors)

    def partition_custom(
        self,
        partitioner: Partitioner | Callable[[Any, int], int],
        key_selector: KeySelector | Callable[[Any], Any],
    ) -> DataStream:
        """Send each element to the instance that a function chooses.

        Args:
            partitioner: Returns the number of an instance for a key and the number of instances.
            key_selector: Returns the key of an element.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        given = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        is_a_class = isinstance(given, type) and issubclass(given, Partitioner)
        if not callable(given) or is_a_class:
            msg = f"Parameter partitioner should be type of Partitioner or a callable function, got {short_repr(partitioner)}"
            raise DeclarationTypeError(msg)
        selector = copy_function(as_key_selector(key_selector))
        how = {"partitioner": copy_function(given), "selector": selector.get_key}
        return self._partition(Partitioning.CUSTOM, **how)

    # Keys and windows

    @renamed_keywords(key_type_info="key_type")
    def key_by(
        self,
        key_selector: KeySelector | Callable[[Any], Any],
        key_type: TypeInformation | None = None,
    ) -> KeyedStream:
        """Make a stream whose elements have keys.

        Args:
            key_selector: Returns the key of an element; it is called once for each.
            key_type: The type of the keys; None for any that pickle can write, which are equal if
                their pickles are.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        selector = copy_function(as_key_selector(key_selector))
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
        """Put all elements into windows; one instance has them all.

        Args:
            window_assigner: Assigns windows to an element.

        Raises:
            DeclarationTypeError: It is no `WindowAssigner`.
        """
        env = self.get_execution_environment()
        windowed = Windowed(copy_function(window_assigner), self.get_type(), keyed=False, env=env)
        keyed = self.key_by(NullByteKeySelector())
        return WindowedStream(keyed, windowed, keyed._of_windows)

    # Ways out

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[Any]: ...
    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, *, limit: int
    ) -> list[Any]: ...
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[Any] | list[Any]:
        """Run a job, and return the elements of this stream.

        The job has all operators and sinks declared since the last one, as for `execute`.

        Args:
            job_execution_name: The name of the job; None is that of the configuration.
            limit: The most elements that are wanted, above 0; the job ends when they are there.

        Returns:
            A list if there is a limit, else an iterator over a job that may still run.

        Raises:
            DeclarationValueError: The limit is not above 0.
            PyflinklikeError: The job failed.
        """
        if limit is not None and (not is_int(limit) or limit <= 0):
            msg = f"Limit must be greater than 0, got {short_repr(limit)}"
            raise DeclarationValueError(msg)
        sink = self._sink(CollectSink(), "Collect Sink", to_run=False)
        run = self._program.collect(sink, job_execution_name)
        results = CloseableIterator(run, run.collect(sink))
        if limit is None:
            return results
        with results:
            return [element for _, element in zip(range(limit), results)]

    def to_data_frame(self, schema: Any = None) -> Any:
        """Return the elements as a Spark DataFrame, which runs the job whenever it is read.

        A row or tuple gives its fields as columns, any other element a column `value`.  In batch
        mode the DataFrame is a batch.  In streaming mode it is a stream: the job is a part of the
        query that `writeStream` starts, and has its checkpoint.  A query that is restarted goes on
        with streaming DataFrames (`from_data_frame`), and reads other sources anew.
        PyFlink has this as `StreamTableEnvironment.from_data_stream`.

        Args:
            schema: The schema of the DataFrame: DDL, a `StructType` or a `TypeInformation`; None is
                the type of the elements, which must be declared then.

        Raises:
            DeclarationTypeError, DeclarationValueError: Spark has no such type, or `schema` is no
                schema.
            SparkSetupError: The job has a step that Spark does not run, or PySpark is not installed.
        """
        sink = self._sink(CollectSink(), "DataFrame", to_run=False)
        return self._program.data_frame(sink, schema)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each element to the standard output.

        Args:
            sink_identifier: A text before each line; None for no text.
        """
        return DataStreamSink(
            self._program, self._sink(PrintSink(sink_identifier), "Print to Std. Out")
        )

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each element to the standard error; PyFlink has it in Java only.

        Args:
            sink_identifier: A text before each line; None for no text.
        """
        sink = PrintSink(sink_identifier, is_error=True)
        return DataStreamSink(self._program, self._sink(sink, "Print to Std. Err"))

    @without_effect("each job computes its elements anew; write them to files where that is dear")
    def cache(self) -> CachedDataStream:
        """Return a stream of the same elements, which each job computes anew."""
        return CachedDataStream(self._program, self._number)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the elements to a sink.

        Args:
            sink: A sink of this library, such as a `FileSink`.

        Raises:
            DeclarationTypeError: It is no sink of this library.
        """
        if not isinstance(sink, Sink):
            remedy = instance_of(Sink, sink, "use for example FileSink.for_row_format(...).build()")
            msg = f"sink_to takes a sink, got {short_repr(sink)}; {remedy}"
            raise DeclarationTypeError(msg)
        return DataStreamSink(self._program, self._sink(sink, "Sink"))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Write the elements to a `FlinkKafkaProducer`, or to any other sink.

        Args:
            sink_func: The producer; sinks of `sink_to` are taken, too.

        Raises:
            DeclarationTypeError: It is neither.
        """
        sink = sink_func.sink() if isinstance(sink_func, SinkMaker) else sink_func
        if isinstance(sink, Sink):
            return DataStreamSink(self._program, self._sink(sink, "Sink"))
        msg = (
            f"add_sink takes a FlinkKafkaProducer or a sink, got {short_repr(sink_func)}; use sink_to with "
            "a FileSink or KafkaSink, or print"
        )
        raise DeclarationTypeError(msg)

    def _sink(self, sink: Sink, name: str, *, to_run: bool = True) -> int:
        node = self._program.add(
            ToSink,
            name=name,
            inputs=(self._number,),
            type_info=self._node.type_info,
            sink=sink,
            # Collected elements come to one place, the program.
            parallelism=None if to_run else 1,
        )
        if to_run:
            self._program.sinks.append(node.id)
        return node.id

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
        """Return the elements without keys: this stream."""
        return self

    def joined(
        self,
        kind: type[Node],
        name: str,
        other: DataStream,
        type_info: TypeInformation,
        **fields: Any,
    ) -> DataStream:
        """Return the stream of a new node whose inputs are this stream and another one."""
        inputs = self._number, self._program.number_of(other._program, other._number)
        node = self._program.add(kind, name=name, inputs=inputs, type_info=type_info, **fields)
        return DataStream(self._program, node.id)


class _NoOperator(DataStream):
    """A stream that is no operator: it has no name and no settings, as in PyFlink."""

    _remedy = ""
    """What has them."""

    def get_name(self) -> NoReturn:
        """Refuse to name it: it is no operator.

        Raises:
            DeclarationError: Always.
        """
        self._refuse("get_name")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Refuse a hash: it is no operator.

        Args:
            uid_hash: Anything.

        Raises:
            DeclarationError: Always.
        """
        self._set(uid_hash=uid_hash)

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Refuse a timeout: it is no operator.

        Args:
            timeout_millis: Anything.

        Raises:
            DeclarationError: Always.
        """
        self._set(buffer_timeout=timeout_millis)

    def start_new_chain(self) -> NoReturn:
        """Refuse a chain: it is no operator.

        Raises:
            DeclarationError: Always.
        """
        self._refuse("start_new_chain")

    def disable_chaining(self) -> NoReturn:
        """Refuse to be taken out of chains: it is no operator.

        Raises:
            DeclarationError: Always.
        """
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: Any) -> NoReturn:
        """Refuse a group: it is no operator.

        Args:
            slot_sharing_group: Anything.

        Raises:
            DeclarationError: Always.
        """
        self._set(slot_sharing_group=slot_sharing_group)

    def _set(self, **settings: Any) -> NoReturn:
        given = ", ".join(f"{name}={short_repr(value)}" for name, value in settings.items())
        self._refuse(f"Setting {', '.join(settings)}", given)

    def _refuse(self, what: str, given: str = "") -> NoReturn:
        kind = type(self).__name__
        msg = f"{what} for {kind} is not supported, got {given or f'a {kind}'}; {self._remedy}"
        raise DeclarationError(msg)


class CachedDataStream(_NoOperator):
    """A stream that `DataStream.cache` made."""

    _remedy = "ask or set it on the stream before cache()"

    def invalidate(self) -> None:
        """Do nothing: no elements are stored."""


class KeyedStream(_NoOperator):
    """A stream of elements that have keys, as `pyflink.datastream.KeyedStream`."""

    _remedy = "set it on the operator behind, and ask that or the one before"

    has_keys = True
    _kinds = _Kinds(Keyed, Keyed, Keyed)
    """Functions of `map`, `flat_map` and `filter` may obtain keyed state in `open`."""
    AccumulateType = make_refused("datastream.data_stream.KeyedStream.AccumulateType", INSIDE)

    @renamed_keywords(result_type="output_type")
    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Make any number of outputs of each element and timer, with keyed state.

        Args:
            func: A `KeyedProcessFunction`.
            output_type: The type of the outputs, as for `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        message = "KeyedProcessFunction is required for KeyedStream"
        function = check_function(func, (KeyedProcessFunction,), message)
        return self._with(Keyed, "KEYED PROCESS", function, output_type_of(output_type))

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[DataStream]:
        """Put the elements of each key into windows.

        Args:
            window_assigner: Assigns windows to an element.

        Raises:
            DeclarationTypeError: It is no `WindowAssigner`.
        """
        env = self.get_execution_environment()
        windowed = Windowed(copy_function(window_assigner), self.get_type(), env=env)
        return WindowedStream(self, windowed, self._of_windows)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[DataStream]:
        """Put the elements of each key into windows of a number of elements.

        Args:
            size: The number of elements of a window.
            slide: The number of elements from the beginning of a window to that of the next; 0 is
                `size`: windows do not overlap.
        """
        windowed = count_window(size, slide, self.get_type())
        return WindowedStream(self, windowed, self._of_windows)

    # Folds

    def reduce(self, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> DataStream:
        """KeyedFold the elements of each key: an output for each element, in batch mode one at the end.

        Args:
            func: Combines the fold so far and an element; a `ReduceFunction` or a callable.

        Raises:
            DeclarationTypeError: `func` is neither.
        """
        return self._with(
            KeyedFold, "Reduce", copy_function(as_reduce_function(func)), self.get_type()
        )

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Sum a field; the other fields are those of the key's first element.

        Args:
            position_to_sum: The position of the field from 0, or its name.
        """
        return self._with(KeyedFold, "Sum", Sum(position_to_sum), self.get_type())

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Keep the least value of a field; the other fields are those of the key's first element.

        Args:
            position_to_min: The position of the field from 0, or its name.
        """
        return self._with(KeyedFold, "Min", Min(position_to_min), self.get_type())

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Keep the greatest value of a field; the other fields are those of the key's first element.

        Args:
            position_to_max: The position of the field from 0, or its name.
        """
        return self._with(KeyedFold, "Max", Max(position_to_max), self.get_type())

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Keep the first element with the least value of a field.

        Args:
            position_to_min_by: The position of the field from 0, or its name.
        """
        return self._with(KeyedFold, "MinBy", MinBy(position_to_min_by), self.get_type())

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Keep the first element with the greatest value of a field.

        Args:
            position_to_max_by: The position of the field from 0, or its name.
        """
        return self._with(KeyedFold, "MaxBy", MaxBy(position_to_max_by), self.get_type())

    # Without keys

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of each tuple, without keys.

        Args:
            field_indexes: The positions of the fields from 0, in the order of the outputs.

        Raises:
            DeclarationTypeError: The elements are not declared as `Types.TUPLE`.
        """
        return self.without_keys().project(*field_indexes)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write rows to a sink, as PyFlink does: `f0` is the key, `f1` the element.

        Args:
            sink: A sink of this library.
        """
        return self._with_keys().sink_to(sink)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> Any:
        """Collect rows, as PyFlink does: `f0` is the key, `f1` the element.

        Args:
            job_execution_name: The name of the job; None is that of the configuration.
            limit: The most elements that are wanted; None for all.
        """
        stream: Any = self._with_keys()
        return stream.execute_and_collect(job_execution_name, limit)

    def _with_keys(self) -> DataStream:
        node = self._node
        assert isinstance(node, KeyBy)
        key_of = node.selector.get_key
        pair = copy_function(as_map_function(lambda value: Row(key_of(value), value)))
        kind = output_type_of([node.key_type, self.get_type()])
        return self.without_keys()._with(Map, "Key and value", pair, kind)

    def without_keys(self) -> DataStream:
        """Return the elements without their keys."""
        return DataStream(self._program, self._node.inputs[0])

    def _of_windows(self, operator: WindowOperator, output_type: TypeInformation) -> DataStream:
        name = type(operator.declared.assigner).__name__
        return self._with(Keyed, name, copy_function(operator), output_type)

    def _partition(self, how: Partitioning, **fields: Any) -> NoReturn:  # noqa: ARG002
        msg = f"Cannot override partitioning for KeyedStream, got {how.value.lower()}; call it before key_by"
        raise DeclarationError(msg)

    def broadcast(self, *args: Any) -> Any:  # noqa: ARG002
        """Refuse another distribution: that of a keyed stream is by its keys.

        Args:
            args: Not used.

        Raises:
            DeclarationError: Always.
        """
        return self._partition(Partitioning.BROADCAST)

    def cache(self) -> NoReturn:
        """Refuse a cache: a keyed stream is no operator.

        Raises:
            DeclarationError: Always.
        """
        msg = "Cache for KeyedStream is not supported, got a key_by; call it before key_by"
        raise DeclarationError(msg)
