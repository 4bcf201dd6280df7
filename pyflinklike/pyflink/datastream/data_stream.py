# SPDX-License-Identifier: Apache-2.0
"""Streams, as `pyflink.datastream.data_stream`: each call adds a node to the graph of a job.

A stream holds the number of a node in the program's graph.  Operators run when the program executes a
job; until then the settings of a node may change.  Functions are copied when they are declared: if the program
changes a function afterwards, the job does not see it.

    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection(["to", "be", "or", "not", "to", "be"])
    words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1).print()
    env.execute("count words")
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
from pyflinklike.pyflink._graph.functions import copy_function
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
from pyflinklike.pyflink.datastream.composed_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    ConnectedStreams,
    WindowedStream,
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
    """The classes of nodes for `map`, `flat_map` and `filter`."""

    map: type[Node]
    flat_map: type[Node]
    filter: type[Node]


class DataStream(StreamNode):
    """A stream of elements, as `pyflink.datastream.DataStream`; `StreamExecutionEnvironment` makes the first."""

    has_keys = False
    """Whether elements have keys."""
    _kinds = _Kinds(Map, FlatMap, Filter)

    def get_name(self) -> str:
        """Return the name of the operator, as plans and messages show it."""
        return self._node.name

    def get_type(self) -> TypeInformation:
        """Return the type of the elements."""
        return self._node.type_info

    def get_execution_environment(self) -> Any:
        """Return the environment in which the stream was made."""
        return self._program.environment

    def get_execution_config(self) -> ExecutionConfig:
        """Return the settings for all operators of the environment."""
        return self._program.execution_config

    def set_max_parallelism(self, max_parallelism: int) -> DataStream:
        """Set the number of key groups of the operator.

        Args:
            max_parallelism: From 1 to 32768; it is fixed for the life of a checkpoint.

        Raises:
            DeclarationValueError: The number is out of this range.
        """
        check_max_parallelism(max_parallelism)
        return self._set(max_parallelism=max_parallelism)

    def force_non_parallel(self) -> DataStream:
        """Run the operator in one instance."""
        return self._set(parallelism=1)

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream:
        """Accept a timeout without effect: here elements travel in batches.

        Args:
            timeout_millis: A time in ms; -1 takes the timeout of the environment.

        Raises:
            DeclarationValueError: The time is less than -1.
        """
        if not is_int(timeout_millis) or timeout_millis < -1:
            msg = f"timeout must be >= -1, got {short_repr(timeout_millis)}; give ms, or -1 for the default"
            raise DeclarationValueError(msg)
        return self

    def start_new_chain(self) -> DataStream:
        """Return the stream unchanged: the host decides how it runs operators together."""
        return self

    # Functions of one element

    @renamed_keywords(type_info="output_type")
    def map(
        self, func: MapFunction | Callable[[Any], Any], output_type: OutputType = None
    ) -> DataStream:
        """Make one output of each element; an output may be None.

        Args:
            func: A `MapFunction` or a callable; it returns the output for an element.
            output_type: The type of the outputs.  A list of types stands for a row, None for any object
                that pickle can write.

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
            func: A `FlatMapFunction` or a callable; it returns an iterable of the outputs for an
                element, or None for no outputs.
            output_type: The type of the outputs, as for `map`.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        function = copy_function(as_flat_map_function(func))
        return self._with(self._kinds.flat_map, "FlatMap", function, output_type_of(output_type))

    def filter(self, func: FilterFunction | Callable[[Any], Any]) -> DataStream:
        """Keep the elements for which a function returns something true.

        Args:
            func: A `FilterFunction` or a callable; it gets an element.

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
        """Assign event times to the elements, and make watermarks from them, from this stream on.

        Args:
            watermark_strategy: Assigns the times, and decides how far watermarks lag behind them.

        Raises:
            DeclarationTypeError: `watermark_strategy` is no `WatermarkStrategy`.
        """
        strategy = check_function(
            watermark_strategy, (WatermarkStrategy,), "it takes a WatermarkStrategy"
        )
        return self._next(
            AssignTimestamps, "Timestamps/Watermarks", self.get_type(), strategy=strategy
        )

    # Several streams

    def union(self, *streams: DataStream) -> DataStream:
        """Make a stream with the elements of this stream and others; if a stream is given twice, so are its elements.

        Args:
            streams: The other streams.  One may come from another environment; the job of this stream
                then runs its operators, too.

        Raises:
            DeclarationTypeError: One of them is no `DataStream`.
        """
        for each in streams:
            if not isinstance(each, DataStream):
                msg = f"union takes DataStreams, got {short_repr(each)}; give for example a.union(b, c)"
                raise DeclarationTypeError(msg)
        others = [each.without_keys() for each in streams]
        return self.without_keys()._next(Union, "Union", self.get_type(), *others)

    def connect(self, ds: Any) -> Any:
        """Connect this stream and another one, for a function of both.

        Args:
            ds: A `DataStream` or a `BroadcastStream`; it may come from another environment, as in `union`.

        Returns:
            `ConnectedStreams`, or for a `BroadcastStream` a `BroadcastConnectedStream`.

        Raises:
            DeclarationTypeError: `ds` is neither.
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds)
        if isinstance(ds, DataStream):
            return ConnectedStreams(self, ds)
        msg = f"connect takes a DataStream or a BroadcastStream, got {short_repr(ds)}"
        raise DeclarationTypeError(msg)

    def get_side_output(self, output_tag: OutputTag) -> DataStream:
        """Make a stream of the side outputs that the operator of this stream sends with a tag.

        Args:
            output_tag: A tag with the same id as in the function.

        Raises:
            DeclarationTypeError: `output_tag` is no `OutputTag`.
            DeclarationError: The stream comes from `union`, `key_by` or a call such as `rebalance`, which
                have no side outputs.
        """
        if not isinstance(output_tag, OutputTag):
            msg = f"get_side_output takes an OutputTag, got {short_repr(output_tag)}"
            raise DeclarationTypeError(msg)
        if isinstance(self._node, (KeyBy, Partition, Union)):
            msg = (
                "get_side_output is for the stream that an operator such as process() returns, got "
                f"{short_repr(self._node.name)} after it; call get_side_output first"
            )
            raise DeclarationError(msg)
        return self._next(SideOutput, "Side Output", output_tag.type_info, tag=output_tag)

    # Distribution over the instances of the next operator

    def shuffle(self) -> DataStream:
        """Send each element to a random instance of the next operator."""
        return self._partition(Partitioning.SHUFFLE)

    def rebalance(self) -> DataStream:
        """Send elements to all instances of the next operator in turn."""
        return self._partition(Partitioning.REBALANCE)

    def rescale(self) -> DataStream:
        """Send the elements of an instance to a part of the next instances in turn."""
        return self._partition(Partitioning.RESCALE)

    def forward(self) -> DataStream:
        """Send elements to the next operator's instance of the same number."""
        return self._partition(Partitioning.FORWARD)

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor[Any, Any] | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor[Any, Any],
    ) -> Any:
        """Send each element to all instances of the next operator.

        Args:
            broadcast_state_descriptor: A state that the elements change.  With a state the result is a
                `BroadcastStream` for `connect`, without one a `DataStream`.
            other_broadcast_state_descriptors: More states that the elements change.

        Raises:
            DeclarationTypeError: A state is no `MapStateDescriptor`.
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
            partitioner: Takes a key and the number of instances, and returns the instance to send it to.
            key_selector: Returns the key of an element.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        given = partitioner.partition if isinstance(partitioner, Partitioner) else partitioner
        # A class is callable, too: calling it would make a partitioner for each element.
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
            key_selector: Returns the key of an element; it is called once for each element.
            key_type: The type of the keys.  None takes any objects that pickle can write; two keys are
                then equal if their pickles are.

        Raises:
            DeclarationTypeError: An argument is of the wrong kind.
        """
        selector = copy_function(as_key_selector(key_selector))
        kind = ObjectKeyTypeInfo() if key_type is None else output_type_of(key_type)
        keyed = self.without_keys()._next(
            KeyBy, "KeyBy", self.get_type(), selector=selector, key_type=kind
        )
        return KeyedStream(self._program, keyed._number)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedStream[DataStream]:
        """Put all elements into windows, in one instance.

        Args:
            window_assigner: Assigns windows to an element.

        Raises:
            DeclarationTypeError: `window_assigner` is no `WindowAssigner`.
        """
        env = self.get_execution_environment()
        windowed = Windowed(copy_function(window_assigner), self.get_type(), keyed=False, env=env)
        keyed = self.key_by(NullByteKeySelector())
        return WindowedStream(keyed, windowed, keyed._of_windows)

    # Outputs of the program

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

        The job has all operators and sinks that the program declared since its last job, as for `execute`.

        Args:
            job_execution_name: The name of the job; None takes the name in the configuration.
            limit: The greatest number of elements, above 0; the job ends when they are there.

        Returns:
            With a limit a list, otherwise an iterator over the elements of a running job.

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
        """Return the elements as a Spark DataFrame; each read of it runs the job.

        The columns are the fields of a row or tuple; any other element is in a column `value`.  In batch
        mode the DataFrame is a batch.  In streaming mode it is a stream: the job is a part of the
        query that `writeStream` starts, and uses the checkpoint of this query.  A restarted query goes on
        with streaming DataFrames (`from_data_frame`), and reads other sources from their beginning.
        In PyFlink this method is `StreamTableEnvironment.from_data_stream`.

        Args:
            schema: The schema of the DataFrame: DDL, a `StructType` or a `TypeInformation`.  None takes
                the declared type of the elements.

        Raises:
            DeclarationTypeError, DeclarationValueError: `schema` is no schema, or Spark does not have a
                type of it.
            SparkSetupError: Spark does not run an operator of the job, or PySpark is not installed.
        """
        sink = self._sink(CollectSink(), "DataFrame", to_run=False)
        return self._program.data_frame(sink, schema)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each element to the standard output.

        Args:
            sink_identifier: A text to put before each line; None for no text.
        """
        return DataStreamSink(
            self._program, self._sink(PrintSink(sink_identifier), "Print to Std. Out")
        )

    def print_to_err(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Write a line for each element to the standard error; PyFlink has it in Java only.

        Args:
            sink_identifier: A text to put before each line; None for no text.
        """
        sink = PrintSink(sink_identifier, is_error=True)
        return DataStreamSink(self._program, self._sink(sink, "Print to Std. Err"))

    @without_effect("each job computes its elements again; if that is slow, write them to files")
    def cache(self) -> CachedDataStream:
        """Return a stream of the same elements, which each job computes again."""
        return CachedDataStream(self._program, self._number)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the elements to a sink.

        Args:
            sink: A sink of this library, such as a `FileSink`.

        Raises:
            DeclarationTypeError: `sink` is no sink of this library.
        """
        if not isinstance(sink, Sink):
            remedy = instance_of(Sink, sink, "use for example FileSink.for_row_format(...).build()")
            msg = f"sink_to takes a sink, got {short_repr(sink)}; {remedy}"
            raise DeclarationTypeError(msg)
        return DataStreamSink(self._program, self._sink(sink, "Sink"))

    def add_sink(self, sink_func: Any) -> DataStreamSink:
        """Write the elements to a `FlinkKafkaProducer`, or to any other sink.

        Args:
            sink_func: The producer, or a sink as for `sink_to`.

        Raises:
            DeclarationTypeError: `sink_func` is neither.
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
        # One instance collects, because the program reads one stream of elements.
        parallelism = None if to_run else 1
        made = self._next(ToSink, name, self.get_type(), sink=sink, parallelism=parallelism)
        if to_run:
            self._program.sinks.append(made._number)
        return made._number

    # Nodes

    def _partition(self, how: Partitioning, **fields: Any) -> DataStream:
        return self._next(Partition, how.value.title(), self.get_type(), how=how, **fields)

    def _with(
        self, kind: type[Node], name: str, function: Any, output_type: TypeInformation
    ) -> DataStream:
        return self._next(kind, name, output_type, function=function)

    def _next(
        self,
        kind: type[Node],
        name: str,
        type_info: TypeInformation,
        *others: DataStream,
        **fields: Any,
    ) -> DataStream:
        """Add a node whose inputs are this stream and the others, and return its stream.

        As in Flink, a job may combine streams of several environments.  The graph of this stream's program
        takes over the nodes that it needs from each.
        """
        builder = self._program.builder
        numbers = [builder.adopt(each._program.builder, each._number) for each in others]
        inputs = (self._number, *numbers)
        node = builder.add(kind, name=name, inputs=inputs, type_info=type_info, **fields)
        return DataStream(self._program, node.id)

    def without_keys(self) -> DataStream:
        """Return this stream: its elements have no keys."""
        return self


class _NoOperator(DataStream):
    """A stream that is no operator, so it has no name and no settings, as in PyFlink."""

    _remedy = ""
    """The end of messages: the stream that has the setting."""

    def get_name(self) -> NoReturn:
        """Refuse to name it: it is no operator.

        Raises:
            DeclarationError: Always.
        """
        self._refuse("get_name")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Refuse a hash: it is no operator.

        Args:
            uid_hash: A hash, which is refused.

        Raises:
            DeclarationError: Always.
        """
        self._set(uid_hash=uid_hash)

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Refuse a timeout: it is no operator.

        Args:
            timeout_millis: A time, which is refused.

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
            slot_sharing_group: A group, which is refused.

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

    _remedy = "call it on the stream before cache()"

    def invalidate(self) -> None:
        """Do nothing: no elements are stored."""


class KeyedStream(_NoOperator):
    """A stream of elements that have keys, as `pyflink.datastream.KeyedStream`."""

    _remedy = "call it on the stream before key_by(), or on the operator after it"

    has_keys = True
    _kinds = _Kinds(Keyed, Keyed, Keyed)
    """Functions of `map`, `flat_map` and `filter` have keyed state here: they may obtain it in `open`."""
    AccumulateType = make_refused("datastream.data_stream.KeyedStream.AccumulateType", INSIDE)

    @renamed_keywords(result_type="output_type")
    def process(self, func: Any, output_type: OutputType = None) -> DataStream:
        """Make any number of outputs of each element and timer, with keyed state.

        Args:
            func: A `KeyedProcessFunction`; it gets elements and timers.
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
            DeclarationTypeError: `window_assigner` is no `WindowAssigner`.
        """
        env = self.get_execution_environment()
        windowed = Windowed(copy_function(window_assigner), self.get_type(), env=env)
        return WindowedStream(self, windowed, self._of_windows)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[DataStream]:
        """Put the elements of each key into windows of a fixed number of elements.

        Args:
            size: The number of elements of a window.
            slide: The number of elements between the beginnings of two windows; 0 takes `size`, so that
                windows do not overlap.
        """
        windowed = count_window(size, slide, self.get_type())
        return WindowedStream(self, windowed, self._of_windows)

    # Folds

    def reduce(self, func: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> DataStream:
        """Reduce the elements of each key to one: an output after each element, in batch mode one at the end.

        Args:
            func: A `ReduceFunction` or a callable; it combines the result so far and an element.

        Raises:
            DeclarationTypeError: `func` is neither.
        """
        return self._fold("Reduce", copy_function(as_reduce_function(func)))

    def sum(self, position_to_sum: int | str = 0) -> DataStream:
        """Sum a field; the other fields keep the values of the key's first element.

        Args:
            position_to_sum: The position of the field from 0, or its name.
        """
        return self._fold("Sum", Sum(position_to_sum))

    def min(self, position_to_min: int | str = 0) -> DataStream:
        """Keep the least value of a field; the other fields keep the values of the key's first element.

        Args:
            position_to_min: The position of the field from 0, or its name.
        """
        return self._fold("Min", Min(position_to_min))

    def max(self, position_to_max: int | str = 0) -> DataStream:
        """Keep the greatest value of a field; the other fields keep the values of the key's first element.

        Args:
            position_to_max: The position of the field from 0, or its name.
        """
        return self._fold("Max", Max(position_to_max))

    def min_by(self, position_to_min_by: int | str = 0) -> DataStream:
        """Keep the first element with the least value of a field.

        Args:
            position_to_min_by: The position of the field from 0, or its name.
        """
        return self._fold("MinBy", MinBy(position_to_min_by))

    def max_by(self, position_to_max_by: int | str = 0) -> DataStream:
        """Keep the first element with the greatest value of a field.

        Args:
            position_to_max_by: The position of the field from 0, or its name.
        """
        return self._fold("MaxBy", MaxBy(position_to_max_by))

    def _fold(self, name: str, function: Any) -> DataStream:
        return self._with(KeyedFold, name, function, self.get_type())

    # Outputs without keys

    def project(self, *field_indexes: int) -> DataStream:
        """Keep some fields of each tuple, without keys.

        Args:
            field_indexes: The positions of the fields from 0, in the order of the outputs.

        Raises:
            DeclarationTypeError: The elements are not declared as `Types.TUPLE`.
        """
        return self.without_keys().project(*field_indexes)

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write rows of key and element (`f0` and `f1`) to a sink, as PyFlink does.

        Args:
            sink: A sink of this library, such as a `FileSink`.
        """
        return self._with_keys().sink_to(sink)

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> Any:
        """Collect rows of key and element (`f0` and `f1`), as PyFlink does.

        Args:
            job_execution_name: The name of the job; None takes the name in the configuration.
            limit: The greatest number of elements; None for all.
        """
        # `Any`: the overloads of `DataStream` would refuse a limit that may be None.
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
        """Refuse another distribution: keys decide the instance of each element.

        Args:
            args: States, which are refused.

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
