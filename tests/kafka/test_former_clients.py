# SPDX-License-Identifier: Apache-2.0
"""`FlinkKafkaConsumer` and `FlinkKafkaProducer` make the sources and sinks of today."""

from __future__ import annotations

import warnings

import pytest
from kafka_jobs import numbers
from local_support import local

from pyflinklike import _deprecation
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError, SparkSetupError
from pyflinklike.pyflink.common import SimpleStringSchema, Types
from pyflinklike.pyflink.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    Semantic,
)

PROPERTIES = {
    "bootstrap.servers": "localhost:9092",
    "group.id": "old",
    "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
}

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def consumer(topics="clicks", **properties):
    """A consumer of a topic, without a broker."""
    given = {**PROPERTIES, **{name.replace("_", "."): value for name, value in properties.items()}}
    return FlinkKafkaConsumer(topics, SimpleStringSchema(), given)


def made(source):
    """All that a source is made of; schemas have no equality."""
    return source.options, source.what, source.group, source.starting, source.is_bounded


@pytest.mark.parametrize(
    ("reset", "strategy"),
    [
        ({}, KafkaOffsetResetStrategy.LATEST),
        ({"auto_offset_reset": "earliest"}, KafkaOffsetResetStrategy.EARLIEST),
        ({"auto_offset_reset": "none"}, KafkaOffsetResetStrategy.NONE),
    ],
)
def test_a_consumer_is_the_source_that_starts_at_the_offsets_of_its_group(reset, strategy):
    """Where the group has none, as `auto.offset.reset` says: at the end, as Kafka's clients do."""
    builder = KafkaSource.builder().set_topics("clicks").set_properties(PROPERTIES)
    builder.set_value_only_deserializer(SimpleStringSchema())
    builder.set_starting_offsets(KafkaOffsetsInitializer.committed_offsets(strategy))

    assert made(builder.build()) == made(consumer(**reset).source())


@pytest.mark.parametrize(
    ("start", "offsets"),
    [
        (FlinkKafkaConsumer.set_start_from_earliest, KafkaOffsetsInitializer.earliest()),
        (FlinkKafkaConsumer.set_start_from_latest, KafkaOffsetsInitializer.latest()),
        (
            lambda each: each.set_start_from_timestamp(1_700_000_000_000),
            KafkaOffsetsInitializer.timestamp(1_700_000_000_000),
        ),
    ],
)
def test_a_consumer_starts_where_it_is_told_last(start, offsets):
    """Each setter returns the consumer."""
    assert offsets == start(consumer().set_start_from_group_offsets()).source().starting


def test_a_consumer_reads_one_topic_or_a_list_and_has_the_type_of_its_schema():
    """Here two topics of text."""
    of_two = consumer(["a", "b"])

    assert "topics a, b" == of_two.source().what
    assert Types.STRING() == of_two.get_produced_type()


def test_add_source_makes_the_source_of_a_consumer_when_it_is_called():
    """The stream has the type of the schema; a source of today is taken, too."""
    env, given = local(), consumer()
    stream = env.add_source(given, "clicks")
    given.set_start_from_earliest()

    assert (Types.STRING(), "clicks") == (stream.get_type(), stream.get_name())
    assert KafkaOffsetResetStrategy.LATEST is stream._node.source.starting._otherwise
    assert Types.STRING() == env.add_source(given.source()).get_type()


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (lambda: consumer(auto_offset_reset="first"), DeclarationValueError, "got 'first'"),
        (
            lambda: FlinkKafkaConsumer("a", SimpleStringSchema(), ["a"]),
            DeclarationTypeError,
            "properties are a dict",
        ),
        (
            lambda: FlinkKafkaConsumer("a", "text", PROPERTIES),
            DeclarationTypeError,
            "takes a DeserializationSchema",
        ),
        (lambda: local().add_source([1]), DeclarationTypeError, "FlinkKafkaConsumer or a source"),
        (
            lambda: FlinkKafkaProducer("a", "text", {}),
            DeclarationTypeError,
            "takes a SerializationSchema",
        ),
        (
            lambda: FlinkKafkaProducer("a", SimpleStringSchema(), PROPERTIES, semantic=0),
            DeclarationTypeError,
            "takes a Semantic",
        ),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_given(make, error, told):
    """With the rule and what was got."""
    with pytest.raises(error, match=told):
        make()


def test_a_producer_that_is_exactly_once_is_refused_when_its_job_starts():
    """As a sink of today."""
    env, schema = local(), SimpleStringSchema()
    producer = FlinkKafkaProducer("a", schema, PROPERTIES, semantic=Semantic.EXACTLY_ONCE)
    env.from_collection(["a"]).add_sink(producer)

    with pytest.raises(SparkSetupError, match="writes at least once"):
        env.execute()


@pytest.mark.parametrize(("is_timed", "time"), [(False, None), (True, 7)])
def test_a_producer_writes_the_times_of_elements_only_if_it_is_told(is_timed, time):
    """By default a record has the time of its writing; a sink of today writes the element's."""
    schema = SimpleStringSchema()
    sink = FlinkKafkaProducer("counts", schema, PROPERTIES)
    message = sink.set_write_timestamp_to_kafka(is_timed).sink().serializer.message("a", 7)
    records = KafkaRecordSerializationSchema.builder().set_topic("counts")
    today = records.set_value_serialization_schema(schema).build().message("a", 7)

    assert (today.topic, today.key, today.value, time) == (
        message.topic,
        message.key,
        message.value,
        message.timestamp,
    )
    assert 7 == today.timestamp


def test_a_producer_is_the_sink_of_its_properties():
    """Without the settings of Java's serializers."""
    builder = KafkaSink.builder().set_bootstrap_servers("localhost:9092")
    records = KafkaRecordSerializationSchema.builder().set_topic("counts")
    builder.set_record_serializer(
        records.set_value_serialization_schema(SimpleStringSchema()).build()
    )
    given = {"bootstrap.servers": "localhost:9092", "key.serializer": "StringSerializer"}

    assert (
        builder.build().options
        == FlinkKafkaProducer("counts", SimpleStringSchema(), given).sink().options
    )


def test_a_job_of_flink_1_reads_a_topic_and_writes_another_one(brokers, topic):
    """Bounded here, since the local runner ends; the consumer itself has no end."""
    expected = numbers(brokers, topic, range(20))
    given = {"bootstrap.servers": brokers.servers, "group.id": "old"}
    consumer = FlinkKafkaConsumer(topic, SimpleStringSchema(), given).set_start_from_earliest()
    consumer._builder.set_bounded(KafkaOffsetsInitializer.latest())
    env = local()
    texts = env.add_source(consumer).map(lambda text: f"<{text}>", Types.STRING())
    texts.add_sink(FlinkKafkaProducer(f"{topic}-out", SimpleStringSchema(), given))
    env.execute()
    back = FlinkKafkaConsumer(f"{topic}-out", SimpleStringSchema(), given).set_start_from_earliest()
    back._builder.set_bounded(KafkaOffsetsInitializer.latest())

    read = list(local().add_source(back).execute_and_collect())

    assert sorted(f"<{each}>" for each in expected) == sorted(read)


def test_a_consumer_says_what_programs_write_today_once(monkeypatch):
    """As PyFlink itself does."""
    monkeypatch.setattr(_deprecation, "_SHOWN", set())

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        consumer()
        consumer()

    assert [(__file__, "FlinkKafkaConsumer is of Flink 1")] == [
        (each.filename, str(each.message).partition(":")[0]) for each in told
    ]
