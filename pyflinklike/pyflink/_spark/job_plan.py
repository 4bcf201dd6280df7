# SPDX-License-Identifier: Apache-2.0
"""The plan of a job: one line of stages and keyed operators, in tasks and as DataFrames.

`JobSteps` makes the functions that tasks run; `job_frame` puts them together as a DataFrame.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Any

import attrs
from pyspark.sql import DataFrame

from pyflinklike._runtime.call_contexts import TaskInfo
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.functions.process_functions import refuse_checkpointed_function
from pyflinklike.pyflink._graph.job import Job, JobGraph
from pyflinklike.pyflink._graph.job_metrics import find_counting_nodes
from pyflinklike.pyflink._graph.job_savepoint import JobBeginning
from pyflinklike.pyflink._graph.nodes import KeyBy, Node, TwoInputs, WithBroadcast
from pyflinklike.pyflink._local.keyed_stream_operators import function_of
from pyflinklike.pyflink._spark.job_initial_state import begin_operators
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
)
from pyflinklike.pyflink._spark.stage_task import StageTask, Target, sides_read
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
from pyflinklike.types import TypeInformation, Types

__all__ = ["JobSteps", "SessionFacts", "job_frame"]


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
                plans, initial = begin_operators(spark, nodes, plans, beginning)
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
        settings, tasks = self.job.settings, self._facts.partitions
        if not stage.following:
            outlets = Outlets(self.job.graph.sinks, self.output_name, settings.parallelism)
            return StageTask(
                stage, settings, tasks, (), self.is_streaming, outlets, counting=self.counting
            )
        targets = tuple(
            self._target(self.job.graph.nodes[number], place)
            for place, number in enumerate(stage.following)
        )
        tells_splits = self.is_fed and stage.number == 0
        return StageTask(
            stage,
            settings,
            tasks,
            targets,
            self.is_streaming,
            tells_splits=tells_splits,
            counting=self.counting,
        )

    def _target(self, node: Node, place: int) -> Target:
        options = self._has_keys(node), isinstance(node, WithBroadcast)
        # Spark does not know the watermark of reassigned timestamps, so it calls no key group for it.
        reassigner = self.reassigners.get(node.id)
        calls_all_key_groups = self.calls_all_key_groups and registers_processing_timers(node)
        return Target(
            node.id,
            place,
            self.key_groups(node),
            *options,
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
            task=self._task_info(node, name),
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
            return BroadcastObjectReader(*facts, has_keys=self._has_keys(node))
        return ObjectReader(*facts, has_two_inputs=isinstance(node, TwoInputs))

    def key_type(self, node: Node) -> TypeInformation:
        """Return the type of the keys of an operator; LONG if its elements have no keys."""
        keys = self.job.graph.nodes[node.inputs[0]]
        return keys.key_type if isinstance(keys, KeyBy) else Types.LONG()

    def _has_keys(self, node: Node) -> bool:
        return isinstance(self.job.graph.nodes[node.inputs[0]], KeyBy)

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

    def _task_info(self, node: Node, name: str) -> TaskInfo:
        return TaskInfo(
            name,
            parallelism=self._facts.partitions,
            max_parallelism=self.key_groups(node),
            job_parameters=dict(self.job.settings.job_parameters),
        )

    def key_groups(self, node: Node) -> int:
        """Return the number of key groups of a keyed operator."""
        asked = node.max_parallelism or self.job.settings.max_parallelism
        default = self._facts.max_parallelism if self._has_keys(node) else self._facts.partitions
        return asked or default


def _free(name: str, taken: set[str]) -> str:
    """Return the name, with a number added if it is taken."""
    if name not in taken:
        return name
    return next(each for each in (f"{name}-{number}" for number in count(2)) if each not in taken)
