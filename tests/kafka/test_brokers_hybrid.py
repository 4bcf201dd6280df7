# SPDX-License-Identifier: Apache-2.0
"""A job on Spark over files and then a topic: cancelled before and behind the switch."""

from __future__ import annotations

import pytest
from kafka_jobs import endless, numbers, values_to, writing
from kafka_support import new_topic, wait_for
from test_brokers_job_modes import environment, has, texts

from pyflinklike.pyflink.common import Types, WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import FileSource, HybridSource, StreamFormat

PAIR = Types.TUPLE([Types.STRING(), Types.STRING()])


@pytest.fixture(autouse=True)
def shipped_jobs(spark, request):
    """The functions of this module go to workers by value."""
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(request.module)
    yield
    cloudpickle.unregister_pickle_by_value(request.module)


def test_a_topic_follows_files_over_restarts(brokers, tmp_path):
    """By last digits: what is in the files comes first, and each element once, wherever it was cancelled."""
    source, out, lines = new_topic(), new_topic(), tmp_path / "lines"
    lines.mkdir()
    for part in range(3):
        text = "".join(f"{number}\n" for number in range(part * 10, part * 10 + 10))
        (lines / f"{part}").write_text(text, encoding="utf-8")
    numbers(brokers, source, range(30, 60))

    def started():
        env = environment(**{"execution.checkpointing.dir": str(tmp_path)})
        files = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(lines))
        found = HybridSource.builder(files.build()).add_source(endless(brokers, source).build())
        values = env.from_source(found.build(), WatermarkStrategy.no_watermarks(), "both")
        pairs = values.map(lambda value: (value[-1], value), PAIR).key_by(lambda pair: pair[0])
        told = pairs.reduce(lambda one, other: (one[0], f"{one[1]} {other[1]}"))
        told = told.map(lambda pair: pair[1], Types.STRING())
        told.sink_to(writing(brokers, values_to(out)).build())
        return env.execute_async("digits")

    for count in (30, 60, 90):
        if count == 90:
            numbers(brokers, source, range(60, 90))
        job = started()
        wait_for(lambda n=count: has(brokers, out, n))
        job.cancel().result()

    longest = {text.split()[0][-1]: "" for text in texts(brokers, out)}
    for text in texts(brokers, out):
        longest[text[-1]] = max(longest[text[-1]], text, key=len)
    for digit, text in longest.items():
        found = [int(each) for each in text.split()]
        assert list(range(int(digit), 90, 10)) == sorted(found)
        assert all(each < 30 for each in found[:3])
    assert 10 == len(longest)
