# SPDX-License-Identifier: Apache-2.0
"""The entry: `key_by(df, "user").process(function, ...)`.

A DataFrame comes in and a DataFrame goes out, streaming or batch alike.  This module checks
the keyed DataFrame; `operators` makes the query.

The entry for two inputs: `connect(a, b).key_by("user").process(function, ...)`.

`key_by(df, "user").map(...)`, `flat_map` and `filter`: what is done with each record alone.

What needs no state of its key is less to write, and faster, as Spark's own `select` and `where`.

The windows and joins of a keyed DataFrame: `KeyedStream.window`, `.interval_join` and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

import attrs
from pyspark.sql import DataFrame

from pyflinklike.engine.api.element_functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    as_filter_function,
    as_flat_map_function,
    as_map_function,
)
from pyflinklike.engine.api.process_functions import KeyedBatchFunction, KeyedProcessFunction
from pyflinklike.engine.functions import Function
from pyflinklike.engine.shown import shown
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark.api.broadcast_streams import (
    BroadcastConnectedStream,
    BroadcastStream,
    unkeyed,
)
from pyflinklike.spark.api.folds import Folds
from pyflinklike.spark.api.inputs import InputOf, OneInput
from pyflinklike.spark.api.joined_streams import CoGroupedStreams, IntervalJoined, JoinedStreams
from pyflinklike.spark.api.keyed_connected_streams import KeyedConnectedStreams, check_both_stream
from pyflinklike.spark.api.query import applied
from pyflinklike.spark.api.windowed_stream import WindowedStream
from pyflinklike.spark.plan.process_options import (
    ElementOptions,
    KeyedProcessOptions,
    ProcessOptions,
    SideOutputs,
    check_column,
    check_columns,
    check_function,
    options_shown,
)
from pyflinklike.spark.plan.session import time_zone_of
from pyflinklike.spark.wire.schema import key_type_of
from pyflinklike.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    WindowAssigner,
)

if TYPE_CHECKING:
    from pyflinklike.engine.type_vars import Unpack

__all__ = ["ConnectedStreams", "KeyedStream", "Maps", "WindowsAndJoins", "connect", "key_by"]


def key_by(df: DataFrame, *columns: str) -> KeyedStream:
    """Partition the records of a DataFrame by key.

    Args:
        df: Streaming or batch.
        columns: Names of the key columns.  The key of one column is its plain
            value, that of several a tuple.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind, or a column cannot be a key.
        DeclarationValueError: There is no such column, or none is given.
    """
    return KeyedStream(df, columns)


class Maps:
    """What a `KeyedStream` can do with each record; all take the options of `process` by keyword.

    A function is a callable of a record, or an object whose `open` obtains state of keys.
    """

    _df: DataFrame
    _input: InputOf

    def map(
        self,
        func: MapFunction | Callable[[Any], Any],
        output_type: Any,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """One row for each record.

        Args:
            func: Is given a record, a `Row` of the columns of the DataFrame.
            output_type: Of the rows: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._each(as_map_function(func), "Map", output_type, side_outputs, options)

    def flat_map(
        self,
        func: FlatMapFunction | Callable[[Any], Iterable[Any] | None],
        output_type: Any,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Any number of rows for each record.

        Args:
            func: Is given a record, and gives an iterable of rows, or None for none.
            output_type: Of the rows: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted.
            **options: Of `process`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        function = as_flat_map_function(func)
        return self._each(function, "FlatMap", output_type, side_outputs, options)

    def filter(
        self,
        func: FilterFunction | Callable[[Any], Any],
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """The records of which a function is true, as they are.

        Args:
            func: Is given a record.
            **options: Of `process`.

        Returns:
            Records, with the columns of the DataFrame.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._each(as_filter_function(func), "Filter", self._df.schema, (), options)

    def _each(
        self,
        function: Function,
        name: str,
        output_type: Any,
        side_outputs: SideOutputs,
        options: ElementOptions,
    ) -> DataFrame:
        given = ProcessOptions.of(options, ElementOptions)
        given = attrs.evolve(
            given,
            uid=given.uid or name,
            side_outputs=side_outputs,
            processing_time_timers=False,
        )
        return applied(function, self._input(given), output_type, given)


class WindowsAndJoins:
    """What a `KeyedStream` can do within windows, and together with another one."""

    _input: InputOf

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedStream:
        """Windows over the records of each key.

        Args:
            assigner: Of `pyflinklike.windows`, such as `TumblingEventTimeWindows.of(...)`.

        Raises:
            DeclarationTypeError: It is no assigner.
        """
        return WindowedStream(self._input, assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream:
        """Windows of so many records of a key.

        Args:
            size: How many records a window has.
            slide: At every which record a window begins; 0 is one after another.

        Raises:
            DeclarationTypeError, DeclarationValueError: A number is no positive int.
        """
        if slide == 0:
            return WindowedStream(self._input, CountTumblingWindowAssigner(size))
        return WindowedStream(self._input, CountSlidingWindowAssigner(size, slide))

    def interval_join(self: K, other: K, how: str = "inner") -> IntervalJoined:
        """Join records of one key whose times are within an interval of each other.

        Args:
            other: Keyed by columns of the same types.
            how: "inner", "left_outer", "right_outer" or "full_outer", or Spark's other names of
                these.  An outer join gives out a record without a partner once none can come.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch, or there is no such join.
        """
        return IntervalJoined(self._input, _input_of(other, "interval_join"), how)

    def join(self: K, other: K, how: str = "inner") -> JoinedStreams:
        """Join records of one key that lie in one window.

        Args:
            other: Keyed by columns of the same types.
            how: As of `interval_join`.  An outer join gives out a record with None where the
                window has none of the other input.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch, or there is no such join.
        """
        return JoinedStreams(self._input, _input_of(other, "join"), how)

    def co_group(self: K, other: K) -> CoGroupedStreams:
        """Group the records of both inputs of one key that lie in one window.

        Args:
            other: Keyed by columns of the same types.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch.
        """
        return CoGroupedStreams(self._input, _input_of(other, "co_group"))


class KeyedStream(Maps, Folds, WindowsAndJoins):
    """Records of a DataFrame partitioned by key; made by `key_by`."""

    def __init__(self, df: DataFrame, columns: Sequence[str]) -> None:
        if not isinstance(df, DataFrame):
            msg = f"key_by takes a Spark DataFrame, got {df!r}"
            raise DeclarationTypeError(msg)
        if not columns:
            msg = f"key_by takes at least one column, got none; choose from {df.columns}"
            raise DeclarationValueError(msg)
        for column in columns:
            check_column(df, column, "key_by")
        check_columns(df)
        self._df = df
        self._columns = tuple(columns)
        self._time_zone = time_zone_of(df.sparkSession)
        types = [df.schema[column].dataType for column in columns]
        self._key_type = key_type_of(types, self._time_zone)

    @options_shown(KeyedProcessOptions)
    def process(  # noqa: D417 - as shown, it has no `**options`
        self,
        function: KeyedProcessFunction | KeyedBatchFunction,
        output_type: Any,
        **options: Unpack[KeyedProcessOptions],
    ) -> DataFrame:
        """Apply a function to every record, with state and timers per key.

        Args:
            function: It is pickled to the workers and opened there.
            output_type: Of what it yields, or returns as columns: DDL, a `StructType` or
                `Types.ROW_NAMED`.
            event_time: A timestamp column; it makes `ctx.timestamp()` and event
                timers work.  On a stream without a watermark one is declared on it as Flink's
                `for_monotonous_timestamps` has it: the latest time seen less 1 ms.
            state_backend: Where working state is kept; `HashMapStateBackend()` by default.
            max_parallelism: Number of key groups, fixed for the life of a checkpoint.  By
                default it follows the number of partitions that the checkpoint was begun with,
                as Flink's follows the parallelism: the smallest multiple of it that is at least
                16.  Before Spark 4.1 it follows `spark.sql.shuffle.partitions`.
            uid: Names the operator: in messages, metrics and `get_task_name`, and in its
                checkpoint, which no operator of another name can continue from.  By default
                the name of the function's class; needed if a query has the same class twice.
            side_outputs: The tags whose outputs are wanted, with their types if the tags
                have none; outputs of other tags are dropped.
            job_parameters: For `RuntimeContext.get_job_parameter`.
            processing_time_timers: Whether the function registers processing-time
                timers on a stream.  By default this is read from its code.  Such a
                query runs a batch at every trigger, so `availableNow` never ends.
            from_savepoint: The state that a stream with a new checkpoint begins with: the
                directory of a savepoint (`take_savepoint`, a harness's `savepoint`), which the
                executors read; a `Savepoint` as it was edited, which needs what it was read from
                until the first micro-batch is over; or the bytes of `read_savepoint` or of a
                harness's `snapshot`.  Of any `max_parallelism` and backend.  A query that
                continues from its checkpoint ignores it.
            output_event_time: The column of the result, and of its side outputs, that holds
                their event time, for Spark's windows, joins and deduplication behind a
                stream.  By default a timestamp column with the name of `event_time`.
            before_watermark: A boolean column that says which records of a stream the operator
                before this one emitted while the watermark moved: they come before the watermark,
                as in Flink.  Not needed where the operator before is the `process` whose result
                `key_by` was given, or the column of its `output_before_watermark` is still there.
            output_before_watermark: A boolean column to add to the result, which says that; for
                DataFrame code between two operators with event time.
            arrival_order: Whether records with an event time are processed as they arrived, as in
                Flink's streaming mode, and not sorted by it within a micro-batch or batch.
            allow_pickle: Whether state may be unpickled: False refuses every declaration of
                `Types.PICKLED_BYTE_ARRAY()`, and RocksDB, whose local files hold pickles.
                `PYFLINKLIKE_ALLOW_PICKLE=0` in the environment has the same effect.

        Returns:
            The main output; with `side_outputs`, all outputs, to be split by
            `main_output`, `get_side_output` or `foreach_output`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            HostError: The settings of the session rule out keyed state, or the savepoint holds
                timers that the query could not fire.
            CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys
                do not have the key columns' types.
        """
        check_function(function, (KeyedProcessFunction, KeyedBatchFunction))
        given = ProcessOptions.of(options, KeyedProcessOptions)
        return applied(function, self._input(given), output_type, given)

    @overload
    def connect(self, other: KeyedStream) -> KeyedConnectedStreams: ...

    @overload
    def connect(self, other: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(
        self, other: KeyedStream | BroadcastStream
    ) -> KeyedConnectedStreams | BroadcastConnectedStream:
        """Have one function process the records of this keyed DataFrame and of another one.

        Args:
            other: Keyed by columns of the same types, or what `broadcast` gives.

        Raises:
            DeclarationTypeError: It is neither, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch.
        """
        if isinstance(other, BroadcastStream):
            return BroadcastConnectedStream(self._input, other)
        if not isinstance(other, KeyedStream):
            msg = (
                f"connect takes a keyed or a broadcast DataFrame, got {other!r}; call key_by or "
                "broadcast on it first"
            )
            raise DeclarationTypeError(msg)
        return KeyedConnectedStreams(self._input, other._input)

    def _input(self, options: ProcessOptions) -> OneInput:
        return OneInput.of(self._df, self._columns, self._key_type, self._time_zone, options)


@overload
def connect(first: DataFrame, second: DataFrame) -> ConnectedStreams: ...


@overload
def connect(first: DataFrame, second: BroadcastStream) -> BroadcastConnectedStream: ...


def connect(
    first: DataFrame, second: DataFrame | BroadcastStream
) -> ConnectedStreams | BroadcastConnectedStream:
    """Have one function process the records of two DataFrames.

    Args:
        first: Streaming or batch.
        second: As the first one, streaming or batch, with columns of its own; or what
            `broadcast` gives, for a `BroadcastProcessFunction`, which has no keys.

    Raises:
        DeclarationTypeError: One is no DataFrame.
        DeclarationValueError: One is a stream and the other a batch.
    """
    if not isinstance(second, BroadcastStream):
        return ConnectedStreams(first, second)
    _check_frame(first)
    check_columns(first)
    return BroadcastConnectedStream(lambda options: unkeyed(first, options), second)


class ConnectedStreams:
    """Two DataFrames that one function shall process; made by `connect`."""

    def __init__(self, first: DataFrame, second: DataFrame) -> None:
        for each in (first, second):
            _check_frame(each)
        check_both_stream(first, second)
        self._first, self._second = first, second

    def key_by(
        self, columns1: str | Sequence[str], columns2: str | Sequence[str] | None = None
    ) -> KeyedConnectedStreams:
        """Partition the records of both by key.

        Args:
            columns1: Name of the key column of the first input, or names of several.
            columns2: Those of the second input, of the same types; by default they have the same
                names.

        Raises:
            DeclarationTypeError: A column cannot be a key, or the keys have other types.
            DeclarationValueError: There is no such column.
        """
        first = KeyedStream(self._first, _names(columns1))
        second = KeyedStream(self._second, _names(columns1 if columns2 is None else columns2))
        return first.connect(second)


def _check_frame(df: object) -> None:
    if not isinstance(df, DataFrame):
        msg = f"connect takes two Spark DataFrames, got {df!r}; read it into one"
        raise DeclarationTypeError(msg)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)


K = TypeVar("K", bound="WindowsAndJoins")


def _input_of(other: Any, what: str) -> InputOf:
    if not isinstance(other, WindowsAndJoins):
        msg = f"{what} takes a keyed DataFrame, got {shown(other)}; call key_by on it first"
        raise DeclarationTypeError(msg)
    return other._input
