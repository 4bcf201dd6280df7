# SPDX-License-Identifier: Apache-2.0
"""Makes the query of a function over keyed records of any kind (`_api.inputs`).

Each check that needs no running query is made here, before the query starts.  Spark's plans:

    streaming  select key group -> pack -> groupBy(key group).transformWithState -> observe -> unpack
               (on PySpark 3.5 applyInPandasWithState; with a savepoint, its state comes first)
    batch      select key group -> repartition, sort -> run
               (with savepoint_to, a last row in each key group makes it write its state)

The plan of a `KeyedBatchFunction` is the same, but its records and outputs stay columns.

Spark hands a stateful operator the rows of each grouping key as pandas or Arrow batches of their own.
If there are many keys with one row each, that costs more than the function.  So a stage before the
shuffle packs the records of a key group into few rows, and the host unpacks them.
https://github.com/apache/spark/blob/master/python/pyspark/sql/pandas/map_ops.py shows how Spark
calls `mapInArrow`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import singledispatch
from typing import Any, Protocol

import attrs
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import types as st

from pyflinklike._messages import short_repr
from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike._runtime.function_kinds import kind_of
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.functions.code_search import uses_processing_timers
from pyflinklike.functions.dead_letters import LETTER_FIELDS, DeadLetters
from pyflinklike.functions.output_tag import ChangelogTag, OutputTag
from pyflinklike.functions.process_functions import refuse_checkpointed_function
from pyflinklike.spark._api.inputs import Input
from pyflinklike.spark._api.results import keep_phases, without_phases
from pyflinklike.spark._host.batch_host import run_batch
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._host.observed_metrics import observe_inputs, observe_payloads
from pyflinklike.spark._plan.event_time import EventTimeMark, event_time_mark
from pyflinklike.spark._plan.operator_plan import Initial, Plan, TimeMode
from pyflinklike.spark._plan.process_options import (
    ProcessOptions,
    SavepointLike,
    SideOutputs,
    check_backend,
    check_dropped,
    check_max_parallelism,
    check_pickle,
    holds_accumulators,
)
from pyflinklike.spark._plan.requirements import packages_checked
from pyflinklike.spark._plan.session import (
    HAS_TRANSFORM_WITH_STATE,
    partitions_of,
    partitions_told,
    prepare_workers,
)
from pyflinklike.spark._wire.key_groups import group_ids
from pyflinklike.spark._wire.output_layout import OutputLayout
from pyflinklike.spark._wire.payloads import (
    PACKED_SCHEMA,
    Packing,
    call_homes,
    partitions_of_state,
)
from pyflinklike.spark._wire.record_readers import Reader
from pyflinklike.spark._wire.schema import changelog_schema, output_schema
from pyflinklike.spark._wire.system_columns import (
    BEFORE_WATERMARK,
    KEY_GROUP,
    OUTPUT_TAG,
    with_batch_time,
)
from pyflinklike.state.descriptors import MapStateDescriptor
from pyflinklike.state.fold_functions import Function
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.pickled_type import pickle_allowed


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
    # Imported late: each module names classes that the PySpark of the other does not have.
    if HAS_TRANSFORM_WITH_STATE:
        from pyflinklike.spark._host.streaming_host import serve_payloads
    else:
        from pyflinklike.spark._host.group_state_host import serve_payloads
    initial, plan = _savepoints[0].begin_stream(source, plan, savepoint)
    groups = plan.task.max_parallelism if plan.key_groups is None else None
    keyed, times = source.key_stream(groups), source.event_times()
    if times:
        keyed = observe_inputs(keyed, plan.task.name, times)
    results = serve_payloads(pack_records(keyed, plan), [plan], initial)
    # Observed before they are unpacked: the counts of a key group are in a column of its payloads.
    payloads = observe_payloads(results, [plan])
    result = _unpack(payloads, plan.layout)
    if plan.reports_phases():
        layout = attrs.evolve(plan.layout, before_watermark=BEFORE_WATERMARK)
        keep_phases(result, _unpack(payloads, layout))
    return result


def _unpack(payloads: DataFrame, layout: OutputLayout) -> DataFrame:
    unpacking = in_worker(layout.unpacker())
    result: DataFrame = payloads.mapInArrow(unpacking, layout.result_type())
    return result


def _batch(source: Input, plan: Plan) -> DataFrame:
    arrived = with_batch_time(source.key_batch(plan.task.max_parallelism))
    grouped = arrived.repartition(KEY_GROUP).sortWithinPartitions(KEY_GROUP, *source.order())
    running = in_worker(run_batch(plan))
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


# The outputs of an operator, as its user declares them


@attrs.frozen
class DeclaredOutputs:
    """The schemas of outputs.

    Args:
        main: The schema of the main output.
        sides: The schema of each side output, by tag id.
    """

    main: st.StructType
    sides: dict[str, st.StructType]

    @classmethod
    def of(
        cls, df: DataFrame, key_columns: Sequence[str], output_type: Any, side_outputs: SideOutputs
    ) -> DeclaredOutputs:
        """Read the arguments of `process`.

        Args:
            df: The keyed DataFrame, whose session parses DDL.
            key_columns: The columns by which it is keyed.
            output_type: The type of the main output.
            side_outputs: The tags, or a mapping that gives a type (or None) for each tag.

        Raises:
            DeclarationTypeError, DeclarationValueError: A type cannot become columns.
        """
        typed = side_outputs if isinstance(side_outputs, Mapping) else dict.fromkeys(side_outputs)
        main = output_schema(df, output_type)
        sides = {}
        for tag, declared in typed.items():
            if not isinstance(tag, OutputTag):
                msg = f"side_outputs takes OutputTags, got {tag!r}; write OutputTag({tag!r}, type)"
                raise DeclarationTypeError(msg)
            kind = _type_of(tag, df, key_columns) if declared is None else declared
            sides[tag.tag_id] = output_schema(df, kind, f"side output {tag.tag_id!r}")
        return cls(main, sides)

    def with_letters(
        self, on_error: DeadLetters, key_fields: Sequence[st.StructField]
    ) -> DeclaredOutputs:
        """Add the side output of dead letters.

        Args:
            on_error: As the user gave it.
            key_fields: The columns of the key; empty if records have no key.

        Raises:
            DeclarationTypeError: It is not `DeadLetters`.
            DeclarationValueError: Another output has the same tag, or a column of the key has the
                name of a column of dead letters.
        """
        given: Any = on_error
        if not isinstance(given, DeadLetters):
            msg = f"on_error takes DeadLetters, got {short_repr(given)}; for example DeadLetters('dead')"
            raise DeclarationTypeError(msg)
        tag_id = on_error.tag.tag_id
        if tag_id in self.sides:
            msg = (
                f"the tag of dead letters declares their side output, got {tag_id!r} in "
                "side_outputs, too; leave it out there"
            )
            raise DeclarationValueError(msg)
        keys = [st.StructField(each.name, each.dataType) for each in key_fields]
        keys = keys or [st.StructField("key", st.StringType())]
        letter = [st.StructField(name, _LETTER_TYPES[kind]) for name, kind in LETTER_FIELDS]
        taken = sorted({each.name for each in keys} & {each.name for each in letter})
        if taken:
            msg = (
                f"key columns must not have the names of the columns of dead letters, got {taken}; "
                "rename them before key_by"
            )
            raise DeclarationValueError(msg)
        return attrs.evolve(self, sides={**self.sides, tag_id: st.StructType([*keys, *letter])})

    def describe(self) -> dict[str, st.StructType]:
        """Return the schemas by the name of each output in messages."""
        sides = {f"side output {tag_id!r}": schema for tag_id, schema in self.sides.items()}
        return {"output_type": self.main, **sides}

    def layout(
        self, mark: EventTimeMark, time_zone: str, operator: str, before_watermark: str | None
    ) -> OutputLayout:
        """Lay out the result, which has all outputs.

        Args:
            mark: Marks the event-time column.
            time_zone: The time zone of the Spark session.
            operator: The operator's name, for messages.
            before_watermark: Name of a column to add, which is true for outputs that came before
                the watermark; None to add no column.

        Raises:
            DeclarationTypeError: The name of that column is not a str.
            DeclarationValueError: Two columns of the result would have one name.
        """
        if before_watermark is not None and not isinstance(before_watermark, str):
            msg = f"output_before_watermark takes a name for a column, got {before_watermark!r}"
            raise DeclarationTypeError(msg)
        sides = {tag: mark.on(without_phases(schema)) for tag, schema in self.sides.items()}
        main = mark.on(without_phases(self.main))
        layout = OutputLayout(main, sides, time_zone, operator, before_watermark)
        names = [field.name.lower() for field in layout.result_type().fields]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            msg = (
                f"the columns of the result must differ in name, got {double} twice; rename them "
                f"({OUTPUT_TAG!r} and the ids of side outputs are columns of the result, too)"
            )
            raise DeclarationValueError(msg)
        return layout


_LETTER_TYPES: dict[TypeInformation, st.DataType] = {
    Types.STRING(): st.StringType(),
    Types.LONG(): st.LongType(),
    Types.PRIMITIVE_ARRAY(Types.BYTE()): st.BinaryType(),
}


def _type_of(tag: OutputTag, df: DataFrame, key_columns: Sequence[str]) -> Any:
    """Return the type that the tag itself has."""
    if isinstance(tag, ChangelogTag):
        return changelog_schema(df, key_columns, tag)
    if tag.type_info == Types.PICKLED_BYTE_ARRAY():
        msg = (
            f"a side output needs a type to become columns, got {tag!r} without one; write "
            f'OutputTag({tag.tag_id!r}, Types.ROW_NAMED(...)) or side_outputs={{tag: "<DDL>"}}'
        )
        raise DeclarationValueError(msg)
    return tag.type_info


# The stage before the shuffle


def pack_records(keyed: DataFrame, plan: Plan) -> DataFrame:
    """Pack records into payloads by grouping key, and add those for homes and the registry.

    Args:
        keyed: The records, with the key group of each in a first column.
        plan: The plan of the query.
    """
    packing = in_worker(make_packing_of(plan))
    return keyed.mapInArrow(packing, PACKED_SCHEMA.ddl)


def make_packing_of(plan: Plan) -> Packing:
    """Return the function that packs an operator's records, in one task of the first stage."""
    groups = plan.task.max_parallelism
    packing = plan.reader.make_packing(group_ids(groups))
    if plan.key_groups is not None:
        packing = _make_packing(plan.reader, groups, plan.key_groups)
    if plan.keeps_former_watermark():
        packing = call_homes(packing, plan.task.parallelism)
    return packing


def _make_packing(reader: Reader, count: int, key_groups: Callable[[int], int]) -> Packing:
    """Make the packing for the number of key groups that the checkpoint was begun with.

    Args:
        reader: The reader of the operator, which makes the packing.
        count: The number of key groups if Spark does not show the partitions of the state.
        key_groups: Returns the number of key groups for a number of partitions.
    """

    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partitions = partitions_of_state(TaskContext.get())
        groups = count if partitions is None else key_groups(partitions)
        yield from reader.make_packing(group_ids(groups))(batches)

    return packed
