# SPDX-License-Identifier: Apache-2.0
"""Makes the query of a function over keyed records of any kind (`_api.inputs`).

Each check that needs no running query is made here, before the query starts.  Spark's plans:

    streaming  select key group -> pack -> groupBy(key group).transformWithState -> observe -> unpack
               (on PySpark 3.5 applyInPandasWithState; with a savepoint, its state comes first)
    batch      select key group -> repartition, sort -> run
               (with savepoint_to, a last row in each key group makes it write its state)

The plan of a `KeyedBatchFunction` is the same, but its records and outputs stay columns.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from functools import singledispatch
from typing import Any, Protocol

import attrs
from pyspark.sql import DataFrame

from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import kind_of
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import DeclarationValueError
from pyflinklike.functions.process_functions import refuse_checkpointed_function
from pyflinklike.spark._api.inputs import Input
from pyflinklike.spark._host.batch_host import run_batch
from pyflinklike.spark._host.collector_freeze import with_imports_frozen
from pyflinklike.spark._host.host_choice import HAS_TRANSFORM_WITH_STATE, choose_host
from pyflinklike.spark._host.observed_metrics import observe_inputs, observe_payloads
from pyflinklike.spark._host.worker_errors import tell_errors_of_each
from pyflinklike.spark._plan.declared_outputs import DeclaredOutputs
from pyflinklike.spark._plan.event_time import event_time_mark
from pyflinklike.spark._plan.operator_chain import keep_phases
from pyflinklike.spark._plan.operator_plan import Initial, Plan, TimeMode
from pyflinklike.spark._plan.process_options import (
    ProcessOptions,
    SavepointLike,
    check_backend,
    check_dropped,
    check_max_parallelism,
    check_pickle,
    holds_accumulators,
)
from pyflinklike.spark._plan.requirements import packages_checked
from pyflinklike.spark._plan.session import partitions_of, partitions_told, prepare_workers
from pyflinklike.spark._plan.timer_use import uses_processing_timers
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.system_columns import (
    BEFORE_WATERMARK,
    KEY_GROUP,
    with_batch_time,
)
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import Function
from pyflinklike.types.pickled_type import pickle_allowed

__all__ = ["QuerySavepoints", "apply_function", "apply_plan", "use_savepoints"]


class QuerySavepoints(Protocol):
    """How a stream begins with a savepoint, and how a batch writes one.

    The core knows no format of savepoints.  `state_processor` implements this protocol.
    """

    def begin_stream(
        self, source: Input, plan: Plan, savepoint: SavepointLike | None
    ) -> tuple[Initial, Plan]:
        """Return the state with which an operator of a stream begins, and its plan.

        Args:
            source: The keyed records of the operator.
            plan: The plan of the operator.
            savepoint: As the user gave it; None for no state.
        """

    def save_batch(
        self, source: Input, plan: Plan, savepoint_to: str | os.PathLike[str]
    ) -> DataFrame:
        """Apply a plan to a batch, at whose end the operator writes its state.

        Args:
            source: The keyed records of the operator.
            plan: The plan of the operator.
            savepoint_to: The directory, as the user gave it.
        """


_savepoints: list[QuerySavepoints] = []


def use_savepoints(savepoints: QuerySavepoints) -> None:
    """Set how queries begin with savepoints and write them."""
    _savepoints[:] = [savepoints]


def apply_function(
    function: Function,
    source: Input,
    output_type: Any,
    options: ProcessOptions,
    broadcast_states: tuple[MapStateDescriptor, ...] = (),
) -> DataFrame:
    """Apply a function to records, and return the result of the query.

    Args:
        function: The user's function; the caller has checked that it fits the records.
        source: The records, made with the same options.
        output_type: The type of the main output: DDL, a `StructType` or `Types.ROW_NAMED`.
        options: The options of the operator.
        broadcast_states: The states of the broadcast input, if there is one.

    Raises:
        DeclarationTypeError, DeclarationValueError: An argument is wrong.
        SparkSetupError: The settings of the session rule out keyed state, or the savepoint holds
            timers that the query could not fire.
        CorruptStateError, IncompatibleStateError: The savepoint cannot be restored.
    """
    name = options.uid or type(function).__name__
    _check_delay(options)
    time_mode = _time_mode(function, source.event_time, options.processing_time_timers)
    outputs = DeclaredOutputs.of(source.df, source.columns, output_type, options.side_outputs)
    if options.on_error is not None:
        outputs = outputs.with_letters(options.on_error, source.key_fields())
    layout = _layout(outputs, source, name, options, time_mode)
    refuse_checkpointed_function(function)
    check_pickle(function)
    backend = HashMapStateBackend() if options.state_backend is None else options.state_backend
    plan = Plan(
        function=function,
        state_backend=check_backend(backend),
        key_type=source.reader.key_type,
        task=_task(source, name, options.max_parallelism, options.job_parameters),
        key_groups=source.key_groups() if _follows(source, options.max_parallelism) else None,
        time_mode=time_mode,
        reader=source.reader,
        layout=layout,
        plan_id=f"{name}-{uuid.uuid4()}",
        allow_pickle=pickle_allowed(options.allow_pickle),
        keeps_open=not holds_accumulators(function),
        broadcast_states=broadcast_states,
        on_error=options.on_error,
        drop_states=check_dropped(
            options.drop_states, options.from_savepoint, is_streaming=source.df.isStreaming
        ),
    )
    made, began = kind_of(function).on_spark(plan), options.from_savepoint
    return apply_plan(source.df, source, made, began, options.savepoint_to)


def _check_delay(options: ProcessOptions) -> None:
    if options.watermark_delay is not None and options.event_time is None:
        msg = (
            f"watermark_delay needs an event time, got {options.watermark_delay!r} without one; "
            'pass event_time="<column>", too'
        )
        raise DeclarationValueError(msg)


def _layout(
    outputs: DeclaredOutputs, source: Input, name: str, options: ProcessOptions, mode: TimeMode
) -> OutputLayout:
    described, passes = outputs.describe(), HAS_TRANSFORM_WITH_STATE and mode.passes_watermark
    mark = event_time_mark(
        source.df, source.event_time, options.output_event_time, described, passes=passes
    )
    return outputs.layout(mark, source.reader.time_zone, name, options.output_before_watermark)


def _task(
    source: Input,
    name: str,
    max_parallelism: int | None,
    job_parameters: Mapping[str, str] | None,
) -> TaskInfo:
    spark, schema = source.df.sparkSession, source.df.schema
    if max_parallelism is None:
        max_parallelism = source.key_groups()(partitions_of(spark))
    check_max_parallelism(max_parallelism)
    return TaskInfo(
        name,
        parallelism=partitions_of(spark),
        max_parallelism=max_parallelism,
        job_parameters=dict(job_parameters or {}),
        key_columns=tuple(
            (name, schema[column].dataType.simpleString())
            for name, column in zip(source.key_names(), source.columns)
        ),
    )


def _follows(source: Input, max_parallelism: int | None) -> bool:
    """Return whether the number of key groups follows the partitions of a stream's checkpoint."""
    session = source.df.sparkSession
    return max_parallelism is None and source.df.isStreaming and bool(partitions_told(session))


@singledispatch
def apply_plan(
    _: DataFrame,
    source: Input,
    plan: Plan,
    savepoint: SavepointLike | None,
    savepoint_to: str | os.PathLike[str] | None = None,
) -> DataFrame:
    """Apply a plan to records as the kind of their DataFrame needs.

    A DataFrame of Spark goes to Spark.  Another kind of DataFrame registers its own function here:
    the simulated Spark of the tests keeps the plan.

    Args:
        source: The keyed records of the operator.
        plan: The plan of the operator.
        savepoint: The state that the query begins with, as the user gave it.
        savepoint_to: The directory to which a batch writes its state, as the user gave it.
    """
    is_streaming = source.df.isStreaming
    if savepoint is not None and not is_streaming:
        msg = (
            "from_savepoint is for a stream, got it for a batch DataFrame; restore the savepoint in a "
            "KeyedProcessHarness, or stream the data with trigger(availableNow=True)"
        )
        raise DeclarationValueError(msg)
    if savepoint_to is not None and is_streaming:
        msg = (
            "savepoint_to is for a batch, which writes its state at its end, got "
            f"{savepoint_to!r} for a stream; use take_savepoint() on its checkpoint"
        )
        raise DeclarationValueError(msg)
    prepare_workers(source.df.sparkSession)
    with packages_checked():
        if is_streaming:
            return _stream(source, plan, savepoint)
        if savepoint_to is None:
            return _batch(source, plan)
        return _savepoints[0].save_batch(source, plan, savepoint_to)


def _stream(source: Input, plan: Plan, savepoint: SavepointLike | None) -> DataFrame:
    serve_key_groups = choose_host()
    initial, plan = _savepoints[0].begin_stream(source, plan, savepoint)
    groups = plan.task.max_parallelism if plan.key_groups is None else None
    keyed, times = source.key_stream(groups), source.event_times()
    if times:
        keyed = observe_inputs(keyed, plan.task.name, times)
    results = serve_key_groups(keyed, plan, initial)
    # Observed before they are unpacked: the counts of a key group are in a column of its payloads.
    payloads = observe_payloads(results, [plan])
    result = _unpack(payloads, plan.layout)
    if plan.tells_phases():
        layout = attrs.evolve(plan.layout, before_watermark=BEFORE_WATERMARK)
        keep_phases(result, _unpack(payloads, layout))
    return result


def _unpack(payloads: DataFrame, layout: OutputLayout) -> DataFrame:
    unpacking = with_imports_frozen(tell_errors_of_each(layout.unpacker()))
    result: DataFrame = payloads.mapInArrow(unpacking, layout.result_type())
    return result


def _batch(source: Input, plan: Plan) -> DataFrame:
    arrived = with_batch_time(source.key_batch(plan.task.max_parallelism))
    grouped = arrived.repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP, *source.order())
    running = with_imports_frozen(run_batch(plan))
    records = grouped.drop(*source.name_sorting_columns())
    return records.mapInArrow(running, plan.layout.result_type())


def _time_mode(
    function: Function, event_time: str | None, processing_time_timers: bool | None
) -> TimeMode:
    if processing_time_timers is None:
        processing_time_timers = uses_processing_timers(function)
    if processing_time_timers:
        return TimeMode.PROCESSING_TIME
    return TimeMode.NONE if event_time is None else TimeMode.EVENT_TIME
