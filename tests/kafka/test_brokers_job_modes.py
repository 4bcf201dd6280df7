# SPDX-License-Identifier: Apache-2.0
"""Jobs on Spark whose sources and sinks are topics: in both modes, and cancelled in the middle."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kafka_jobs import endless, numbers, reading, timed, values_to, writing
from kafka_support import Brokers, committed, new_topic, wait_for
from spark_jobs import on_spark

from pyflinklike.errors import BrokerError
from pyflinklike.pyflink.common import (
    Duration,
    Time,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors import (
    DataGeneratorSource,
    RateLimiterStrategy,
)
from pyflinklike.pyflink.datastream.connectors.kafka import KafkaSource
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.usefixtures("shipped_module")

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


def counted(env: StreamExecutionEnvironment, source: KafkaSource, brokers: Brokers, topic: str):
    """Running counts of the last digits of values, to a topic."""
    values = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    digits = values.map(lambda value: (value[-1], 1), PAIR).key_by(lambda pair: pair[0])
    lines = digits.sum(1).map(lambda pair: f"{pair[0]} {pair[1]}", Types.STRING())
    lines.sink_to(writing(brokers, values_to(topic)).build())


def texts(brokers: Brokers, topic: str) -> Counter[str]:
    """The values of a topic."""
    return Counter(record["value"].decode() for record in brokers.read(topic))


@pytest.mark.parametrize("mode", ["BATCH", "STREAMING"])
def test_a_job_between_topics_that_ends(brokers, mode):
    """All of a topic, once: folds are told at the end, or at every element."""
    source, out = new_topic(), new_topic()
    numbers(brokers, source, range(100))
    env = on_spark(**{"execution.runtime-mode": mode})
    counted(env, reading(brokers, source).build(), brokers, out)

    env.execute()

    steps = [10] if mode == "BATCH" else range(1, 11)
    expected = Counter(f"{digit} {step}" for digit in range(10) for step in steps)
    assert expected == texts(brokers, out)


def test_a_cancelled_job_goes_on_at_its_offsets(brokers, tmp_path):
    """With its state; what was written meanwhile is read, and what was read before is not."""
    source, out = new_topic(), new_topic()
    numbers(brokers, source, range(50))

    def started():
        env = on_spark(**{"execution.checkpointing.dir": str(tmp_path)})
        counted(env, endless(brokers, source).build(), brokers, out)
        return env.execute_async("digits")

    checkpoint = tmp_path / "digits" / "checkpoint"
    first = started()
    wait_for(lambda: committed(checkpoint) >= 0 and has(brokers, out, 50))
    first.cancel().result()
    before = committed(checkpoint)
    numbers(brokers, source, range(50, 100))
    second = started()
    wait_for(lambda: committed(checkpoint) > before and has(brokers, out, 100))
    second.cancel().result()

    expected = {f"{digit} {step}" for digit in range(10) for step in range(1, 11)}
    # The micro-batch in flight at the cancel may have been written twice.
    assert expected == set(texts(brokers, out))


def has(brokers: Brokers, topic: str, count: int) -> bool:
    """Whether so many different records have come."""
    try:
        return len(texts(brokers, topic)) >= count
    except BrokerError:  # the mock cluster makes a topic when the first record comes
        return False


def test_generated_elements_without_an_end(brokers):
    """The numbers from 0 on, each once; a micro-batch gives those of one task after the other's."""
    source = DataGeneratorSource(str, None, RateLimiterStrategy.per_second(50), Types.STRING())
    made = on_spark().from_source(source, WatermarkStrategy.no_watermarks(), "made")

    given = made.execute_and_collect()
    found: list[int] = []
    while not set(range(200)) <= set(found) and len(found) < 5_000:
        found.append(int(next(given)))
    given.close()

    assert set(range(200)) <= set(found)
    assert len(found) == len(set(found))


def windows(env: StreamExecutionEnvironment, source: KafkaSource, strategy: Any) -> Any:
    """The times of records in windows of ten ms."""
    times = env.from_source(source, strategy, "times").map(lambda value: [int(value)])
    windowed = times.key_by(lambda _: "all").window(
        TumblingEventTimeWindows.of(Time.milliseconds(10))
    )
    return windowed.reduce(lambda one, other: sorted(one + other)).map(str, Types.STRING())


def started(brokers: Brokers, source: str, out: str, folder: Any, strategy: Any) -> Any:
    """The job of windows, in the background."""
    env = on_spark(**{"execution.checkpointing.dir": str(folder)})
    told = windows(env, endless(brokers, source).build(), strategy)
    told.sink_to(writing(brokers, values_to(out)).build())
    return env.execute_async("windows")


def test_a_partition_that_lies_behind_is_not_late(brokers, tmp_path):
    """The watermark is that of the partition that has come least far, as Flink's."""
    source, out = new_topic(), new_topic()
    checkpoint = tmp_path / "windows" / "checkpoint"
    timed(brokers, source, [1], partition=0)
    timed(brokers, source, [2], partition=1)
    strategy = WatermarkStrategy.for_monotonous_timestamps()

    job = started(brokers, source, out, tmp_path, strategy)
    for partition, time in ((0, 1000), (1, 5), (1, 1000)):
        before = committed(checkpoint)
        # One micro-batch with the records before, and one for the watermark that they make.
        wait_for(lambda n=before: committed(checkpoint) > n + 1)
        timed(brokers, source, [time], partition=partition)
    wait_for(lambda: has(brokers, out, 1))
    job.cancel().result()

    assert ["[1, 2, 5]"] == list(texts(brokers, out))


def test_a_partition_that_is_idle_holds_no_window(brokers, tmp_path):
    """Without idleness it would hold all of them, as in Flink."""
    source, out = new_topic(), new_topic()
    timed(brokers, source, [1, 12, 25], partition=0)
    timed(brokers, source, [5], partition=1)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_seconds(1))

    job = started(brokers, source, out, tmp_path, strategy)
    wait_for(lambda: committed(tmp_path / "windows" / "checkpoint") > 1 and has(brokers, out, 2))
    job.cancel().result()

    assert ["[1, 5]", "[12]"] == sorted(texts(brokers, out))
