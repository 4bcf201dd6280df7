# SPDX-License-Identifier: Apache-2.0
"""Reader and writer in a process that is killed again and again, without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import fault_lives
import pytest
from kafka_support import committed, mock_brokers, wait_for

from pyflinklike.kafka import data_source
from pyflinklike.kafka.messages import HEADER

KILLS = 8
RECORDS = 20_000


@pytest.mark.skipif(not data_source.HAS_LIMITS, reason="limits need PySpark 4.2")
def test_every_record_is_copied_once_but_for_batches_in_flight(tmp_path: Path):
    """And without repeats of ids, once."""
    brokers, random = mock_brokers(), Random(5)
    brokers.write("loop-in", [(b"%d" % (n % 50), b"%d" % n) for n in range(RECORDS)])
    job = {"root": tmp_path, "options": brokers.options, "from": "loop-in", "to": "loop-out"}
    job["most"] = "400"
    in_flight = []
    for _ in range(KILLS):
        before = committed(tmp_path)
        with fault_lives.program("kafka_loop.py", job, tmp_path / "log") as process:
            wait_for(lambda: committed(tmp_path) > before, random.random() * 0.3)  # noqa: B023
            fault_lives.kill(process)
        in_flight.append(committed(tmp_path) + 1)
    with fault_lives.program("kafka_loop.py", job, tmp_path / "log") as process:
        assert process.wait(100) == 0, (tmp_path / "log").read_text()[-3_000:]

    found = brokers.read("loop-out")
    once = {
        header["value"]: record["value"]
        for record in found
        for header in record["headers"]
        if header["key"] == HEADER
    }
    copies = Counter(record["value"] for record in found)
    batches = {int(name.split(b"/")[1]) for name, value in once.items() if copies[value] > 1}
    print(  # noqa: T201 - the figures
        f"\n{RECORDS} records, {len(found)} in the copy, {len(once)} without repeats; "
        f"repeats in micro-batches {sorted(batches)}; in flight at kills {in_flight}"
    )
    assert sorted(once.values()) == sorted(b"%d" % n for n in range(RECORDS))
    assert batches <= set(in_flight)
