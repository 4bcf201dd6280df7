# SPDX-License-Identifier: Apache-2.0
"""Topics without an end in the functions that Spark runs."""

from __future__ import annotations

import pytest
from kafka_jobs import endless, new_topic, timed
from kafka_support import Brokers, mock_brokers
from local_support import local

from pyflinklike.backends.heap.backend import HashMapStateBackend
from pyflinklike.common import WatermarkStrategy
from pyflinklike.datastream import KeyedProcessFunction
from pyflinklike.graph.job import Job, JobSettings
from pyflinklike.kafka.fetching import fetch
from pyflinklike.kafka.options import reader_options
from pyflinklike.kafka.ranges import OffsetRange
from pyflinklike.spark.jobs.steps import JobSteps, SessionFacts
from pyflinklike.spark.wire.packing import payload_to_batch
from pyflinklike.spark.wire.parcels import Parcel, cell_of


@pytest.fixture(scope="module")
def brokers() -> Brokers:
    """One mock cluster."""
    return mock_brokers()


class Each(KeyedProcessFunction):
    """Gives the element."""

    def process_element(self, value, ctx):
        yield value


def test_records_become_elements_with_their_times(brokers):
    """For the keyed operator, by its keys."""
    topic = new_topic()
    timed(brokers, topic, [7, 1_000, 500], partition=2)
    source = endless(brokers, topic).build()
    keyed = local().from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "topic")
    keyed.key_by(str).process(Each()).print()
    job = Job(keyed._program.graph(), JobSettings())
    steps = JobSteps(job, SessionFacts(2, 8, "UTC"), HashMapStateBackend())
    options = reader_options(source.options, streaming=True)

    batches = list(steps.task(steps.stages[0]).run(fetch(OffsetRange(topic, 2, 0, 3), options)))

    rows = [row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns))]
    parcels = [Parcel.from_bytes(cell_of(payload_to_batch(row[2]))) for row in rows if row[0] >= 0]
    found = sorted((value, time) for each in parcels for _, value, time in each.records())
    watermarks = {row[3].timestamp() for row in rows if row[3] is not None}
    assert [("1000", 1_000), ("500", 500), ("7", 7)] == found
    assert {0.999} == watermarks
