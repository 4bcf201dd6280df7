# SPDX-License-Identifier: Apache-2.0
"""The entry: `key_by(df, "user").process(function, ...)`.

A DataFrame comes in and a DataFrame goes out, streaming or batch alike.  This
module checks everything that can be checked before the query starts, chooses
the time mode, and writes the plan:

    streaming  select key group -> pack -> groupBy(key group).transformWithState -> observe -> unpack
               (on PySpark 3.5 applyInPandasWithState: `pyflinklike.spark.hosts.choice`)
               (beginning with a savepoint, if one is given: `pyflinklike.spark.savepoints`)
    batch      select key group -> repartition, sort -> run
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everyone writes it

from pyflinklike.api.keyed_batch import KeyedBatchFunction
from pyflinklike.api.output_tag import OutputTag
from pyflinklike.api.process import KeyedProcessFunction
from pyflinklike.backends.base import StateBackend
from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.runtime.contexts import TaskInfo
from pyflinklike.spark.folds import Folds
from pyflinklike.spark.hosts.batch import run_batch
from pyflinklike.spark.hosts.choice import HAS_TRANSFORM_WITH_STATE, streaming_host
from pyflinklike.spark.hosts.cycle_collector import with_imports_frozen
from pyflinklike.spark.hosts.observation import observed
from pyflinklike.spark.hosts.telling import telling_each
from pyflinklike.spark.savepoints import initial_rows
from pyflinklike.spark.setup.checks import (
    check_column,
    check_function,
    check_max_parallelism,
    check_pickle,
    check_savepoint,
    checked_backend,
    holds_accumulators,
)
from pyflinklike.spark.setup.columnar import in_columns
from pyflinklike.spark.setup.event_time import event_time_mark, with_event_time
from pyflinklike.spark.setup.outputs import DeclaredOutputs
from pyflinklike.spark.setup.plan import Plan, TimeMode
from pyflinklike.spark.setup.requirements import packages_checked
from pyflinklike.spark.setup.settings import (
    default_max_parallelism,
    partitions_of,
    time_zone_of,
)
from pyflinklike.spark.setup.shipping import put_wheels_on_path
from pyflinklike.spark.setup.timer_use import uses_processing_timers
from pyflinklike.spark.wire.batch_time import with_batch_time
from pyflinklike.spark.wire.key_hash import key_group
from pyflinklike.spark.wire.names import ARRIVAL, BATCH_TIME, KEY_GROUP, quoted
from pyflinklike.spark.wire.records import RecordReader
from pyflinklike.spark.wire.schema import key_type_of
from pyflinklike.types.pickle_switch import pickle_allowed

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


class KeyedStream(Folds):
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
        reserved = {KEY_GROUP, BATCH_TIME, ARRIVAL} & set(df.columns)
        if reserved:
            msg = f"columns {sorted(reserved)} are the runtime's own, got them in {df.columns}"
            raise DeclarationValueError(f"{msg}; rename them")
        unusable = [name for name in df.columns if "." in name or "`" in name]
        if unusable:
            msg = (
                f"Spark's mapInArrow takes no column with a dot or a backtick in its name, "
                f"got {unusable}; rename them"
            )
            raise DeclarationValueError(msg)
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
        from_savepoint: bytes | None = None,
        output_event_time: str | None = None,
        allow_pickle: bool = True,
    ) -> DataFrame:
        """Apply a function to every record, with state and timers per key.

        Args:
            function: It is pickled to the workers and opened there.
            output_type: Of what it yields, or returns as columns: DDL, a `StructType` or `Types.ROW_NAMED`.
            event_time: A timestamp column; it makes `ctx.timestamp()` and event
                timers work.  On a stream without a watermark one is declared on it
                with no delay, as Flink's `for_monotonous_timestamps`.
            state_backend: Where working state is kept; `HashMapStateBackend()` by default.
            max_parallelism: Number of key groups, fixed for the life of a checkpoint.  By
                default it follows the number of shuffle partitions, as Flink's follows the
                parallelism: the smallest multiple of it that is at least 16.
            uid: Names the operator: in messages, metrics and `get_task_name`, and in its
                checkpoint, which no operator of another name can continue from.  By default
                the name of the function's class; needed if a query has the same class twice.
            side_outputs: The tags whose outputs are wanted, with their types if the tags
                have none; outputs of other tags are dropped.
            job_parameters: For `RuntimeContext.get_job_parameter`.
            processing_time_timers: Whether the function registers processing-time
                timers on a stream.  By default this is read from its code.  Such a
                query runs a batch at every trigger, so `availableNow` never ends.
            from_savepoint: The state that a stream with a new checkpoint begins with: the bytes
                of `read_savepoint` or of a harness's `snapshot`, of any `max_parallelism`
                and backend.  A query that continues from its checkpoint ignores it.
            output_event_time: The column of the result, and of its side outputs, that holds
                their event time, for Spark's windows, joins and deduplication behind a
                stream.  By default a timestamp column with the name of `event_time`.
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
        check_function(function)
        df = self._df if event_time is None else with_event_time(self._df, event_time)
        name = uid or type(function).__name__
        time_mode = _time_mode(function, event_time, processing_time_timers)
        outputs = DeclaredOutputs.of(df, self._columns, output_type, side_outputs)
        schemas = outputs.described()
        passes = HAS_TRANSFORM_WITH_STATE and time_mode.passes_watermark
        mark = event_time_mark(df, event_time, output_event_time, schemas, passes=passes)
        layout = outputs.layout(mark, self._time_zone, name)
        check_pickle(function)
        backend = HashMapStateBackend() if state_backend is None else state_backend
        plan = Plan(
            function=function,
            state_backend=checked_backend(backend),
            key_type=self._key_type,
            task=self._task(name, max_parallelism, job_parameters),
            time_mode=time_mode,
            reader=RecordReader(self._columns, event_time, self._key_type, self._time_zone),
            layout=layout,
            plan_id=f"{name}-{uuid.uuid4()}",
            allow_pickle=pickle_allowed(allow_pickle),
            keeps_open=not holds_accumulators(function),
        )
        return self._planned(df, in_columns(plan), from_savepoint)

    def _task(
        self, name: str, max_parallelism: int | None, job_parameters: Mapping[str, str] | None
    ) -> TaskInfo:
        spark, schema = self._df.sparkSession, self._df.schema
        if max_parallelism is None:
            max_parallelism = default_max_parallelism(spark)
        check_max_parallelism(max_parallelism)
        return TaskInfo(
            name,
            parallelism=partitions_of(spark),
            max_parallelism=max_parallelism,
            job_parameters=dict(job_parameters or {}),
            key_columns=tuple(
                (each, schema[each].dataType.simpleString()) for each in self._columns
            ),
        )

    def _planned(self, df: DataFrame, plan: Plan, savepoint: bytes | None) -> DataFrame:
        if savepoint is not None:
            check_savepoint(savepoint, is_streaming=df.isStreaming)
        put_wheels_on_path(df.sparkSession)
        with packages_checked():
            return self._stream(df, plan, savepoint) if df.isStreaming else self._batch(df, plan)

    def _keyed(self, df: DataFrame, plan: Plan) -> DataFrame:
        group = key_group(self._columns, plan.task.max_parallelism)
        return df.select(group.alias(KEY_GROUP), "*")

    def _stream(self, df: DataFrame, plan: Plan, savepoint: bytes | None) -> DataFrame:
        serve_key_groups = streaming_host()
        initial = [] if savepoint is None else initial_rows(df, plan, savepoint)
        results = serve_key_groups(self._keyed(df, plan), plan, initial)
        payloads = observed(results, plan.task.name)
        unpacking = with_imports_frozen(telling_each(plan.layout.unpacker()))
        result: DataFrame = payloads.mapInArrow(unpacking, plan.layout.result_type())
        return result

    def _batch(self, df: DataFrame, plan: Plan) -> DataFrame:
        keyed = with_batch_time(self._keyed(df, plan)).withColumn(
            ARRIVAL, F.monotonically_increasing_id()
        )
        order: list[Any] = [KEY_GROUP, ARRIVAL]
        if plan.reader.event_time is not None:
            # By ms, as `ctx.timestamp()` and a stream: within one ms in the order of arrival.
            order.insert(1, F.unix_millis(quoted(plan.reader.event_time)))
        sorted_df = keyed.repartition(KEY_GROUP).sortWithinPartitions(*order).drop(ARRIVAL)
        running = with_imports_frozen(run_batch(plan))
        return sorted_df.mapInArrow(running, plan.layout.result_type())


def _time_mode(
    function: object, event_time: str | None, processing_time_timers: bool | None
) -> TimeMode:
    if processing_time_timers is None:
        processing_time_timers = uses_processing_timers(function)
    if processing_time_timers:
        return TimeMode.PROCESSING_TIME
    return TimeMode.NONE if event_time is None else TimeMode.EVENT_TIME
