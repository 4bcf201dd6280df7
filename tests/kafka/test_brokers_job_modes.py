# SPDX-License-Identifier: Apache-2.0
"""Jobs on Spark whose sources and sinks are topics: in both modes, and cancelled in the middle."""

from __future__ import annotations

from collections import Counter

import pytest
from kafka_jobs import endless, new_topic, numbers, reading, values_to, writing
from kafka_support import Brokers, committed, mock_brokers, wait_for

from pyflinklike.common import (
    Configuration,
    Types,
    WatermarkStrategy,
)
from pyflinklike.datastream import StreamExecutionEnvironment
from pyflinklike.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from pyflinklike.datastream.connectors.kafka import KafkaSource
from pyflinklike.errors import BrokerError, DeclarationError

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.fixture(autouse=True)
def shipped_jobs(spark, request):
    """The functions of this module go to workers by value."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


@pytest.fixture(scope="module")
def brokers() -> Brokers:
    """One mock cluster."""
    return mock_brokers()


def environment(**settings: str) -> StreamExecutionEnvironment:
    """One whose jobs run on Spark."""
    values = Configuration.from_dict({"execution.target": "spark", **settings})
    return StreamExecutionEnvironment.get_execution_environment(values)


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
    env = environment(**{"execution.runtime-mode": mode})
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
        env = environment(**{"execution.checkpointing.dir": str(tmp_path)})
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
    """The numbers from 0 on, one after the other."""
    source = DataGeneratorSource(str, None, RateLimiterStrategy.per_second(50), Types.STRING())
    made = environment().from_source(source, WatermarkStrategy.no_watermarks(), "made")

    given = made.execute_and_collect()
    found = sorted(int(next(given)) for _ in range(20))
    given.close()

    assert list(range(20)) == found


def test_a_batch_cannot_be_without_an_end(brokers):
    """It is refused before anything runs."""
    env = environment(**{"execution.runtime-mode": "BATCH"})
    counted(env, endless(brokers, new_topic()).build(), brokers, new_topic())

    with pytest.raises(DeclarationError, match="UNBOUNDED source"):
        env.execute()
