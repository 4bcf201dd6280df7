# SPDX-License-Identifier: Apache-2.0
"""A script of PyFlink 1.x from topic to topic, started with one command, whose driver is killed twice."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random
from subprocess import TimeoutExpired

import pytest
from fault_lives import SETTINGS, started
from kafka_support import Brokers, committed, mock_brokers, new_topic, wait_for

SCRIPT = """
import logging
import sys

from pyflink.common.serialization import SimpleStringSchema
from pyflink.common.time import Time
from pyflink.common.typeinfo import Types
from pyflink.datastream import StreamExecutionEnvironment, TimeCharacteristic
from pyflink.datastream.connectors import FlinkKafkaConsumer, FlinkKafkaProducer
from pyflink.datastream.functions import KeyedProcessFunction, RuntimeContext
from pyflink.datastream.state import StateTtlConfig, ValueStateDescriptor


class CountClicks(KeyedProcessFunction):
    def __init__(self):
        self.seen = None

    def open(self, runtime_context: RuntimeContext):
        descriptor = ValueStateDescriptor("seen", Types.LONG())
        ttl = (
            StateTtlConfig.new_builder(Time.days(1))
            .set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)
            .set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)
            .build()
        )
        descriptor.enable_time_to_live(ttl)
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx: "KeyedProcessFunction.Context"):
        seen = self.seen.value()
        seen = 1 if seen is None else seen + 1
        self.seen.update(seen)
        yield "{},{},{}".format(value[0], value[1], seen)


def count_clicks():
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    env.set_parallelism(2)
    env.add_jars("file:///opt/flink/flink-sql-connector-kafka_2.11-1.14.0.jar")
    env.enable_checkpointing(100)
    env.get_checkpoint_config().set_checkpoint_storage_dir("file://FOLDER/checkpoints")

    consumer = FlinkKafkaConsumer(
        topics="CLICKS",
        deserialization_schema=SimpleStringSchema(),
        properties={"bootstrap.servers": "SERVERS", "group.id": "count-clicks"},
    )
    consumer.set_start_from_earliest()
    producer = FlinkKafkaProducer(
        topic="COUNTS",
        serialization_schema=SimpleStringSchema(),
        producer_config={"bootstrap.servers": "SERVERS", "batch.num.messages": "1"},
    )

    clicks = env.add_source(consumer).map(
        lambda line: tuple(line.split(",")), output_type=Types.TUPLE([Types.STRING(), Types.STRING()])
    )
    counts = clicks.key_by(lambda click: click[0], key_type=Types.STRING()).process(
        CountClicks(), output_type=Types.STRING()
    )
    counts.add_sink(producer)
    env.execute("count_clicks")


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    count_clicks()
"""
KILLS = 2
USERS = "abcde"
LOT = 60


class Clicks:
    """Clicks of some users, each with a number that no other has."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self._random, self.topic = brokers, Random(29), new_topic()
        self.written: dict[str, set[str]] = defaultdict(set)
        self._next = 0

    def add(self) -> None:
        """Write some more."""
        lot = [(self._random.choice(USERS), str(self._next + at)) for at in range(LOT)]
        self._next += LOT
        records = [(user.encode(), f"{user},{number}".encode()) for user, number in lot]
        self._brokers.write(self.topic, records)
        for user, number in lot:
            self.written[user].add(number)


def counted(brokers: Brokers, topic: str) -> list[str]:
    """The lines of the topic of counts, without repeats."""
    lines = [record["value"].decode() for record in brokers.read(topic)]
    return sorted({line for line in lines if line != "begun"})


def test_a_script_of_1_x_loses_nothing_when_its_driver_is_killed(tmp_path: Path) -> None:
    """Each click counts once, although its line may be written twice."""
    brokers = mock_brokers()
    script, log = tmp_path / "count_clicks.py", tmp_path / "log"
    clicks, random, counts = Clicks(brokers), Random(4), new_topic()
    given = {
        "FOLDER": str(tmp_path),
        "SERVERS": brokers.servers,
        "CLICKS": clicks.topic,
        "COUNTS": counts,
    }
    text = SCRIPT
    for name, value in given.items():
        text = text.replace(name, value)
    script.write_text(text, encoding="utf-8")
    settings = " ".join(f"--conf '{name}={value}'" for name, value in SETTINGS.items())
    variables = {"PYSPARK_SUBMIT_ARGS": f"--master local[2] {settings} pyspark-shell"}
    command = ["-m", "pyflinklike.run", str(script)]
    checkpoint = tmp_path / "checkpoints" / "count_clicks" / "checkpoint"
    clicks.add()
    # The mock cluster makes a topic only when it is written to.
    brokers.write(counts, [(None, b"begun")])

    for _ in range(KILLS):
        before = committed(checkpoint)
        with started(command, log, **variables) as process:
            clicks.add()
            wait_for(lambda n=before: committed(checkpoint) > n or process.poll() is not None)
            clicks.add()
            with pytest.raises(TimeoutExpired):  # wherever it is then
                process.wait(random.random() * 2)
    with started(command, log, **variables) as process:
        clicks.add()
        last = [-1]

        def is_over() -> bool:
            now = committed(checkpoint)
            if now == last[0]:  # to read a topic takes longer than to look into a folder
                return process.poll() is not None
            last[0] = now
            return len(counted(brokers, counts)) >= sum(map(len, clicks.written.values()))

        wait_for(is_over)

    assert "pyflinklike: the job runs on Spark" in log.read_text()
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for line in counted(brokers, counts):
        user, number, seen = line.split(",")
        assert found[user].setdefault(int(seen), number) == number
    assert clicks.written == {user: set(each.values()) for user, each in found.items()}
    assert {user: [*range(1, len(each) + 1)] for user, each in clicks.written.items()} == {
        user: sorted(each) for user, each in found.items()
    }
