# SPDX-License-Identifier: Apache-2.0
"""The plan of a job: one line of stages and keyed operators, in tasks and as DataFrames.

`JobSteps` makes the functions that tasks run; `job_frame` puts them together as a DataFrame.

Executors read the state with which keyed operators begin from a savepoint, as they do for a stream of DataFrames.
Only the key groups differ: the key group of an element of a job follows from the bytes of its frozen key, so
Python computes it, not Spark.
"""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as st

from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.process_functions import refuse_checkpointed_function
from pyflinklike.pyflink._graph.job import Job, JobGraph
from pyflinklike.pyflink._graph.job_run import find_counting_nodes
from pyflinklike.pyflink._graph.job_savepoint import JobBeginning
from pyflinklike.pyflink._graph.nodes import KeyBy, Node, TwoInputs, WithBroadcast
from pyflinklike.pyflink._local.keyed_stream_operators import function_of
from pyflinklike.pyflink._spark.keyed_stages import (
    BroadcastObjectReader,
    ObjectLayout,
    ObjectReader,
    run_in_batch,
)
from pyflinklike.pyflink._spark.stage_outputs import (
    COUNTED_RESULT_SCHEMA,
    RESULT_SCHEMA,
    ROW_SCHEMA,
    Outlets,
    Target,
)
from pyflinklike.pyflink._spark.stage_task import StageTask, sides_read
from pyflinklike.pyflink._spark.stages import (
    PythonStage,
    find_reassigners,
    needs_ticks,
    observe_functions,
    registers_processing_timers,
    stages_of,
    time_mode_of,
)
from pyflinklike.pyflink._spark.watermark_feed import MARKED_SCHEMA, WATERMARK
from pyflinklike.spark._api.query import pack_records
from pyflinklike.spark._host.driver_pickle import in_worker
from pyflinklike.spark._host.observed_metrics import observe_payloads
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._wire.schema import WireSchema
from pyflinklike.spark._wire.system_columns import KEY_GROUP, with_batch_time
from pyflinklike.state_processor._checkpoints.group_job import map_frame
from pyflinklike.state_processor._checkpoints.savepoint_frames import read_saved_frames
from pyflinklike.state_processor._logs.key_columns import KeyColumns
from pyflinklike.state_processor._savepoints.savepoint_directory import check_fit
from pyflinklike.state_processor._spark.initial_state import initial_frame, stay_in_group
from pyflinklike.types import TypeInformation, Types
from pyflinklike.types.catalog import type_of
from pyflinklike.types.frozen_keys import key_group_of

_AT_ONCE = "0 milliseconds"


def job_frame(
    steps: JobSteps,
    sources: Mapping[int, DataFrame],
    watermarks: DataFrame | None = None,
    beginning: JobBeginning | None = None,
) -> DataFrame:
    """Return the results of a job: rows of the number of a sink and a pickle of records.

    Args:
        steps: The stages and operators of the job.
        sources: For each source, by its node's number, rows of `SOURCE_SCHEMA` or rows that Spark reads.
        watermarks: The driver's watermark as rows of `MARKED_SCHEMA`; None if Spark makes it.
        beginning: The savepoint with which a stream begins; None without one, or if it has begun.

    Raises:
        SparkSetupError: The session rules out keyed state, or saved timers would never fire.
        CorruptStateError, IncompatibleStateError: The operators cannot begin with the savepoint.
    """
    first, *others = steps.stages
    # One first stage per source: each has its own watermark, and Spark takes the least.
    frames = [_first_stage(steps, first, number, each) for number, each in sources.items()]
    frame = reduce(DataFrame.union, frames)
    if watermarks is not None:
        # Last, since a checkpoint knows sources by their positions.
        frame = frame.union(watermarks).withWatermark(WATERMARK, _AT_ONCE)
    for before, stage in zip(steps.stages, others):
        plans = steps.operators(before, stage)
        if steps.is_streaming:
            initial = None
            if beginning is not None:
                spark, nodes = frame.sparkSession, stage.entrances
                plans, initial = _begin_operators(spark, nodes, plans, beginning)
            results = _on_stream(frame, plans, before, steps.shown_names, initial)
            # If more operators follow, their host calls the stage to pack records.
            frame = results if stage.following else _last_stage(steps, steps.task(stage), results)
        else:
            schema = ROW_SCHEMA if stage.following else RESULT_SCHEMA
            frame = _map_frame(_in_batch(frame, plans, steps), steps.task(stage), schema)
    return observe_functions(frame, steps.counting.values()) if steps.is_observed else frame


def _first_stage(steps: JobSteps, stage: PythonStage, source: int, frame: DataFrame) -> DataFrame:
    task = steps.task(stage.part_reached_from(source))
    if not stage.following:
        return _last_stage(steps, task, frame)
    if not steps.is_streaming:
        return _map_frame(frame, task, ROW_SCHEMA)
    marked = _map_frame(frame, task, MARKED_SCHEMA)
    if steps.is_fed or not steps.time_mode.passes_watermark:
        return marked
    return marked.withWatermark(WATERMARK, _AT_ONCE)


def _last_stage(steps: JobSteps, task: StageTask, frame: DataFrame) -> DataFrame:
    schema = COUNTED_RESULT_SCHEMA if steps.is_observed else RESULT_SCHEMA
    return _map_frame(frame, task, schema)


def _on_stream(
    frame: DataFrame,
    plans: Sequence[Plan],
    before: PythonStage,
    names: Mapping[str, str],
    initial: DataFrame | None,
) -> DataFrame:
    # Imported late: PySpark 3.5 cannot import this module, and runs no jobs in streaming mode.
    from pyflinklike.spark._host.streaming_host import serve_payloads

    if before.number == 0:
        payloads = frame.select(KEY_GROUP, "origin", "payload")
    else:
        payloads = pack_records(frame, plans[0])  # the same stage packs for all of them
    return observe_payloads(serve_payloads(payloads, plans, initial), plans, names)


def _in_batch(frame: DataFrame, plans: Sequence[Plan], steps: JobSteps) -> DataFrame:
    # Without a number, Spark may choose fewer partitions if there is little data.
    asked = steps.job.settings.parallelism
    rows = with_batch_time(frame)
    rows = rows.repartition(KEY_GROUP) if asked is None else rows.repartition(asked, KEY_GROUP)
    # Nulls come first: elements without a time, and broadcast elements, before all others.
    in_order = rows.sortWithinPartitions(KEY_GROUP, "time", "arrival")
    running = in_worker(run_in_batch(plans, tells_counts=steps.tells_counts))
    result: DataFrame = in_order.mapInArrow(running, RESULT_SCHEMA.ddl)
    return result


def _map_frame(frame: DataFrame, task: StageTask, schema: WireSchema) -> DataFrame:
    running = in_worker(task.run)
    result: DataFrame = frame.mapInArrow(running, schema.ddl)
    return result


@attrs.frozen
class SessionFacts:
    """The facts of a session that a job depends on.

    Args:
        partitions: The number of tasks after a shuffle.
        max_parallelism: The number of key groups of operators that set none.
        time_zone: The time zone of the session.
    """

    partitions: int
    max_parallelism: int
    time_zone: str


class JobSteps:
    """The steps of a job, in order: a stage, and keyed operators before each further stage."""

    def __init__(self, job: Job, facts: SessionFacts, backend: StateBackend) -> None:
        self.job, self._facts, self._backend = job, facts, backend
        self.stages = stages_of(job.graph)
        self.is_streaming = not job.settings.is_batch
        self.time_mode = time_mode_of(job.graph)
        self.counting = find_counting_nodes(job.graph) if self.is_streaming else {}
        """The names of functions without keys that report metrics, by the numbers of their nodes."""
        self.reassigners = find_reassigners(job.graph) if self.is_streaming else {}
        """For each keyed node with reassigned timestamps, the node that assigns them."""
        self.tells_counts = False
        """Whether the driver gets the counts of a batch, in addition to the results."""
        self.shown_names: Mapping[str, str] = {}
        """Other names of keyed operators in the progress, by their own names."""
        self._id = self.output_name = str(uuid.uuid4())
        """The prefix of files that tasks write; a job with a folder takes the folder's prefix."""
        self.is_fed = False
        """Whether the driver makes the watermark; otherwise Spark makes it from a column."""
        self.calls_all_key_groups = self.is_streaming and needs_ticks(job.graph)
        """Whether key groups with processing timers are called at every trigger."""

    @property
    def partitions(self) -> int:
        """The number of tasks after a shuffle."""
        return self._facts.partitions

    @property
    def is_observed(self) -> bool:
        """Whether Spark observes the metrics of functions without keys."""
        return self.is_streaming and bool(self.counting)

    def tell_counts(self) -> None:
        """Send the counts of a batch to the driver, since Spark reports no progress of a batch."""
        self.counting, self.tells_counts = find_counting_nodes(self.job.graph), True

    def tell_apart(self, taken: set[str]) -> None:
        """Rename metrics that have the name of another job's: Spark refuses a query with one name twice.

        Args:
            taken: The names of other jobs' metrics; the names of this job are added.
        """
        shown: dict[str, str] = {}
        # Free names come first, so that no renamed metric takes one of them.
        for name in sorted(
            {*self.counting.values(), *self._operator_names()}, key=taken.__contains__
        ):
            shown[name] = _free(name, taken)
            taken.add(shown[name])
        self.counting = {node: shown[name] for node, name in self.counting.items()}
        self.shown_names = shown

    def _operator_names(self) -> Iterator[str]:
        """Yield the names of keyed operators."""
        for stage in self.stages:
            for number in stage.entrances if stage.number else ():
                yield self.job.graph.state_names[number]

    def task(self, stage: PythonStage) -> StageTask:
        """Return the function of a stage for tasks."""
        job, settings = self.job, self.job.settings
        targets = (
            self._target(job.graph.nodes[number], at) for at, number in enumerate(stage.following)
        )
        is_last = not stage.following
        outlets = Outlets(job.graph.sinks, self.output_name, settings.parallelism)
        return StageTask(
            stage,
            settings,
            self._facts.partitions,
            tuple(targets),
            self.is_streaming,
            outlets if is_last else Outlets(),
            tells_splits=self.is_fed and stage.number == 0 and not is_last,
            counting=self.counting,
        )

    def _target(self, node: Node, place: int) -> Target:
        # Spark does not know the watermark of reassigned timestamps, so it calls no key group for it.
        reassigner = self.reassigners.get(node.id)
        calls_all_key_groups = self.calls_all_key_groups and registers_processing_timers(node)
        return Target(
            node.id,
            place,
            self.key_groups(node),
            self._keys(node) is not None,
            isinstance(node, WithBroadcast),
            calls_all_key_groups=calls_all_key_groups or reassigner is not None,
            reassigner=reassigner,
        )

    def tick_calls(self) -> list[tuple[int, int]]:
        """Return the indexes of the first operators that are called at every trigger, and their key groups."""
        targets = self.task(self.stages[0]).targets
        return [(each.place, each.key_groups) for each in targets if each.calls_all_key_groups]

    def operators(self, before: PythonStage, stage: PythonStage) -> list[Plan]:
        """Return the plans of the keyed operators between two stages, in the order of their indexes.

        Raises:
            DeclarationTypeError: A function has state that belongs to no key.
        """
        packer, plans, first_output = self._packer(before), [], 0
        # All operators that share a state operator get the reports of all of them.
        found = (self.reassigners.get(number) for number in stage.entrances)
        reassigners = tuple(dict.fromkeys(each for each in found if each is not None))
        for number in stage.entrances:
            node = self.job.graph.nodes[number]
            plan = self._operator(node, stage, packer, first_output)
            plans.append(attrs.evolve(plan, reassigners=reassigners))
            first_output += 1 + len(sides_read(stage, number))
        return plans

    def _operator(
        self, node: Any, stage: PythonStage, packer: StageTask, first_output: int
    ) -> Plan:
        function = function_of(node, is_batch=self.job.settings.is_batch)
        refuse_checkpointed_function(function)
        name = self.job.graph.state_names[node.id]
        return Plan(
            function=function,
            state_backend=self._backend,
            key_type=self.key_type(node),
            task=TaskInfo(
                name,
                parallelism=self._facts.partitions,
                max_parallelism=self.key_groups(node),
                job_parameters=dict(self.job.settings.job_parameters),
            ),
            time_mode=self.time_mode,
            reader=self._reader(node, packer),
            layout=ObjectLayout(sides_read(stage, node.id)),  # type: ignore[arg-type]
            plan_id=f"{name}-{self._id}",
            broadcast_states=node.states if isinstance(node, WithBroadcast) else (),
            timed_outputs=True,
            first_output=first_output,
            calls_all_key_groups=self._calls_all_key_groups(node),
            reassigner=self.reassigners.get(node.id),
            on_error=self.job.settings.letters_to(sides_read(stage, node.id)),
        )

    def _calls_all_key_groups(self, node: Node) -> bool:
        """Return whether an operator's processing timers need calls, since Spark goes by event time.

        In a job that ends, Spark itself calls each key group at the end, and timers fire then.
        """
        if not self.time_mode.passes_watermark:
            return False
        return self.job.graph.is_bounded or registers_processing_timers(node)

    def _reader(self, node: Node, packer: StageTask) -> ObjectReader:
        facts = self.key_type(node), self._facts.time_zone, packer
        if isinstance(node, WithBroadcast):
            return BroadcastObjectReader(*facts, has_keys=self._keys(node) is not None)
        return ObjectReader(*facts, has_two_inputs=isinstance(node, TwoInputs))

    def key_type(self, node: Node) -> TypeInformation:
        """Return the type of the keys of an operator; LONG if its elements have no keys."""
        keys = self._keys(node)
        return Types.LONG() if keys is None else keys.key_type

    def _keys(self, node: Node) -> KeyBy | None:
        return self.job.graph.keys_of(node)

    def _packer(self, before: PythonStage) -> StageTask:
        """Return the stage that packs records for operators.

        The first stage packs in its own tasks.  The operators' tasks get it without its graph, so
        that they need not load the sources.
        """
        task = self.task(before)
        if before.number:
            return task
        empty = attrs.evolve(before, graph=JobGraph({}), entrances=(), inner=frozenset())
        return attrs.evolve(task, stage=empty)

    def key_groups(self, node: Node) -> int:
        """Return the number of key groups of a keyed operator."""
        asked = node.max_parallelism or self.job.settings.max_parallelism
        has_keys = self._keys(node) is not None
        return asked or (self._facts.max_parallelism if has_keys else self._facts.partitions)


def _free(name: str, taken: set[str]) -> str:
    """Return the name, with a number added if it is taken."""
    if name not in taken:
        return name
    return next(each for each in (f"{name}-{number}" for number in count(2)) if each not in taken)


# The state of a savepoint


def _begin_operators(
    spark: SparkSession, nodes: Sequence[int], plans: Sequence[Plan], beginning: JobBeginning
) -> tuple[list[Plan], DataFrame | None]:
    """Return plans of operators that share a state operator, and the state with which they begin.

    Args:
        spark: The session that runs the job.
        nodes: The numbers of the operators' nodes, in the order of their operator indexes.
        plans: The plans, in the same order.
        beginning: The parts of the savepoint for the job.

    Returns:
        The plans with the declarations of the saved states, and rows as a host takes them; None if no
        operator has state in the savepoint.

    Raises:
        CorruptStateError: A file of the savepoint is missing or was changed.
        IncompatibleStateError: The state of a key group would have to be divided.
        SparkSetupError: The savepoint holds timers that the operator could not fire.
    """
    begun, frames = list(plans), []
    where = beginning.directory.location.where
    for place, (number, plan) in enumerate(zip(nodes, plans)):
        saved = beginning.operators.get(number)
        if saved is None:
            continue
        groups, refused = plan.task.max_parallelism, plan.timer_refusals()
        check_fit(saved.record, saved.domains, groups, refused, where)
        begun[place] = attrs.evolve(plan, saved=saved.record.states)
        found = read_saved_frames(spark, beginning.directory, saved.uid)
        keys = _JobKeys(KeyColumns.of(found.record), groups)
        frames.append(initial_frame(found, keys, place))
    return begun, reduce(DataFrame.unionAll, frames) if frames else None


@attrs.frozen
class _JobKeys:
    """The keys of a job's operator: `KeyLayout`.

    Args:
        columns: The key columns of the savepoint.
        max_parallelism: The number of key groups of the job.
    """

    columns: KeyColumns
    max_parallelism: int

    def with_group(self, frame: DataFrame, *, by_key: bool) -> DataFrame:
        """Add to rows the key group to which the job sends the elements of their keys."""
        if not by_key:
            return stay_in_group(frame)
        schema = st.StructType([*frame.schema.fields, st.StructField(KEY_GROUP, st.IntegerType())])
        return map_frame(frame, self._add_groups, schema)

    def _add_groups(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # `begin_with` has checked that this is the job's own type of keys.
        key_type = type_of(self.columns.signature)
        # A key has as many rows as its map has entries, and a key group costs microseconds.
        known: dict[Hashable, int] = {}
        for batch in batches:
            stored = self.columns.store([batch.column(name) for name in self.columns.names])
            groups = []
            for key in key_type.from_arrow(stored):
                if key not in known:
                    known[key] = key_group_of(key, self.max_parallelism)
                groups.append(known[key])
            yield batch.append_column(KEY_GROUP, pa.array(groups, pa.int32()))
