# SPDX-License-Identifier: Apache-2.0
"""Topics as sources of jobs, on the local runner and through the functions that Spark runs."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from job_stream_support import results_of_stream
from kafka_jobs import endless, numbers, reading, stream, timed
from kafka_support import Brokers, new_topic
from local_support import Each, local

from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.errors import (
    DataLossError,
    DeclarationValueError,
    UserFunctionError,
)
from pyflinklike.kafka.fetch import fetch
from pyflinklike.kafka.offsets import OffsetRange
from pyflinklike.kafka.options import reader_options
from pyflinklike.pyflink._graph.job import Job, JobSettings
from pyflinklike.pyflink._graph.nodes import ToSink
from pyflinklike.pyflink._graph.sinks import CollectSink
from pyflinklike.pyflink._spark.job_plan import JobSteps, SessionFacts
from pyflinklike.pyflink._spark.watermark_feed import SPLIT_WATERMARKS, SplitWatermark, needs_feed
from pyflinklike.pyflink.common import (
    DeserializationSchema,
    SimpleStringSchema,
    Time,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import ProcessFunction
from pyflinklike.pyflink.datastream.connectors.kafka import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaTopicPartition,
)
from pyflinklike.pyflink.datastream.window import TumblingEventTimeWindows
from pyflinklike.spark._wire.payloads import payload_to_batch
from pyflinklike.spark._wire.stage_records import StageRecord, cell_of, wrap_to_pass

PARALLELISM = ["1", "3"]


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_all_values_are_read_once(brokers, topic, parallelism):
    """However many instances share the partitions."""
    expected = numbers(brokers, topic, range(200))

    given = stream(reading(brokers, topic).build(), parallelism__default=parallelism)

    assert expected == sorted(given.execute_and_collect(), key=int)


@pytest.mark.parametrize(
    ("starting", "expected"),
    [
        (KafkaOffsetsInitializer.earliest(), "0123456789"),
        (KafkaOffsetsInitializer.latest(), ""),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.LATEST), "6789"),
        (KafkaOffsetsInitializer.committed_offsets(KafkaOffsetResetStrategy.EARLIEST), "6789"),
    ],
)
def test_where_a_source_starts(brokers, topic, starting, expected):
    """At an end of the topic, or where the consumer group has come to."""
    brokers.write(topic, [(None, b"%d" % number) for number in range(10)], partition=1)
    consumer = Consumer({"bootstrap.servers": brokers.servers, "group.id": "jobs"})
    consumer.commit(offsets=[TopicPartition(topic, 1, 6)], asynchronous=False)
    consumer.close()

    source = reading(brokers, topic).set_starting_offsets(starting).build()

    assert list(expected) == list(stream(source).execute_and_collect())


def test_offsets_by_partition(brokers, topic):
    """Where one is not named, what was committed counts, then the strategy; likewise for the end."""
    for partition in range(3):
        records = [(None, b"%d%d" % (partition, number)) for number in range(4)]
        brokers.write(topic, records, partition=partition)
    consumer = Consumer({"bootstrap.servers": brokers.servers, "group.id": "jobs"})
    consumer.commit(offsets=[TopicPartition(topic, 1, 2)], asynchronous=False)
    consumer.close()
    starts = {KafkaTopicPartition(topic, 0): 3}
    stops = {KafkaTopicPartition(topic, 1): 3, KafkaTopicPartition(topic, 2): 0}

    source = (
        reading(brokers, topic)
        .set_starting_offsets(KafkaOffsetsInitializer.offsets(starts))
        .set_bounded(KafkaOffsetsInitializer.offsets(stops, KafkaOffsetResetStrategy.LATEST))
        .build()
    )

    assert ["03", "12"] == sorted(stream(source).execute_and_collect())


def test_an_offset_that_is_not_there_is_refused(brokers, topic):
    """Whatever a strategy says: what is gone is left out only by name."""
    numbers(brokers, topic, range(4))
    starting = KafkaOffsetsInitializer.offsets({KafkaTopicPartition(topic, 0): 99})

    source = reading(brokers, topic).set_starting_offsets(starting).build()

    with pytest.raises(
        DeclarationValueError, match=f"got 99 for partition 0 of {topic}, which has 0"
    ):
        list(stream(source).execute_and_collect())


def test_a_source_commits_nothing(brokers, topic):
    """PyFlink's commits with each checkpoint."""
    numbers(brokers, topic, range(4))
    read = list(stream(reading(brokers, topic).set_group_id(topic).build()).execute_and_collect())
    consumer = Consumer({"bootstrap.servers": brokers.servers, "group.id": topic})
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=20)

    assert (4, True) == (len(read), found.offset < 0)


def test_committed_offsets_that_are_missing_are_an_error(brokers, topic):
    """Where no strategy says what else."""
    numbers(brokers, topic, range(4))
    starting = KafkaOffsetsInitializer.committed_offsets()
    source = reading(brokers, topic).set_starting_offsets(starting).build()

    wanted = f"none of the consumer group 'jobs' for {topic}/0, {topic}/1"
    with pytest.raises(DeclarationValueError, match=wanted):
        list(stream(source).execute_and_collect())


def test_partitions_are_read_alone(brokers, topic):
    """The others stay unread."""
    for partition in range(3):
        brokers.write(topic, [(None, b"%d" % partition)], partition=partition)
    builder = KafkaSource.builder().set_bootstrap_servers(brokers.servers)
    builder.set_partitions({KafkaTopicPartition(topic, 2), KafkaTopicPartition(topic, 1)})
    builder.set_value_only_deserializer(SimpleStringSchema())
    source = builder.set_bounded(KafkaOffsetsInitializer.latest()).build()

    assert ["1", "2"] == sorted(stream(source).execute_and_collect())


def test_a_pattern_is_of_whole_names(brokers, topic):
    """A topic whose name only begins so is another one."""
    brokers.write(f"{topic}-a", [(None, b"a")])
    brokers.write(f"{topic}-ab", [(None, b"ab")])
    builder = KafkaSource.builder().set_bootstrap_servers(brokers.servers)
    builder.set_topic_pattern(f"{topic}-.").set_value_only_deserializer(SimpleStringSchema())
    source = builder.set_bounded(KafkaOffsetsInitializer.latest()).build()

    assert ["a"] == list(stream(source).execute_and_collect())


class Times(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, ctx.timestamp()


def test_the_time_of_a_record_is_that_of_its_element(brokers, topic):
    """In ms; so windows need no assigner of timestamps."""
    timed(brokers, topic, [1, 1_700_000_000_123])

    given = stream(reading(brokers, topic).build()).process(Times())

    assert [("1", 1), ("1700000000123", 1_700_000_000_123)] == list(given.execute_and_collect())


def windowed(source: KafkaSource, **settings: str) -> Any:
    """Windows of ten ms by the times of records."""
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    values = stream(source, strategy, **settings).map(lambda value: [int(value)])
    windows = values.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    return windows.reduce(lambda one, other: one + other)


@pytest.mark.parametrize("limit", ["1", "3", ""])
def test_windows_of_a_topic_through_the_functions_of_spark(brokers, topic, limit):
    """Bounded in streaming mode: the last window closes at the end."""
    timed(brokers, topic, [1, 5, 9, 10, 12, 31])
    settings = {"pyflinklike__source__records-per-batch": limit} if limit else {}
    result = windowed(reading(brokers, topic).build(), **settings)
    program = result._program
    sink = program.builder.add(
        ToSink,
        name="Collect",
        inputs=(result._node.id,),
        type_info=result.get_type(),
        sink=CollectSink(),
    )
    graph = program.builder.graph([sink.id])
    job = Job(graph, program._settings(graph, None))

    given = results_of_stream(job, SessionFacts(2, 8, "UTC"))

    assert [[1, 5, 9], [10, 12], [31]] == given
    assert given == list(
        windowed(reading(brokers, topic).build(), **settings).execute_and_collect()
    )


class Lengths(DeserializationSchema):
    """The lengths of values; empty ones are no elements, and what is missing is -1."""

    def deserialize(self, message):
        return -1 if message is None else len(message) or None


def test_a_schema_of_the_programs_own(brokers, topic):
    """None is no element; a record without a value is one of None bytes."""
    brokers.write(topic, [(None, value) for value in (b"ab", b"", None, b"c")], partition=0)
    source = reading(brokers, topic).set_value_only_deserializer(Lengths()).build()

    assert [2, -1, 1] == list(stream(source).execute_and_collect())


def test_a_record_that_cannot_be_decoded_is_named(brokers, topic):
    """By topic, partition and offset."""
    brokers.write(topic, [(None, b"a"), (None, None)], partition=3)

    with pytest.raises(
        UserFunctionError, match=f"offset 1 of partition 3 of topic {topic}.*tombstone"
    ):
        list(stream(reading(brokers, topic).build()).execute_and_collect())


def test_records_that_expire_before_they_are_read_are_an_error(brokers, topic):
    """A part names its offsets, and these are gone."""
    source = reading(brokers, topic).build()
    big = b"x" * 1024 * 1024
    brokers.write(topic, [(None, b"first")], partition=0)
    (part,) = source.splits()
    brokers.write(
        topic, [(None, big) for _ in range(8)], partition=0, **{"message.max.bytes": 2_000_000}
    )

    with pytest.raises(DataLossError, match="offsets 0 to 0 of partition 0"):
        list(source.read_split(part))


# Topics without an end


def given_by_a_task(brokers: Brokers, count: int) -> tuple[str, int, list[Any], list[StageRecord]]:
    """Its topic, the number of the source, records for the operator, and what passes it.

    Args:
        brokers: With the topic.
        count: How many of its three records the task reads.
    """
    topic = new_topic()
    timed(brokers, topic, [7, 1_000, 500], partition=2)
    source = endless(brokers, topic).build()
    keyed = local().from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "topic")
    keyed.key_by(str).process(Each()).print()
    graph = keyed._program.graph()
    steps = JobSteps(Job(graph, JobSettings()), SessionFacts(2, 8, "UTC"), HashMapStateBackend())
    steps.is_fed = needs_feed(graph, steps.stages[0])
    options = reader_options(source.options, streaming=True)
    records = list(fetch(OffsetRange(topic, 2, 0, count), options)) if count else []
    batches = list(steps.task(steps.stages[0]).run(records))

    rows = [row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns))]
    payloads, begin = [row[2] for row in rows if row[0] >= 0], wrap_to_pass(b"")
    through = [
        StageRecord.from_bytes(each[len(begin) :]) for each in payloads if each.startswith(begin)
    ]
    mine = [
        record
        for each in payloads
        if not each.startswith(begin)
        for record in StageRecord.from_bytes(cell_of(payload_to_batch(each))).records()
    ]
    return topic, steps.stages[0].entrances[0], mine, through


def test_records_become_elements_with_their_times(brokers):
    """For the keyed operator, by its keys."""
    _, _, elements, _ = given_by_a_task(brokers, 3)

    found = sorted((value, time) for _, value, time in elements)
    assert [("1000", 1_000), ("500", 500), ("7", 7)] == found


@pytest.mark.parametrize(("count", "watermark"), [(3, 999), (1, 6)])
def test_a_task_tells_how_far_its_partition_has_come(brokers, count, watermark):
    """By the times of its records."""
    topic, source, _, (parcel,) = given_by_a_task(brokers, count)

    found = [SplitWatermark(*each) for each in parcel.records()]
    assert (SPLIT_WATERMARKS, [SplitWatermark(source, f"{topic}/2", watermark)]) == (
        parcel.address.node,
        found,
    )


def test_a_task_without_records_tells_nothing(brokers):
    """Its partition may be idle."""
    _, _, elements, through = given_by_a_task(brokers, 0)

    assert ([], []) == (elements, through)
