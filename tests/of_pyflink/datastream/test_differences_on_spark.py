# SPDX-License-Identifier: Apache-2.0
"""What Spark does not run as PyFlink does: rows of the table in the guide to migration, without a session."""

from __future__ import annotations

import pytest

from pyflinklike.errors import SparkSetupError
from pyflinklike.pyflink.common import Configuration, Time, WatermarkStrategy
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors import FileSource, StreamFormat
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows

pytest.importorskip("pyspark", reason="PySpark is not installed (the extra `spark`)")


@pytest.fixture
def env(tmp_path):
    """An environment whose jobs would run on Spark, and leave a folder."""
    values = {"execution.target": "spark", "execution.checkpointing.dir": str(tmp_path / "kept")}
    yield StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    assert not (tmp_path / "kept").exists()


def keyed_lines(env):
    """Lines of files that are not there, so that whoever reads them fails."""
    files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "/nowhere")
    source = files.monitor_continuously(10).build()
    lines = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "lines")
    return lines.key_by(len)


def windows(stream, assigner):
    """The last element of each window."""
    return stream.window(assigner.of(Time.seconds(1))).reduce(lambda _, other: other)


def test_times_are_not_assigned_on_one_of_several_ways_between_operators(env):
    """PyFlink has a watermark for each operator; Spark tells nobody the one of the other ways in time."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    lines = keyed_lines(env).reduce(max)
    again = lines.union(lines.assign_timestamps_and_watermarks(strategy)).key_by(len)
    windows(again, TumblingEventTimeWindows).print()

    with pytest.raises(SparkSetupError, match="a watermark strategy between keyed operators"):
        env.execute()
