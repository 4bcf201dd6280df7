# SPDX-License-Identifier: Apache-2.0
"""A job of the DataStream API from topic to topic, whose driver is killed in the middle."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from random import Random
from subprocess import TimeoutExpired

import pytest
from confluent_kafka import Producer
from fault_lives import SETTINGS, program
from job_lives import END, amounts_of_running_sums, expected_windows, is_window, lot_of
from kafka_support import Brokers, committed, mock_brokers, wait_for

from pyflinklike.kafka.messages import HEADER
from pyflinklike.pyflink._spark.job_folder import folder_name

KILLS = 3
LOTS_OF_A_LIFE = 10
PARTITIONS = 4
"""Of a topic of the mock cluster."""


class Input:
    """Lots of elements with the times of their records, which go up from lot to lot."""

    def __init__(self, brokers: Brokers) -> None:
        self._brokers, self._random, self._lot = brokers, Random(17), 0
        self.elements: list[tuple[str, int, int]] = []

    def add(self) -> None:
        """One more lot."""
        first = 1 + self._lot * 40
        self._lot += 1
        self._write(dict.fromkeys(lot_of(self._random, first), -1))

    def end(self) -> None:
        """The last element of each partition: the watermark is that of the one that lies behind."""
        self._write({(f"end{number}", 1, END): number for number in range(PARTITIONS)})

    def _write(self, partitions: dict[tuple[str, int, int], int]) -> None:
        """Elements, each to its partition, or to that of its key where that is -1."""
        producer = Producer({"bootstrap.servers": self._brokers.servers})
        for (key, amount, time), partition in partitions.items():
            value = f"{key},{amount},{time}"
            producer.produce("amounts", value, key, partition, timestamp=time)
        assert producer.flush(20) == 0
        self.elements += partitions


def told(brokers: Brokers) -> list[str]:
    """The lines of the topic, without those that were written again."""
    lines: dict[bytes, str] = {}
    for record in brokers.read("sums"):
        (name,) = (each["value"] for each in record["headers"] if each["key"] == HEADER)
        line = record["value"].decode()
        assert lines.setdefault(name, line) == line
    return list(lines.values())


def test_a_job_between_topics_that_is_killed(tmp_path):
    """No element is lost or counted twice, and windows close by the times of records."""
    brokers = mock_brokers()
    source, log, random = Input(brokers), tmp_path / "log", Random(4)
    described = {"servers": brokers.servers, "folder": str(tmp_path), "settings": SETTINGS}
    checkpoint = tmp_path / "checkpoints" / folder_name("sums of topics") / "checkpoint"
    source.add()
    # The mock cluster makes a topic only when it is written to.
    brokers.write("sums", [(None, b"begun")], headers=[(HEADER, b"begun")])
    for _ in range(KILLS):
        before = committed(checkpoint)
        with program("kafka_job_driver.py", described, log) as process:
            for _ in range(LOTS_OF_A_LIFE):
                source.add()
            wait_for(lambda n=before: committed(checkpoint) > n or process.poll() is not None)
            source.add()
            with pytest.raises(TimeoutExpired):  # wherever it is then
                process.wait(random.random() * 2)

    expected = expected_windows(source.elements)
    with program("kafka_job_driver.py", described, log) as process:
        source.end()

        def is_over(seen: list[int]) -> bool:
            last = committed(checkpoint)
            if last == seen[-1]:  # to read a topic takes longer than to look into a folder
                return process.poll() is not None
            seen.append(last)
            lines = told(brokers)
            ends = sum(line.startswith("sum,end") for line in lines)
            return ends == PARTITIONS and sum(map(is_window, lines)) >= expected.total()

        wait_for(partial(is_over, [-1]))

    lines = [line for line in told(brokers) if line != "begun"]
    repeats = len(brokers.read("sums")) - len(lines) - 1
    print(f"\n{len(source.elements)} elements, {len(lines)} lines, {repeats} written again")  # noqa: T201
    amounts: dict[str, list[int]] = defaultdict(list)
    for key, amount, _ in source.elements:
        amounts[key].append(amount)
    assert {key: sorted(each) for key, each in amounts.items()} == amounts_of_running_sums(lines)
    assert expected == Counter(filter(is_window, lines))
