# SPDX-License-Identifier: Apache-2.0
"""Topics as sinks of jobs; and how sources and sinks are declared, and what is refused."""

from __future__ import annotations

import json

import attrs
import pytest
from kafka_jobs import endless, numbers, reading, stream, timed, values_to, writing
from kafka_support import new_topic
from local_support import local

from pyflinklike.errors import (
    CorruptStateError,
    DeclarationTypeError,
    DeclarationValueError,
    OutputError,
    SparkSetupError,
    UserFunctionError,
)
from pyflinklike.kafka.offsets import Offsets
from pyflinklike.pyflink.common import SerializationSchema, SimpleStringSchema, Types
from pyflinklike.pyflink.common.serialization import ByteArraySchema, RowFieldExtractorSchema
from pyflinklike.pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
    KafkaTopicSelector,
)

PARALLELISM = ["1", "3"]


@pytest.mark.parametrize("parallelism", PARALLELISM)
def test_all_elements_are_written_once(brokers, topic, parallelism):
    """By however many instances."""
    numbers_ = [str(number) for number in range(200)]
    elements = local(parallelism__default=parallelism).from_collection(numbers_, Types.STRING())
    elements.sink_to(writing(brokers, values_to(topic)).build())

    elements.get_execution_environment().execute()

    found = sorted((record["value"].decode() for record in brokers.read(topic)), key=int)
    assert numbers_ == found


def test_keys_topics_and_times_of_records(brokers, topic):
    """Of each element by itself; a time of an element is that of its record."""
    source = new_topic()
    timed(brokers, source, [7, 1_700_000_000_000])
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(lambda value: f"{topic}-{len(value)}")
        .set_key_serialization_schema(ByKey())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    values = stream(reading(brokers, source).build())
    values.sink_to(writing(brokers, serializer).build())

    values.get_execution_environment().execute()

    found = [
        (record["key"], record["value"], round(record["timestamp"].timestamp() * 1000))
        for name in (f"{topic}-1", f"{topic}-13")
        for record in brokers.read(name)
    ]
    assert [(b"k7", b"7", 7), (b"k1", b"1700000000000", 1_700_000_000_000)] == found


class ByKey(SerializationSchema):
    """The first letter."""

    def serialize(self, element):
        return f"k{element[0]}".encode()


def test_what_is_told_at_the_end_of_a_batch_has_the_time_of_its_writing(brokers, topic):
    """Its own is the last of all times: no broker and no reader takes that."""
    env = local(**{"execution__runtime-mode": "BATCH"})
    pairs = env.from_collection([("a", 1), ("a", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
    sums = pairs.key_by(lambda pair: pair[0]).sum(1).map(str, Types.STRING())
    sums.sink_to(writing(brokers, values_to(topic)).build())

    env.execute()

    (record,) = brokers.read(topic)
    assert (b"('a', 3)", True) == (record["value"], 2020 < record["timestamp"].year < 9999)


def test_fields_of_rows_and_a_selector_of_topics(brokers, topic):
    """As PyFlink's example has it; a field of None is no key."""

    class Chosen(KafkaTopicSelector):
        def apply(self, data):
            return topic

    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic_selector(Chosen())
        .set_key_serialization_schema(RowFieldExtractorSchema(0))
        .set_value_serialization_schema(RowFieldExtractorSchema(1))
        .build()
    )
    bytes_ = Types.PRIMITIVE_ARRAY(Types.BYTE())
    rows = local().from_collection([(b"k", b"v"), (None, b"w")], Types.ROW([bytes_, bytes_]))
    rows.sink_to(writing(brokers, serializer).build())

    rows.get_execution_environment().execute()

    found = {(record["key"], record["value"]) for record in brokers.read(topic)}
    assert {(b"k", b"v"), (None, b"w")} == found


def test_bytes_there_and_back(brokers, topic):
    """A stream of bytes is a stream of bytes."""
    kind = Types.PRIMITIVE_ARRAY(Types.BYTE())
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    serializer = builder.set_value_serialization_schema(ByteArraySchema()).build()
    elements = local().from_collection([b"", b"\0\xff"], kind)
    elements.sink_to(writing(brokers, serializer).build())
    elements.get_execution_environment().execute()

    source = reading(brokers, topic).set_value_only_deserializer(ByteArraySchema()).build()

    given = stream(source)
    assert (kind, [b"", b"\0\xff"]) == (given.get_type(), sorted(given.execute_and_collect()))


@pytest.mark.parametrize(
    ("element", "topic_of", "error", "message"),
    [
        (5, lambda _: "t", OutputError, "SimpleStringSchema writes text, got 5"),
        ("a", lambda _: 1, OutputError, "the name of a topic, got 1 for element 'a'"),
        (5, lambda value: value[0], UserFunctionError, "be made of element 5: TypeError"),
    ],
)
def test_an_element_of_which_no_record_can_be_made(brokers, element, topic_of, error, message):
    """It fails the job, by name."""
    serializer = attrs.evolve(values_to("t"), topic=topic_of)
    elements = local().from_collection([element])
    elements.sink_to(writing(brokers, serializer).build())

    with pytest.raises(error, match=message):
        elements.get_execution_environment().execute()


def test_ids_of_records_are_of_a_stream_of_spark(brokers, topic):
    """Elsewhere no micro-batch is written again."""
    elements = local().from_collection(["a"], Types.STRING())
    sink = writing(brokers, values_to(topic)).set_property("pyflinklike.recordIds", "true")
    elements.sink_to(sink.build())

    with pytest.raises(SparkSetupError, match="recordIds is for streams"):
        elements.get_execution_environment().execute()


# Declarations


def test_what_a_source_needs():
    """It says what is missing when it is built."""
    with pytest.raises(DeclarationValueError, match="got no topics"):
        KafkaSource.builder().build()
    with pytest.raises(DeclarationValueError, match="got no deserializer"):
        KafkaSource.builder().set_topics("t").build()
    full = KafkaSource.builder().set_topics("t").set_value_only_deserializer(SimpleStringSchema())
    with pytest.raises(DeclarationValueError, match=r"kafka\.bootstrap\.servers"):
        full.build()
    with pytest.raises(DeclarationValueError, match="got topics 'u' after topics t"):
        full.set_topic_pattern("u")


def test_properties_of_flinks_connector_do_not_matter(brokers):
    """Flink sets them itself; what only Java's client knows is refused with another name."""
    builder = reading(brokers, "t").set_properties(
        {"partition.discovery.interval.ms": "1000", "auto.offset.reset": "latest"}
    )

    assert {"subscribe", "kafka.bootstrap.servers", "kafka.group.id"} == set(
        builder.build().options
    )
    with pytest.raises(DeclarationValueError, match=r"use kafka\.sasl\.username"):
        builder.set_property("sasl.jaas.config", "x").build()
    with pytest.raises(DeclarationValueError, match=r"pyflinklike\.failOnDataLoss"):
        reading(brokers, "t").set_property("pyflinklike.failOnLoss", "x").build()


def test_secrets_are_not_shown(brokers):
    """Neither of a source nor of a sink."""
    secret = {"sasl.password": "hidden"}
    source = reading(brokers, "t").set_properties(secret).build()
    sink = writing(brokers, values_to("t")).set_property("sasl.password", "hidden").build()

    assert "hidden" not in f"{source!r}{sink!r}"


def test_what_is_refused_by_name(brokers):
    """With what to use instead."""
    with pytest.raises(SparkSetupError, match="call set_bounded"):
        reading(brokers, "t").set_unbounded(KafkaOffsetsInitializer.latest())


GUARANTEE = "pyflinklike__kafka__delivery_guarantee"


def once(brokers, topic, **settings):
    """A job whose sink asks for exactly once."""
    env = local(**settings)
    sink = writing(brokers, values_to(topic))
    sink.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
    env.from_collection(["a"], Types.STRING()).sink_to(sink.build())
    return env


def test_a_sink_that_asks_for_exactly_once_is_refused_when_its_job_starts(brokers, topic):
    """With the one setting that lets all such sinks of a script write, and what each of them gives then."""
    with pytest.raises(
        SparkSetupError,
        match=r"drop_repeats gives a reader each record once; or give AT_LEAST_ONCE",
    ):
        once(brokers, topic).execute()
    with pytest.raises(DeclarationValueError, match="is 'at-least-once', got 'exactly-once'"):
        once(brokers, topic, **{GUARANTEE: "exactly-once"}).execute()


@pytest.mark.parametrize("text", ["at-least-once", "AT_LEAST_ONCE"])
def test_a_setting_lets_such_sinks_write_at_least_once(brokers, topic, text):
    """In this process there are no micro-batches to be run again, and records have no ids."""
    once(brokers, topic, **{GUARANTEE: text}).execute()

    (record,) = brokers.read(topic)
    assert (b"a", []) == (record["value"], list(record["headers"] or []))


def test_arguments_of_a_wrong_kind(brokers):
    """Each is told when it is given."""
    with pytest.raises(DeclarationTypeError, match="that is the class: give an instance"):
        KafkaSource.builder().set_value_only_deserializer(SimpleStringSchema)
    with pytest.raises(DeclarationTypeError, match="got 'earliest'"):
        KafkaSource.builder().set_starting_offsets("earliest")
    with pytest.raises(DeclarationTypeError, match="by KafkaTopicPartition, got 1 for"):
        KafkaOffsetsInitializer.offsets({("t", 0): 1})
    with pytest.raises(DeclarationTypeError, match="name and a value of text, got 'x' and 1"):
        KafkaSink.builder().set_property("x", 1)


def test_a_source_without_an_end_is_not_for_this_process(brokers):
    """It is a stream of Spark."""
    with pytest.raises(SparkSetupError, match="or call set_bounded"):
        stream(endless(brokers, "t").build()).execute_and_collect()


def test_the_beginning_of_a_stream_is_found_once(brokers, topic):
    """Offsets by partition, which a restart uses again; what is written meanwhile is not left out."""
    numbers(brokers, topic, range(3))
    latest = KafkaOffsetsInitializer.latest()
    source = endless(brokers, topic).set_starting_offsets(latest).build()

    before = source.beginning()
    numbers(brokers, topic, range(3, 40))

    assert before != source.beginning()
    assert 3 == sum(json.loads(before)[topic].values())


def test_a_stream_goes_on_at_the_offsets_of_a_savepoint(brokers, topic):
    """Partitions that the savepoint does not have are new, and begin at their first record."""
    numbers(brokers, topic, range(3))
    source = endless(brokers, topic).build()
    count = len(json.loads(source.beginning())[topic])

    found = source.find_beginning_at(json.dumps(Offsets({(topic, 0): 2}).to_json()))

    assert {topic: {"0": 2, **{str(each): -2 for each in range(1, count)}}} == json.loads(found)
    with pytest.raises(CorruptStateError, match=r"must hold offsets of pyflinklike\.kafka"):
        source.find_beginning_at('{"logOffset": 3}')
