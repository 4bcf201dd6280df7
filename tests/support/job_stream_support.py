# SPDX-License-Identifier: Apache-2.0
"""Jobs in streaming mode through the functions that Spark runs, micro-batch by micro-batch, without Spark.

It plays Spark: groups payloads by grouping key, keeps the state of each, moves the watermark after a
micro-batch, and calls for timers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from pyflinklike.engine.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.engine.graph.job import Job
from pyflinklike.engine.graph.job_savepoint import JobBeginning, begin_with
from pyflinklike.engine.graph.nodes import FromSource
from pyflinklike.engine.inspection.snapshot_division import regroup_snapshot
from pyflinklike.engine.runtime.micro_batch import Served
from pyflinklike.engine.types.catalog import type_of
from pyflinklike.engine.types.frozen_keys import key_group_of
from pyflinklike.savepoints import open_savepoint
from pyflinklike.savepoints.saved_job import Position
from pyflinklike.spark.host.task import KeyGroupTask
from pyflinklike.spark.jobs.job_plan import JobSteps, SessionFacts
from pyflinklike.spark.jobs.results import Results
from pyflinklike.spark.jobs.stage_task import SOURCE_SCHEMA
from pyflinklike.spark.jobs.stream_sources import micro_batches
from pyflinklike.spark.jobs.watermark_feed import WATERMARK
from pyflinklike.spark.plan.operator_plan import Plan
from pyflinklike.spark.wire.key_groups import (
    group_ids,
    is_roll_call,
    place_of,
    roll_call_of,
    roll_payload,
)
from pyflinklike.spark.wire.own_columns import watermark_of
from pyflinklike.spark.wire.payloads import call_homes, is_home
from pyflinklike.testing.in_memory_log import InMemoryLogStorage

__all__ = ["results_of_stream"]


class StateOperator:
    """Keyed operators that share a state operator, with the state that Spark would keep for it.

    Args:
        plans: Of the operators.
    """

    def __init__(self, plans: list[Plan]) -> None:
        self.plans = plans
        self.operators = [Operator(plan) for plan in plans]
        self.stores: defaultdict[int, InMemoryLogStorage] = defaultdict(InMemoryLogStorage)
        self.wakes: dict[int, int | None] = {}

    def run(self, rows: list[Any], watermark: int, time: int) -> list[Any]:
        """Results for the rows of a micro-batch, and of what is due without rows."""
        groups: defaultdict[int, list[Any]] = defaultdict(list)
        for key, origin, payload in rows:
            groups[key].append((origin, payload))
        results: list[Any] = []
        for key in sorted(groups):
            payloads = [payload for _, payload in sorted(groups[key])]
            operator = self._called(key, watermark, time)
            if is_roll_call(key):
                operator._call_roll(payloads, time)
            elif is_home(key):
                results += operator._call_home(payloads)
                for each in self.operators:
                    each.know_as(operator)
            else:
                results += operator._serve(operator._index_of((key,)), payloads, time)
        for key, wake_at in sorted(self.wakes.items()):
            if key not in groups and wake_at is not None and wake_at <= watermark:
                operator = self._called(key, watermark, time)
                results += operator._serve(operator._index_of((key,)), fired=wake_at)
        return [row[:2] for row in results if row[1] is not None]

    def begin(self, nodes: tuple[int, ...], beginning: JobBeginning, time: int) -> None:
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
            called = self._called(roll_call_of(place), 0, time)
            called._call_roll([roll_payload(groups)], time)
            for group, segments in groups.items():
                for each in segments:
                    key = group_ids(count, place)[group]
                    self._called(key, 0, time)._begin(group, each.to_bytes(), time)

    def _called(self, key: int, watermark: int, time: int) -> Operator:
        operator = self.operators[max(0, place_of(key))]
        operator.wakes, operator.key, operator._store = self.wakes, key, self.stores[key]
        operator._set_time(watermark, time)
        return operator


class Operator(KeyGroupTask):
    """A keyed operator."""

    wakes: dict[int, int | None]
    key: int

    def _set_time(self, watermark: int, time: int) -> None:
        clock = self._ensure_operator().clock
        clock.processing_time, clock.watermark = time, watermark_of(watermark)

    def _wake(self, served: Served, fired: int | None) -> None:
        self.wakes[self.key] = None if served.head is None else served.head.wake_at


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
    return _Line(job, facts, pace, [] if counts is None else counts).run(savepoint)


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
                operator.begin(stage.entrances, beginning, self.time)
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
            batch = pa.RecordBatch.from_pylist(rows, schema=SOURCE_SCHEMA.arrow)
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
