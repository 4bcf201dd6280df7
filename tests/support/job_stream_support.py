# SPDX-License-Identifier: Apache-2.0
"""Jobs in streaming mode through the functions that Spark runs, micro-batch by micro-batch, without Spark.

Its state operators are those of the simulator (`operator_state`), which find nothing but files in each
micro-batch; it moves the watermark after each one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pytest
from operator_state import OperatorState
from simulated.tasks import Times

from pyflinklike._changelog.snapshot_division import regroup_snapshot
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.pyflink._graph.job import Job
from pyflinklike.pyflink._graph.job_savepoint import JobBeginning, begin_with
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.results import Results
from pyflinklike.pyflink._spark.stage_task import SOURCE_SCHEMA
from pyflinklike.pyflink._spark.stream_sources import micro_batches
from pyflinklike.pyflink._spark.watermark_feed import WATERMARK
from pyflinklike.spark._plan.operator_plan import Plan
from pyflinklike.spark._plan.session import HAS_TRANSFORM_WITH_STATE
from pyflinklike.spark._wire.key_groups import (
    group_ids,
    registry_key_of,
    registry_payload,
)
from pyflinklike.spark._wire.payloads import call_homes
from pyflinklike.state_processor import open_savepoint
from pyflinklike.state_processor._savepoints.manifest import Position
from pyflinklike.types.catalog import type_of
from pyflinklike.types.frozen_keys import key_group_of

__all__ = ["job_collected", "needs_streams", "results_of_stream"]

_NO_STREAMS = "PySpark 3.5 runs no job in streaming mode"
needs_streams = pytest.mark.skipif(not HAS_TRANSFORM_WITH_STATE, reason=_NO_STREAMS)
"""On tests that have Spark's side look at such a job before it runs."""


class StateOperator(OperatorState):
    """Keyed operators that share a state operator.

    Args:
        plans: Of the operators.
    """

    def __init__(self, plans: list[Plan]) -> None:
        super().__init__()
        self.plans = plans
        self._initial: defaultdict[int, list[bytes]] = defaultdict(list)

    def run(self, rows: list[Any], watermark: int, time: int) -> list[tuple[int, bytes]]:
        """Results for the rows of a micro-batch, and of what is due without rows."""
        groups: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for key, origin, payload in rows:
            groups[key].append((origin, payload))
        shipped = tuple(self.plans) if len(self.plans) > 1 else self.plans[0]
        times, mode = Times(time, watermark), self.plans[0].time_mode
        initial, self._initial = self._initial, defaultdict(list)
        return self.serve(shipped, mode, times, groups, initial)

    def begin(self, nodes: tuple[int, ...], beginning: JobBeginning) -> None:
        """Begin with a savepoint, as Spark has each processor do in the first micro-batch."""
        for place, (number, plan) in enumerate(zip(nodes, self.plans)):
            saved = beginning.operators.get(number)
            if saved is None:
                continue
            count = plan.task.max_parallelism
            groups = regroup_snapshot(
                beginning.directory.segment(saved.uid),
                type_of(saved.record.identity.key),
                partial(_groups_of, count),
                count,
                "savepoint",
                by_frozen_key=True,
            )
            self._initial[registry_key_of(place)].append(registry_payload(groups))
            for group, segments in groups.items():
                key = group_ids(count, place)[group]
                self._initial[key] += [each.to_bytes() for each in segments]


def results_of_stream(
    job: Job,
    facts: SessionFacts,
    pace: int = 1,
    counts: list[Any] | None = None,
    savepoint: str | None = None,
) -> list[Any]:
    """What comes of a job.

    Args:
        job: Which one.
        facts: Of the session.
        pace: How much later each micro-batch begins than the one before, in ms.
        counts: Gets what Spark would observe of functions without keys.
        savepoint: The path of the savepoint with which it begins.
    """
    if not HAS_TRANSFORM_WITH_STATE:
        pytest.skip(_NO_STREAMS)
    return _Line(job, facts, pace, [] if counts is None else counts).run(savepoint)


def job_collected(stream: Any) -> Job:
    """The job that collects a stream; nothing runs."""
    jobs = []

    class Host:
        def __init__(self, job: Job) -> None:
            jobs.append(job)

        def collect(self, _: Any) -> Any:
            return iter(())

        def cancel(self) -> None:
            pass

    stream._program._host = lambda: Host
    list(stream.execute_and_collect())
    return jobs[0]


class _Line:
    def __init__(self, job: Job, facts: SessionFacts, pace: int, counts: list[Any]) -> None:
        self.job, self.pace, self.counts = job, pace, counts
        self.steps = JobSteps(job, facts, HashMapStateBackend())
        pairs = zip(self.steps.stages, self.steps.stages[1:])
        self.operators = [StateOperator(self.steps.operators(*pair)) for pair in pairs]
        self.results = Results(job)
        self.watermark, self.time = 0, 1_000
        self.marks: dict[int, int] = {}

    def run(self, savepoint: str | None) -> list[Any]:
        sources = list(self.job.graph.of_kind(FromSource))
        self.marks = {node.id: 0 for node in sources}
        positions: Mapping[int, Position] = {}
        if savepoint is not None:
            beginning = begin_with(open_savepoint(savepoint), self.job.graph, self.job.settings)
            positions = beginning.positions
            for stage, operator in zip(self.steps.stages[1:], self.operators):
                operator.begin(stage.entrances, beginning)
        files = [
            micro_batches(node, self.job.settings_of(node), positions.get(node.id))
            for node in sources
        ]
        for rows in zip_longest(*files):
            self.micro_batch({node.id: each for node, each in zip(sources, rows) if each})
            self.watermark = max(self.watermark, min(self.marks.values()))
        self.micro_batch({})
        (collected,) = self.results.collected.values()
        return list(collected)

    def micro_batch(self, sources: dict[int, Any]) -> None:
        self.time += self.pace
        first = self.steps.stages[0]
        batches: list[pa.RecordBatch] = []
        for number, rows in sources.items():
            batch = SOURCE_SCHEMA.batch(rows)
            given = list(self.steps.task(first.part_reached_from(number)).run([batch]))
            if first.following:
                self.marks[number] = max([self.marks[number], *map(_mark, given)])
            batches += given
        for at, operator in enumerate(self.operators):
            rows = [
                row
                for batch in batches
                for row in zip(*(batch.column(i).to_pylist() for i in range(3)))
            ]
            results = operator.run(rows, self.watermark, self.time)
            batches = self._behind(at + 1, results)
        for batch in batches:
            rows = batch.to_pylist()
            self.counts += [each for row in rows for each in row.get("counts") or ()]
            # Spark leaves out the rows of what it observes.
            self.results.add((row["output"], row["payload"]) for row in rows if row["payload"])

    def _behind(self, number: int, results: list[Any]) -> list[pa.RecordBatch]:
        """What the stage behind an operator gives."""
        stage = self.steps.stages[number]
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([each[0] for each in results], pa.int32()),
                pa.array([each[1] for each in results], pa.binary()),
            ],
            names=["output", "payload"],
        )
        if not stage.following:
            return list(self.steps.task(stage).run([batch]))
        packing = self.operators[number].plans[0].reader.make_packing([])
        return list(call_homes(packing, 1)([batch]))


def _groups_of(count: int, keys: list[Any]) -> list[int]:
    """The key groups of frozen keys."""
    return [key_group_of(key, count) for key in keys]


def _mark(batch: pa.RecordBatch) -> int:
    """The greatest watermark in a batch, in ms."""
    times = batch.column(batch.schema.names.index(WATERMARK)).cast(pa.int64()).to_pylist()
    return max((time // 1000 for time in times if time is not None), default=0)
