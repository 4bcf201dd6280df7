# SPDX-License-Identifier: Apache-2.0
"""The entry: `key_by(df, "user").process(function, ...)`.

A DataFrame comes in and a DataFrame goes out, streaming or batch alike.  This module checks
the keyed DataFrame; `operators` makes the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from pyspark.sql import DataFrame

from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.spark.broadcast_streams import BroadcastConnectedStream, BroadcastStream
from pyflinklike.spark.folds import Folds
from pyflinklike.spark.inputs import OneInput
from pyflinklike.spark.keyed_connected_streams import KeyedConnectedStreams
from pyflinklike.spark.maps import Maps
from pyflinklike.spark.operators import applied
from pyflinklike.spark.setup.checks import check_column, check_columns, check_function
from pyflinklike.spark.setup.options import SavepointLike
from pyflinklike.spark.setup.settings import time_zone_of
from pyflinklike.spark.windows_and_joins import WindowsAndJoins
from pyflinklike.spark.wire.schema import key_type_of

__all__ = ["KeyedStream", "key_by"]


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

    # Folds pass its options on, so these are told from others here, and only here.
    def process(  # type: ignore[override]
        self,
        function: KeyedProcessFunction | KeyedBatchFunction,
        output_type: Any,
        *,
        event_time: str | None = None,
        state_backend: StateBackend | None = None,
        max_parallelism: int | None = None,
        uid: str | None = None,
        side_outputs: Iterable[OutputTag] | Mapping[OutputTag, Any] = (),
        job_parameters: Mapping[str, str] | None = None,
        processing_time_timers: bool | None = None,
        from_savepoint: SavepointLike | None = None,
        output_event_time: str | None = None,
        before_watermark: str | None = None,
        output_before_watermark: str | None = None,
        arrival_order: bool = False,
        allow_pickle: bool = True,
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
        return applied(
            function,
            self._input(event_time, before_watermark=before_watermark, arrival_order=arrival_order),
            output_type,
            state_backend=state_backend,
            max_parallelism=max_parallelism,
            uid=uid,
            side_outputs=side_outputs,
            job_parameters=job_parameters,
            processing_time_timers=processing_time_timers,
            from_savepoint=from_savepoint,
            output_event_time=output_event_time,
            output_before_watermark=output_before_watermark,
            allow_pickle=allow_pickle,
        )

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

    def _input(self, event_time: str | None, **options: Any) -> OneInput:
        types = self._key_type, self._time_zone
        return OneInput.of(self._df, self._columns, event_time, *types, **options)
