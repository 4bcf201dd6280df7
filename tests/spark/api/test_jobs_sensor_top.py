# SPDX-License-Identifier: Apache-2.0
"""The example of two keyed functions behind each other: a stream, a batch and SQL agree."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
from example_support import example
from spark_support import passes_watermarks

from pyflinklike import Row
from pyflinklike.testing import HarnessChain, KeyedProcessHarness


@passes_watermarks
def test_the_hottest_sensors_of_every_hour(spark, tmp_path):
    """The stream is stopped after every file, and ended; nothing is given out twice or before its hour is over."""
    top = example("sensor_top")
    files = top.write_readings(tmp_path / "arriving", 2_000, files=2)
    table = pa.concat_tables(map(pq.read_table, files))
    everything = spark.createDataFrame(table.to_pandas(), top.READING).persist()
    stream = top.Stream(spark, tmp_path / "stream")
    hours = []
    for file in files:
        stream.receive(file)
        hours.append(len({hour for hour, *_ in stream.results()}))
    stream.end()

    expected = top.ranking(top.by_sql(everything))

    assert 3 * 24 == len(expected)
    assert [11, 23] == hours
    assert expected == stream.results() == top.ranking(top.hottest(everything))
    everything.unpersist()


def test_all_means_of_an_hour_are_there_when_it_is_ranked():
    """Without Spark: the second operator has them before the watermark that its timer waits for."""
    top = example("sensor_top")
    first = KeyedProcessHarness(top.HourlyMean(), lambda row: row.sensor)
    second = KeyedProcessHarness(top.Hottest(1), lambda row: row.hour)
    fields = ("hour", "at", "sensor", "mean")

    def link(mean):
        at = round(mean[1].timestamp() * 1000)
        return Row(**dict(zip(fields, mean))), at

    with HarnessChain(first).then(second, link) as chain:
        for sensor, tenths in [("a", 200), ("b", 300), ("b", 320)]:
            chain.process_element(Row(sensor=sensor, at=None, tenths=tenths), timestamp=5)
        assert [] == chain.process_watermark(top.HOUR - 2)
        assert [(top.instant(0), 1, "b", 310.0)] == chain.process_watermark(top.HOUR - 1)
