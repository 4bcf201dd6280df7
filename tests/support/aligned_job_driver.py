# SPDX-License-Identifier: Apache-2.0
"""A driver of a job of two sources that wait for each other, and of times assigned between keyed operators.

python aligned_job_driver.py '{"folder": ..., "settings": {...}, "checkpoints": "..."}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from job_driver import ByTime, Sums, begin_session, parsed

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
from pyflinklike.pyflink.datastream.state import ValueStateDescriptor

__all__ = ["DRIFT", "NAME"]

NAME = "aligned"
DRIFT = 200
"""How far a source may be ahead of the other one, in ms."""
DELAY = 5_000
"""How far elements may lie behind others once both sources are united, in ms."""


class ByField(TimestampAssigner):
    """The third field of a tuple."""

    def extract_timestamp(self, value: Any, record_timestamp: int | None) -> int:
        """Of an element."""
        return int(value[2])


class Numbered(KeyedProcessFunction):
    """Gives what comes, by keys with the number of the element before; a number is never there twice."""

    def open(self, ctx: Any) -> None:
        """State."""
        self.count = ctx.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: Any, ctx: Any) -> Any:
        """Count it."""
        self.count.update((self.count.value() or 0) + 1)
        yield value


def declared(folder: Path, checkpoints: str) -> StreamExecutionEnvironment:
    """The job."""
    values = {"execution.target": "spark", "pipeline.name": NAME}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    env.get_checkpoint_config().set_checkpoint_storage_dir(checkpoints)
    aligned = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(20))
    aligned = aligned.with_timestamp_assigner(ByTime())
    aligned = aligned.with_watermark_alignment("both", Duration.of_millis(DRIFT))
    streams = [
        env.from_source(
            FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / name))
            .monitor_continuously(Duration.of_millis(50))
            .build(),
            aligned,
            name,
        ).uid(name)
        for name in ("left", "right")
    ]
    elements = streams[0].union(streams[1]).map(parsed)
    numbered = elements.key_by(lambda value: value[0], Types.STRING()).process(Numbered())
    own = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(DELAY))
    again = numbered.uid("numbered").assign_timestamps_and_watermarks(
        own.with_timestamp_assigner(ByField())
    )
    keyed = again.key_by(lambda value: value[0], Types.STRING())
    keyed.process(Sums(), Types.STRING()).uid("sums").sink_to(
        FileSink.for_row_format(str(folder / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    return env


def main() -> None:
    """Run the job until it is killed."""
    described = json.loads(sys.argv[1])
    begin_session(described["settings"])
    folder = Path(described["folder"])
    declared(folder, described.get("checkpoints") or str(folder / "checkpoints")).execute()


if __name__ == "__main__":
    main()
