# SPDX-License-Identifier: Apache-2.0
"""Files and then a topic without an end, as Spark reads them: who waits, what says that the files are read."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from kafka_jobs import endless, numbers, timed
from kafka_support import new_topic
from local_support import Each, local

from pyflinklike._clock import MIN_WATERMARK
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import SparkSetupError
from pyflinklike.kafka import data_source
from pyflinklike.kafka.fetch import fetch
from pyflinklike.kafka.offsets import OffsetRange
from pyflinklike.kafka.options import reader_options
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.nodes import FromSource
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.job_session import refuse_what_is_missing
from pyflinklike.pyflink._spark.stage_task import SOURCE_SCHEMA
from pyflinklike.pyflink._spark.stream_sources import StreamSource, _pack
from pyflinklike.pyflink._spark.watermark_feed import SplitWatermark, WatermarkFeed, needs_feed
from pyflinklike.pyflink.common import WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors import (
    DataGeneratorSource,
    FileSource,
    HybridSource,
    RateLimiterStrategy,
    StreamFormat,
)

pytestmark = pytest.mark.skipif(not data_source.HAS_LIMITS, reason="waiting needs PySpark 4.2")


def job_of(path, last):
    """A job over files and then a source that does not end, and the number of their node."""
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()
    source = HybridSource.builder(lines).add_source(last).build()
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    stream = local().from_source(source, strategy, "files, then a topic")
    stream.key_by(str).process(Each()).print()
    graph = stream._program.graph()
    (node,) = graph.of_kind(FromSource)
    return Job(graph, JobSettings()), node


def progress_of(folder, files):
    """What a query tells that has read so many files, and a topic."""
    return {
        "sources": [
            {"description": "PythonMicroBatchStream", "endOffset": '{"offsets": {}}'},
            {
                "description": f"FileStreamSource[file:{folder}]",
                "endOffset": json.dumps({"logOffset": files - 1}),
            },
        ]
    }


def test_a_topic_that_is_held_gives_nothing_new(brokers, topic, tmp_path):
    """It stays where it is while the file is there."""
    numbers(brokers, topic, range(10))
    held = endless(brokers, topic).build().hold_by_file(tmp_path / "held")
    reader = data_source.stream_reader(
        reader_options({**held.options, "startingOffsets": "earliest"}, streaming=True)
    )
    limit = reader.getDefaultReadLimit()
    before = reader.latestOffset(reader.initialOffset(), limit)
    numbers(brokers, topic, range(3))

    (tmp_path / "held").touch()
    while_held = reader.latestOffset(before, limit)
    (tmp_path / "held").unlink()
    after = reader.latestOffset(before, limit)

    assert before == while_held
    assert 3 == sum(each.end - each.start for each in reader.partitions(before, after))


def test_a_topic_waits_for_a_file(brokers, topic, tmp_path):
    """Until then the stream stays where it starts, whatever is in the topic."""
    numbers(brokers, topic, range(10))
    waiting = endless(brokers, topic).build().wait_for_file(tmp_path / "gate")
    reader = data_source.stream_reader(
        reader_options({**waiting.options, "startingOffsets": "earliest"}, streaming=True)
    )
    start, limit = reader.initialOffset(), reader.getDefaultReadLimit()

    before = [reader.latestOffset(start, limit) for _ in range(2)]
    (tmp_path / "gate").touch()
    end = reader.latestOffset(start, limit)

    assert [start, start] == before
    assert 10 == sum(each.end - each.start for each in reader.partitions(start, end))


def test_the_topic_begins_when_all_files_are_committed(brokers, topic, tmp_path):
    """It is written down, so a restart goes on behind the switch; before it, it waits again."""
    (tmp_path / "lines").write_text("line")
    numbers(brokers, topic, range(1))
    _, node = job_of(tmp_path / "lines", endless(brokers, topic).build())
    folder = tmp_path / "source-0"
    source = StreamSource(node, JobSettings(), folder)

    steps = [source.switch(None), source.switch(progress_of(tmp_path / "source-1", 9))]
    steps.append(source.switch(progress_of(folder, 0)))
    again = StreamSource(node, JobSettings(), folder)
    # A restart writes one more file, which must be read, too.
    steps += [again.switch(progress_of(folder, 1)), again.is_switched]
    steps += [again.switch(progress_of(folder, 2)), again.is_switched, again.is_waiting]
    steps += [again.switch(progress_of(folder, 2))]

    assert [False, False, False, False, False, True, True, False, False] == steps
    assert StreamSource(node, JobSettings(), folder).is_switched


def test_where_a_topic_starts_is_found_once(brokers, topic, tmp_path):
    """When the job begins: nothing is lost that comes while files are read."""
    (tmp_path / "lines").write_text("line")
    numbers(brokers, topic, range(4))
    from pyflinklike.pyflink.datastream.connectors.kafka import KafkaOffsetsInitializer

    latest = endless(brokers, topic).set_starting_offsets(KafkaOffsetsInitializer.latest())
    _, node = job_of(tmp_path / "lines", latest.build())
    first = StreamSource(node, JobSettings(), tmp_path / "source")._beginning
    numbers(brokers, topic, range(4))

    assert first == StreamSource(node, JobSettings(), tmp_path / "source")._beginning


def test_records_become_elements_that_say_their_partition(brokers, tmp_path):
    """A task tells the driver how far that has come; of files it tells as of one split."""
    topic = new_topic()
    timed(brokers, topic, [7, 1_000, 500], partition=2)
    kafka = endless(brokers, topic).build()
    job, node = job_of(tmp_path, kafka)
    steps = JobSteps(job, SessionFacts(2, 8, "UTC"), HashMapStateBackend())
    steps.is_fed = needs_feed(job.graph, steps.stages[0])
    options = reader_options(kafka.options, streaming=True)
    rows = list(_pack(node.id, kafka, fetch(OffsetRange(topic, 2, 0, 3), options)))
    task = steps.task(steps.stages[0])
    empty = pa.RecordBatch.from_pylist(
        [
            {
                "source": node.id,
                "split": 0,
                "splits": 1,
                "part": '[0, "x"]',
                "elements": None,
                "is_last": False,
            }
        ],
        schema=SOURCE_SCHEMA.arrow,
    )

    assert steps.is_fed
    assert {(node.id, f"{topic}/2")} == {split for row in rows for split in task.splits_of(row)}
    assert {(node.id, "")} == task.splits_of(empty)


def test_files_that_are_read_hold_back_no_partition(brokers, topic, tmp_path):
    """Before the first record the watermark stays; after a restart they are still at their end."""
    job, node = job_of(tmp_path, endless(brokers, topic).build())
    stage = JobSteps(job, SessionFacts(2, 8, "UTC"), HashMapStateBackend()).stages[0]
    feed = WatermarkFeed(tmp_path / "watermark.json", stage, 0)
    found = []

    for reported in ([], [SplitWatermark(node.id, "", 50)]):
        feed.note(reported, 1)
        feed.tell(1)
        found.append(feed._watermark)
    feed.end_files(node.id)
    feed.tell(2)
    found.append(feed._watermark)
    feed.note([SplitWatermark(node.id, "t/0", 70), SplitWatermark(node.id, "", 10)], 3)
    feed.tell(3)
    found.append(feed._watermark)
    again = WatermarkFeed(tmp_path / "watermark.json", stage, 4)
    again.end_files(node.id)
    again.note([SplitWatermark(node.id, "t/0", 90)], 4)
    again.tell(4)

    assert [MIN_WATERMARK, 50, 50, 70, 90] == [*found, again._watermark]


def test_other_streams_cannot_wait(tmp_path):
    """They are refused when the job starts, with what to do."""
    rate = RateLimiterStrategy.per_second(1)
    made = DataGeneratorSource(
        str,
        None,
        rate,
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), "x").build().type_info,
    )
    job, _ = job_of(tmp_path, made)

    with pytest.raises(SparkSetupError, match="only a KafkaSource can wait"):
        refuse_what_is_missing(job)
