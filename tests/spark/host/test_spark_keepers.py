# SPDX-License-Identifier: Apache-2.0
"""On Spark the state of a partition is in one process, whichever worker has the task."""

from __future__ import annotations

import os
import signal
import sys

import pytest
from pyspark import TaskContext
from spark_support import Feed, pickle_by_value, rows_of, start, until

from pyflinklike import (
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    KeyedProcessFunction,
    Types,
    ValueStateDescriptor,
)
from pyflinklike.spark import key_by, metrics_of

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no transformWithState")
if sys.platform != "linux":
    pytest.skip("keepers are for Linux", allow_module_level=True)

pickle_by_value(__name__)

KEYS = [f"k{number}" for number in range(40)]
OUTPUT = "key string, n long, process long, partition long, batch string"


class Counting(KeyedProcessFunction):
    """Counts each key, and tells which process and which task did."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        task = TaskContext.get()
        batch = task.getLocalProperty("streaming.sql.batchId")
        yield value.key, self.count.value(), os.getpid(), task.partitionId(), batch


def counted(rows):
    """The counts of a micro-batch by key."""
    return sorted((row.key, row.n) for row in rows)


@pytest.mark.telling
@pytest.mark.classic(reason="over Connect Spark tells the tasks of foreachBatch no batch")
@pytest.mark.parametrize(
    "backend",
    [HashMapStateBackend, pytest.param(EmbeddedRocksDBStateBackend, marks=pytest.mark.thorough)],
)
def test_a_partition_has_one_keeper_and_a_killed_one_loses_nothing(spark, tmp_path, backend):
    """The tasks of a partition are served by one process, which knows the task; another one goes on after it was killed."""
    feed = Feed(spark, tmp_path / "input", "key string")
    stream = key_by(feed.stream(), "key").process(
        Counting(), OUTPUT, uid="counted", max_parallelism=8, state_backend=backend()
    )
    query, batches = start(stream, tmp_path / "checkpoint", processingTime="0 seconds")
    try:
        for number in range(6):
            feed.add([(key,) for key in KEYS])
            until(query, lambda at=number: at in batches)
            if number == 3:
                for process in {row.process for row in batches[3]}:
                    os.kill(process, signal.SIGKILL)
        progress = {each["batchId"]: each for each in query.recentProgress}
    finally:
        query.stop()

    assert [counted(rows) for _, rows in sorted(batches.items())] == [
        [(key, n) for key in sorted(KEYS)] for n in range(1, 7)
    ]
    for rows in batches.values():
        by_partition = {(row.partition, row.process) for row in rows}
        assert len(by_partition) == len({partition for partition, _ in by_partition})
    processes = [{row.process for row in batches[number]} for number in range(6)]
    assert processes[0] == processes[3]
    assert not processes[3] & processes[4]
    assert {str(number) for number in batches} == {rows[0].batch for rows in batches.values()}
    loads = {number: metrics_of(each, "counted") for number, each in progress.items()}
    assert loads[2].kept_groups == loads[2].key_groups == loads[2].warm_loads
    assert rows_of(batches)
