# SPDX-License-Identifier: Apache-2.0
"""Jobs on Spark over lines of files: where they run, what they read, and what they write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from job_lives import wait_for

from pyflinklike.pyflink.common import Configuration, Encoder, WatermarkStrategy
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    StreamFormat,
)

__all__ = ["add", "going_on", "lines_in", "on_spark", "sink_in", "until"]


def on_spark(**settings: str) -> StreamExecutionEnvironment:
    """An environment whose jobs run on Spark."""
    values = {"execution.target": "spark", **settings}
    return StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))


def going_on(folder: Path, **settings: str) -> StreamExecutionEnvironment:
    """One whose jobs go on from their checkpoints."""
    return on_spark(**{"execution.checkpointing.dir": str(folder / "checkpoints"), **settings})


def add(folder: Path, name: str, *lines: str) -> None:
    """A file of input, which is seen when it is whole."""
    (folder / "in").mkdir(exist_ok=True)
    hidden = folder / "in" / f".{name}"
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(folder / "in" / name)


def lines_in(env: StreamExecutionEnvironment, folder: Path) -> Any:
    """The lines of the input, whose files are looked for."""
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder / "in"))
    found = files.monitor_continuously(20).build()
    return env.from_source(found, WatermarkStrategy.no_watermarks(), "files")


def sink_in(folder: Path) -> FileSink:
    """Lines in files of a folder."""
    sink = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    return sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def until(folder: Path, count: int) -> None:
    """Wait for so many lines of output."""
    wait_for(folder / "out", lambda lines: len(lines) >= count)
