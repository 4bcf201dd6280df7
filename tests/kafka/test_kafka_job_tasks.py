# SPDX-License-Identifier: Apache-2.0
"""Topics without an end in the functions that Spark runs: records as elements, and how far they have come."""

from __future__ import annotations

from typing import Any

import pytest
from kafka_jobs import endless, timed
from kafka_support import Brokers, new_topic
from local_support import local

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.kafka.fetch import fetch
from pyflinklike.kafka.offsets import OffsetRange
from pyflinklike.kafka.options import reader_options
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.watermark_feed import SPLIT_WATERMARKS, SplitWatermark, needs_feed
from pyflinklike.pyflink.common import WatermarkStrategy
from pyflinklike.pyflink.datastream import KeyedProcessFunction
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.stage_records import StageRecord, cell_of, wrap_to_pass


class Each(KeyedProcessFunction):
    """Gives the element."""

    def process_element(self, value, ctx):
        yield value


def given_by_a_task(brokers: Brokers, count: int) -> tuple[str, int, list[Any], list[StageRecord]]:
    """Its topic, the number of the source, records for the operator, and what passes it.

    Args:
        brokers: With the topic.
        count: How many of its three records the task reads.
    """
    topic = new_topic()
    timed(brokers, topic, [7, 1_000, 500], partition=2)
    source = endless(brokers, topic).build()
    keyed = local().from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "topic")
    keyed.key_by(str).process(Each()).print()
    graph = keyed._program.graph()
    steps = JobSteps(Job(graph, JobSettings()), SessionFacts(2, 8, "UTC"), HashMapStateBackend())
    steps.is_fed = needs_feed(graph, steps.stages[0])
    options = reader_options(source.options, streaming=True)
    records = list(fetch(OffsetRange(topic, 2, 0, count), options)) if count else []
    batches = list(steps.task(steps.stages[0]).run(records))

    rows = [row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns))]
    payloads, begin = [row[2] for row in rows if row[0] >= 0], wrap_to_pass(b"")
    through = [
        StageRecord.from_bytes(each[len(begin) :]) for each in payloads if each.startswith(begin)
    ]
    mine = [
        record
        for each in payloads
        if not each.startswith(begin)
        for record in StageRecord.from_bytes(cell_of(payload_to_batch(each))).records()
    ]
    return topic, steps.stages[0].entrances[0], mine, through


def test_records_become_elements_with_their_times(brokers):
    """For the keyed operator, by its keys."""
    _, _, elements, _ = given_by_a_task(brokers, 3)

    found = sorted((value, time) for _, value, time in elements)
    assert [("1000", 1_000), ("500", 500), ("7", 7)] == found


@pytest.mark.parametrize(("count", "watermark"), [(3, 999), (1, 6)])
def test_a_task_tells_how_far_its_partition_has_come(brokers, count, watermark):
    """By the times of its records."""
    topic, source, _, (parcel,) = given_by_a_task(brokers, count)

    found = [SplitWatermark(*each) for each in parcel.records()]
    assert (SPLIT_WATERMARKS, [SplitWatermark(source, f"{topic}/2", watermark)]) == (
        parcel.address.node,
        found,
    )


def test_a_task_without_records_tells_nothing(brokers):
    """Its partition may be idle."""
    _, _, elements, through = given_by_a_task(brokers, 0)

    assert ([], []) == (elements, through)
