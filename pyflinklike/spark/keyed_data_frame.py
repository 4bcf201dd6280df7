# SPDX-License-Identifier: Apache-2.0
"""`key_by(df, "user").process(function, ...)`: keyed and connected DataFrames.

A DataFrame comes in and a DataFrame goes out, streaming or batch alike.  All arguments are checked
before the query starts, if that is possible.  If your work needs no state of a key, Spark's own
`select` and `where` are shorter and faster.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
from pyspark.sql import DataFrame

from pyflinklike._checks import options_shown
from pyflinklike._messages import short_repr
from pyflinklike._runtime.function_kinds import classes_of
from pyflinklike._type_vars import Unpack
from pyflinklike.aggregations._spark import Folds
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.element_functions import (
    FilterFunction,
    FlatMapFunction,
    MapFunction,
    as_filter_function,
    as_flat_map_function,
    as_map_function,
)
from pyflinklike.functions.process_functions import KeyedProcessFunction
from pyflinklike.joins._spark import CoGroupedDataFrames, IntervalJoined, JoinedDataFrames
from pyflinklike.spark._api.broadcast_data_frame import (
    BroadcastConnectedDataFrame,
    BroadcastDataFrame,
    make_unkeyed,
)
from pyflinklike.spark._api.connected_data_frames import KeyedConnectedDataFrames, check_both_stream
from pyflinklike.spark._api.inputs import Input, InputOf, OneInput
from pyflinklike.spark._api.query import apply_function, use_savepoints
from pyflinklike.spark._plan.operator_plan import Initial, Plan
from pyflinklike.spark._plan.process_options import (
    ElementOptions,
    KeyedProcessOptions,
    ProcessOptions,
    SavepointLike,
    SideOutputs,
    check_column,
    check_columns,
    check_function,
)
from pyflinklike.spark._plan.session import time_zone_of
from pyflinklike.spark._wire.schema import key_type_of
from pyflinklike.state.fold_functions import Function
from pyflinklike.windows._spark import WindowedDataFrame
from pyflinklike.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    WindowAssigner,
)

if TYPE_CHECKING:
    from pyflinklike.columns import KeyedBatchFunction

_HISTORY = "pyflinklike.state_processor._spark.history"


class _Savepoints:
    """The savepoints of `state_processor`, loaded by the first query that needs them."""

    def begin_stream(
        self, source: Input, plan: Plan, savepoint: SavepointLike | None
    ) -> tuple[Initial, Plan]:
        # A stream without a savepoint may still be the stream of a history, if there is one.
        if savepoint is None and _HISTORY not in sys.modules:
            return None, plan
        from pyflinklike.state_processor._spark import history

        return history.begin_stream(source, plan, savepoint)

    def save_batch(
        self, source: Input, plan: Plan, savepoint_to: str | os.PathLike[str]
    ) -> DataFrame:
        from pyflinklike.state_processor._spark import history

        return history.save_batch(source, plan, savepoint_to)


use_savepoints(_Savepoints())


def key_by(df: DataFrame, *columns: str) -> KeyedDataFrame:
    """Partition the records of a DataFrame by key.

    Example:
        ```python
        totals = key_by(payments, "user").process(RunningTotal(), "user string, total long")
        ```

    Args:
        df: A stream or a batch.
        columns: Names of the key columns.  If there is one, its plain value is the key; if there are
            several, the key is a tuple.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind, or a column cannot be a key.
        DeclarationValueError: There is no such column, or no column is given.
    """
    return KeyedDataFrame(df, columns)


class KeyedDataFrame(Folds):
    """Records of a DataFrame partitioned by key; made by `key_by`.

    Each method that makes a DataFrame takes the options of `process` by keyword.  `map`, `flat_map`
    and `filter` take a callable of a record, or an object whose `open` obtains state of keys.

    Example:
        ```python
        parts = key_by(df, "user").flat_map(lambda row: row.text.split(), Types.STRING())
        minutes = key_by(df, "user").window(TumblingEventTimeWindows.of(Time.minutes(1)))
        sums = minutes.sum("amount", event_time="at")
        ```
    """

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

    @options_shown(KeyedProcessOptions, ProcessOptions)
    def process(  # noqa: D417 - as shown, it has no `**options`
        self,
        function: KeyedProcessFunction | KeyedBatchFunction,
        output_type: Any,
        **options: Unpack[KeyedProcessOptions],
    ) -> DataFrame:
        """Apply a function to every record, with state and timers per key.

        Args:
            function: The function, which is pickled to the workers and opened there.
            output_type: The type of what it yields, or returns as columns: DDL, a `StructType` or
                `Types.ROW_NAMED`.
            event_time: A timestamp column; it makes `ctx.timestamp()` and event
                timers work.  If a stream has no watermark, one is declared on this column as by
                Flink's `for_monotonous_timestamps`: the latest time seen less 1 ms.
            state_backend: Holds the working state; `HashMapStateBackend()` by default.
            max_parallelism: Number of key groups, fixed for the life of a checkpoint.  By default
                it is the smallest multiple, from 16 on, of the number of partitions that the
                checkpoint was begun with, as Flink's default follows the parallelism.  Before
                Spark 4.1 it follows `spark.sql.shuffle.partitions`.
            uid: The name of the operator in messages, metrics and `get_task_name`, and in its
                checkpoint: no operator with another name can continue from it.  The default is the
                name of the function's class, so a query with the same class twice needs it.
            side_outputs: The tags whose outputs are wanted, or a mapping that gives types to tags
                without a type; outputs of other tags are dropped.
            job_parameters: Values for `RuntimeContext.get_job_parameter`, by name.
            processing_time_timers: Whether the function registers processing-time timers on a
                stream.  By default we search its code for them.  A query with such timers runs a
                batch at every trigger, so `availableNow` never ends.
            from_savepoint: The state that a stream with a new checkpoint begins with: the
                directory of a savepoint (`take_savepoint`, `write_savepoint`), which the
                executors read; an edited `Savepoint`, whose origin must exist until the first
                micro-batch is over; or the bytes of `read_savepoint` or of a harness's
                `snapshot`.  Its `max_parallelism` and backend may differ from the query's.  A query
                that continues from its checkpoint ignores it.  If a batch wrote the savepoint, the
                stream begins at the watermark of that batch.
            savepoint_to: The directory to which a batch writes its state, as a stream that was read
                so far: timers that are not due stay, and no timer fires for the end of the input.
                The executors write it while the result is read; it is complete once all rows were
                read.  Read the batch with `history_of`, whose `stream` goes on.
            watermark_delay: How late records may be, such as "10 minutes".  It replaces
                `withWatermark`, because Spark does not report the delay of that in a batch.  Give
                it once, to the first operator.
            output_event_time: The column of event time in the result and its side outputs, which
                Spark's windows, joins and deduplication use behind a stream.  By default it is a
                timestamp column with the name of `event_time`.
            before_watermark: A boolean column, true for the records of a stream that the operator
                before this one emitted while the watermark moved: they come before the watermark,
                as in Flink.  You do not need it if `key_by` got the result of that operator itself,
                or if the column of its `output_before_watermark` is still there.
            output_before_watermark: The name of such a column to add to the result, for DataFrame
                code between two operators with event time.
            arrival_order: Whether records with an event time are processed as they arrived, as in
                Flink's streaming mode, instead of sorted within a micro-batch or batch.
            allow_pickle: Whether state may be unpickled: False refuses every declaration of
                `Types.PICKLED_BYTE_ARRAY()`, and RocksDB, whose local files hold pickles.
                `PYFLINKLIKE_ALLOW_PICKLE=0` in the environment has the same effect.
            on_error: `DeadLetters(tag)` to go on if the function raises: the record or timer
                becomes a row of that side output, and all changes of the call are undone.  By
                default the query fails.
            drop_states: Names of states that the function no longer declares, to remove them from
                the checkpoint.  A key group loses them in its next micro-batch with records, and
                the metric `dropped_entries` counts them.  Keep the option until every key group
                has had records; an earlier restart without it is refused.

        Returns:
            The main output; with `side_outputs` or `on_error`, all outputs, to be split by
            `main_output`, `get_side_output` or `foreach_batch_output`.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
            SparkSetupError: The settings of the session rule out keyed state, or the savepoint holds
                timers that the query could not fire.
            CorruptStateError, IncompatibleStateError: The savepoint is damaged, or its keys do not
                have the types of the key columns.
        """
        check_function(function, classes_of(lambda kind: kind.has_process))
        given = ProcessOptions.of(options, KeyedProcessOptions)
        return apply_function(function, self._input(given), output_type, given)

    def map(
        self,
        func: MapFunction | Callable[[Any], Any],
        output_type: Any,
        *,
        side_outputs: SideOutputs = (),
        **options: Unpack[ElementOptions],
    ) -> DataFrame:
        """Make one row of each record.

        Args:
            func: Called with a record, a `Row` of the columns of the DataFrame.
            output_type: The type of the rows: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted.
            **options: The options of `process`.

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
        """Make any number of rows of each record.

        Args:
            func: Called with a record; returns an iterable of rows, or None for no row.
            output_type: The type of the rows: DDL, a `StructType` or `Types.ROW_NAMED`.
            side_outputs: The tags whose outputs are wanted.
            **options: The options of `process`.

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
        """Pass on the records for which a function is true, unchanged.

        Args:
            func: Called with a record.
            **options: The options of `process`.

        Returns:
            The records, with the columns of the DataFrame.

        Raises:
            DeclarationTypeError, DeclarationValueError: An argument is wrong.
        """
        return self._each(as_filter_function(func), "Filter", self._df.schema, (), options)

    def window(self, assigner: WindowAssigner[Any, Any]) -> WindowedDataFrame:
        """Put the records of each key into windows.

        Args:
            assigner: An assigner of `pyflinklike.windows`, such as
                `TumblingEventTimeWindows.of(...)`.

        Raises:
            DeclarationTypeError: It is not an assigner.
        """
        return WindowedDataFrame(self._input, assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedDataFrame:
        """Put the records of each key into windows of a number of records.

        Args:
            size: How many records are in a window.
            slide: The number of records from the start of a window to the start of the next; 0 for
                windows that do not overlap.

        Raises:
            DeclarationTypeError, DeclarationValueError: A number is not a positive int.
        """
        if slide == 0:
            return WindowedDataFrame(self._input, CountTumblingWindowAssigner(size))
        return WindowedDataFrame(self._input, CountSlidingWindowAssigner(size, slide))

    def interval_join(self, other: KeyedDataFrame, how: str = "inner") -> IntervalJoined:
        """Join records of the same key whose times are within an interval of each other.

        Args:
            other: A DataFrame keyed by columns of the same types.
            how: "inner", "left_outer", "right_outer" or "full_outer", or another name that Spark has
                for one of them.  An outer join emits a record alone once no partner can come.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch, or there is no such join.
        """
        return IntervalJoined(self._input, _input_of(other, "interval_join"), how)

    def join(self, other: KeyedDataFrame, how: str = "inner") -> JoinedDataFrames:
        """Join records of one key that lie in one window.

        Args:
            other: A DataFrame keyed by columns of the same types.
            how: A kind of join, as `interval_join` takes it.  An outer join emits a record with
                None if the window has no record of the other input.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch, or there is no such join.
        """
        return JoinedDataFrames(self._input, _input_of(other, "join"), how)

    def co_group(self, other: KeyedDataFrame) -> CoGroupedDataFrames:
        """Group the records of both inputs of one key that lie in one window.

        Args:
            other: A DataFrame keyed by columns of the same types.

        Raises:
            DeclarationTypeError: It is not a keyed DataFrame, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch.
        """
        return CoGroupedDataFrames(self._input, _input_of(other, "co_group"))

    @overload
    def connect(self, other: KeyedDataFrame) -> KeyedConnectedDataFrames: ...

    @overload
    def connect(self, other: BroadcastDataFrame) -> BroadcastConnectedDataFrame: ...

    def connect(
        self, other: KeyedDataFrame | BroadcastDataFrame
    ) -> KeyedConnectedDataFrames | BroadcastConnectedDataFrame:
        """Have one function process the records of this keyed DataFrame and of another one.

        Args:
            other: A DataFrame keyed by columns of the same types, or the result of `broadcast`.

        Raises:
            DeclarationTypeError: It is neither, or its keys have other types.
            DeclarationValueError: One is a stream and the other a batch.
        """
        if isinstance(other, BroadcastDataFrame):
            return BroadcastConnectedDataFrame(self._input, other)
        if not isinstance(other, KeyedDataFrame):
            msg = (
                f"connect takes a keyed or a broadcast DataFrame, got {other!r}; call key_by or "
                "broadcast on it first"
            )
            raise DeclarationTypeError(msg)
        return KeyedConnectedDataFrames(self._input, other._input)

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
        return apply_function(function, self._input(given), output_type, given)

    def _input(self, options: ProcessOptions) -> OneInput:
        return OneInput.of(self._df, self._columns, self._key_type, self._time_zone, options)


def _input_of(other: Any, what: str) -> InputOf:
    if not isinstance(other, KeyedDataFrame):
        msg = f"{what} takes a keyed DataFrame, got {short_repr(other)}; call key_by on it first"
        raise DeclarationTypeError(msg)
    return other._input


@overload
def connect(first: DataFrame, second: DataFrame) -> ConnectedDataFrames: ...


@overload
def connect(first: DataFrame, second: BroadcastDataFrame) -> BroadcastConnectedDataFrame: ...


def connect(
    first: DataFrame, second: DataFrame | BroadcastDataFrame
) -> ConnectedDataFrames | BroadcastConnectedDataFrame:
    """Have one function process the records of two DataFrames.

    Args:
        first: A stream or a batch.
        second: A stream or a batch like the first, which may have other columns; or the result of
            `broadcast`, for a `BroadcastProcessFunction`, which has no keys.

    Raises:
        DeclarationTypeError: One is not a DataFrame.
        DeclarationValueError: One is a stream and the other a batch.
    """
    if not isinstance(second, BroadcastDataFrame):
        return ConnectedDataFrames(first, second)
    _check_frame(first)
    check_columns(first)
    return BroadcastConnectedDataFrame(lambda options: make_unkeyed(first, options), second)


class ConnectedDataFrames:
    """Two DataFrames for one function; made by `connect`."""

    def __init__(self, first: DataFrame, second: DataFrame) -> None:
        for each in (first, second):
            _check_frame(each)
        check_both_stream(first, second)
        self._first, self._second = first, second

    def key_by(
        self, columns1: str | Sequence[str], columns2: str | Sequence[str] | None = None
    ) -> KeyedConnectedDataFrames:
        """Partition the records of both DataFrames by key.

        Args:
            columns1: Name of the key column of the first input, or names of several.
            columns2: The key columns of the second input, of the same types; by default the same
                names.

        Raises:
            DeclarationTypeError: A column cannot be a key, or the keys have other types.
            DeclarationValueError: There is no such column.
        """
        first = KeyedDataFrame(self._first, _names(columns1))
        second = KeyedDataFrame(self._second, _names(columns1 if columns2 is None else columns2))
        return first.connect(second)


def _check_frame(df: object) -> None:
    if not isinstance(df, DataFrame):
        msg = f"connect takes two Spark DataFrames, got {df!r}; read it into one"
        raise DeclarationTypeError(msg)


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    return (columns,) if isinstance(columns, str) else tuple(columns)
