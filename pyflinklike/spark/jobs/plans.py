# SPDX-License-Identifier: Apache-2.0
"""The plan of a job: one line of stages and keyed operators, as frames of Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame

from pyflinklike.spark.hosts.cycle_collector import with_imports_frozen
from pyflinklike.spark.hosts.observation import observed
from pyflinklike.spark.hosts.packed import packed
from pyflinklike.spark.hosts.telling import telling_each
from pyflinklike.spark.jobs.counting import COUNTS_TYPE, observed_functions
from pyflinklike.spark.jobs.marked_rows import MARKED_TYPE, WATERMARK
from pyflinklike.spark.jobs.passing import run_in_batch
from pyflinklike.spark.jobs.sending import RESULT_TYPE, ROW_TYPE
from pyflinklike.spark.jobs.stages import Stage
from pyflinklike.spark.jobs.steps import JobSteps
from pyflinklike.spark.jobs.tasks import StageTask
from pyflinklike.spark.setup.plan import Plan
from pyflinklike.spark.wire.batch_time import with_batch_time
from pyflinklike.spark.wire.names import KEY_GROUP

__all__ = ["job_frame"]

_AT_ONCE = "0 milliseconds"


def job_frame(
    steps: JobSteps, sources: Mapping[int, DataFrame], watermarks: DataFrame | None = None
) -> DataFrame:
    """The results of a job: rows of the numbers of sinks with pickles of records.

    Args:
        steps: Of the job.
        sources: A frame of type `SOURCE_TYPE` for each source, by the number of its node.
        watermarks: That of the driver, as rows of type `MARKED_TYPE`, if it makes it.

    Raises:
        HostError: The settings of the session rule out keyed state.
    """
    first, *others = steps.stages
    # Each source by itself: each has a watermark of its own, and the least one counts.
    frames = [_first_stage(steps, first, number, each) for number, each in sources.items()]
    frame = reduce(DataFrame.union, frames)
    if watermarks is not None:
        # Behind the others: a checkpoint knows sources by their places.
        frame = frame.union(watermarks).withWatermark(WATERMARK, _AT_ONCE)
    for before, stage in zip(steps.stages, others):
        plans = steps.operators(before, stage)
        if steps.is_streaming:
            results = _on_stream(frame, plans, before, steps.shown_names)
            # Before further operators, their own host has the stage pack.
            frame = results if stage.following else _last_stage(steps, steps.task(stage), results)
        else:
            kind = ROW_TYPE if stage.following else RESULT_TYPE
            frame = _mapped(_in_batch(frame, plans, steps), steps.task(stage), kind)
    return observed_functions(frame, steps.counting.values()) if steps.counting else frame


def _first_stage(steps: JobSteps, stage: Stage, source: int, frame: DataFrame) -> DataFrame:
    task = steps.task(stage.reached_from(source))
    if not stage.following:
        return _last_stage(steps, task, frame)
    if not steps.is_streaming:
        return _mapped(frame, task, ROW_TYPE)
    marked = _mapped(frame, task, MARKED_TYPE)
    if steps.is_fed or not steps.time_mode.passes_watermark:
        return marked
    return marked.withWatermark(WATERMARK, _AT_ONCE)


def _last_stage(steps: JobSteps, task: StageTask, frame: DataFrame) -> DataFrame:
    kind = f"{RESULT_TYPE}, {COUNTS_TYPE}" if steps.counting else RESULT_TYPE
    return _mapped(frame, task, kind)


def _on_stream(
    frame: DataFrame, plans: Sequence[Plan], before: Stage, names: Mapping[str, str]
) -> DataFrame:
    # Its module cannot be imported on PySpark 3.5, where there are no streams of jobs.
    from pyflinklike.spark.hosts.streaming import served

    if before.number == 0:
        payloads = frame.select(KEY_GROUP, "origin", "payload")
    else:
        payloads = packed(frame, plans[0])  # the same stage packs for all of them
    return observed(served(payloads, plans), plans, names)


def _in_batch(frame: DataFrame, plans: Sequence[Plan], steps: JobSteps) -> DataFrame:
    # Where nobody asks for a number, Spark may choose a smaller one.
    asked = steps.job.settings.parallelism
    rows = with_batch_time(frame)
    rows = rows.repartition(KEY_GROUP) if asked is None else rows.repartition(asked, KEY_GROUP)
    in_order = rows.sortWithinPartitions(KEY_GROUP, "time", "arrival")
    running = with_imports_frozen(run_in_batch(plans))
    result: DataFrame = in_order.mapInArrow(running, RESULT_TYPE)
    return result


def _mapped(frame: DataFrame, task: StageTask, kind: str) -> DataFrame:
    result: DataFrame = frame.mapInArrow(with_imports_frozen(telling_each(task.run)), kind)
    return result
