# SPDX-License-Identifier: Apache-2.0
"""A process that plays Spark's part without a JVM, and may be killed: `kafka_loop.py <job as JSON>`.

It writes down the offsets of a micro-batch, copies its records from one topic to another by the
reader and the writer of the data source, and writes down that it is done; until there is no more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pyflinklike.kafka.data_source import stream_reader
from pyflinklike.kafka.delivery import deliver
from pyflinklike.kafka.messages import RecordIds, of_batches
from pyflinklike.kafka.options import reader_options


def main(job: dict[str, Any]) -> None:
    """Copy all there is."""
    offsets, commits = (Path(job["root"]) / name for name in ("offsets", "commits"))
    for log in (offsets, commits):
        log.mkdir(exist_ok=True)
    given = {**job["options"], "subscribe": job["from"], "startingOffsets": "earliest"}
    options = reader_options({**given, "maxOffsetsPerTrigger": job["most"]}, streaming=True)
    reader: Any = stream_reader(options)
    number = len(list(commits.iterdir()))
    while True:
        planned = offsets / str(number)
        if planned.exists():
            start, end = json.loads(planned.read_text())
        else:
            before = offsets / str(number - 1)
            start = json.loads(before.read_text())[1] if number else reader.initialOffset()
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            if end == start:
                return
            whole = offsets / f".{number}"
            whole.write_text(json.dumps([start, end]))
            whole.rename(planned)
        for task, part in enumerate(reader.partitions(start, end)):
            local = {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(number)}
            ids = RecordIds(SimpleNamespace(getLocalProperty=local.get, partitionId=lambda: task))  # noqa: B023
            records = (batch.select(["key", "value"]) for batch in reader.read(part))
            deliver(map(ids.add_to, of_batches(records, job["to"])), dict(options.settings))
        (commits / str(number)).touch()
        number += 1


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
