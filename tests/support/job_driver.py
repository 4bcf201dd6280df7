# SPDX-License-Identifier: Apache-2.0
"""A driver of a job that never ends, to be killed: files of lines, running sums by key with timers, files.

    python job_driver.py '{"folder": ..., "settings": {...}, "checkpoints": "viewfs://..."}'

Without `checkpoints` the job's folder is in the folder.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyflinklike.pyflink.common import (
    Configuration,
    Duration,
    Encoder,
    TimestampAssigner,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    StreamFormat,
)
from pyflinklike.pyflink.datastream.state import MapStateDescriptor, ValueStateDescriptor

__all__ = ["WINDOW"]

WINDOW = 100
"""How long the windows are whose timers tell their sums, in ms."""


def parsed(line: str) -> tuple[str, int, int]:
    """Key, amount and event time."""
    key, amount, time = line.split(",")
    return key, int(amount), int(time)


class ByTime(TimestampAssigner):
    """The third field."""

    def extract_timestamp(self, value: str, record_timestamp: int | None) -> int:
        """Of a line."""
        return parsed(value)[2]


class Sums(KeyedProcessFunction):
    """`sum,key,count,sum` for each element, `window,key,end,sum` for each window when it is over."""

    def open(self, ctx: Any) -> None:
        """State."""
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.INT()))
        self.sum = ctx.get_state(ValueStateDescriptor("sum", Types.LONG()))
        self.windows = ctx.get_map_state(MapStateDescriptor("windows", Types.LONG(), Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Add it up."""
        key, amount, time = value
        count, total = (self.count.value() or 0) + 1, (self.sum.value() or 0) + amount
        self.count.update(count)
        self.sum.update(total)
        end = time // WINDOW * WINDOW + WINDOW
        self.windows.put(end, (self.windows.get(end) or 0) + amount)
        ctx.timer_service().register_event_time_timer(end)
        yield f"sum,{key},{count},{total}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """Tell a window, and forget it."""
        yield f"window,{ctx.get_current_key()},{timestamp},{self.windows.get(timestamp)}"
        self.windows.remove(timestamp)


def declared(folder: Path, checkpoints: str | None = None) -> StreamExecutionEnvironment:
    """The job."""
    values = {
        "execution.target": "spark",
        "pipeline.name": "sums of files",
        "pyflinklike.source.files-per-batch": "8",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    checkpoints = checkpoints or str(folder / "checkpoints")
    env.get_checkpoint_config().set_checkpoint_storage_dir(checkpoints)
    files = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / "in"))
        .monitor_continuously(Duration.of_millis(50))
        .build()
    )
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20))
    lines = env.from_source(files, strategy.with_timestamp_assigner(ByTime()), "files")
    sums = lines.map(parsed).key_by(lambda value: value[0]).process(Sums(), Types.STRING())
    sums.sink_to(
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner("ss"))
        .build()
    )
    return env


def begin_session(settings: dict[str, Any]) -> None:
    """The session that the job runs on."""
    from pyspark.sql import SparkSession  # its model needs no PySpark

    SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def main() -> None:
    """Run the job until it is killed."""
    described = json.loads(sys.argv[1])
    begin_session(described["settings"])
    declared(Path(described["folder"]), described.get("checkpoints")).execute()


if __name__ == "__main__":
    main()
