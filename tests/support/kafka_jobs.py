# SPDX-License-Identifier: Apache-2.0
"""Jobs on topics of librdkafka's mock cluster: their sources and sinks, and what is written for them."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer
from kafka_support import Brokers
from local_support import local

from pyflinklike.pyflink.common import SimpleStringSchema, WatermarkStrategy
from pyflinklike.pyflink.datastream.connectors.kafka import (
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

__all__ = ["endless", "numbers", "reading", "stream", "timed", "values_to", "writing"]


def reading(brokers: Brokers, *topics: str) -> Any:
    """A builder of a source that reads what is there."""
    return (
        KafkaSource.builder()
        .set_bootstrap_servers(brokers.servers)
        .set_topics(*topics)
        .set_group_id("jobs")
        .set_value_only_deserializer(SimpleStringSchema())
        .set_bounded(KafkaOffsetsInitializer.latest())
    )


def endless(brokers: Brokers, topic: str) -> Any:
    """A builder of a source without an end."""
    builder = KafkaSource.builder().set_bootstrap_servers(brokers.servers).set_topics(topic)
    return builder.set_value_only_deserializer(SimpleStringSchema())


def writing(brokers: Brokers, serializer: Any) -> Any:
    """A builder of a sink."""
    builder = KafkaSink.builder().set_bootstrap_servers(brokers.servers)
    return builder.set_record_serializer(serializer)


def values_to(topic: str) -> KafkaRecordSerializationSchema:
    """Texts as values."""
    builder = KafkaRecordSerializationSchema.builder().set_topic(topic)
    return builder.set_value_serialization_schema(SimpleStringSchema()).build()


def stream(source: KafkaSource, strategy: Any = None, **settings: str) -> Any:
    """The stream of a source on the local runner."""
    given = WatermarkStrategy.no_watermarks() if strategy is None else strategy
    return local(**settings).from_source(source, given, "topic")


def numbers(brokers: Brokers, topic: str, numbers: range) -> list[str]:
    """Numbers in a topic of four partitions."""
    brokers.write(topic, [(b"%d" % number, b"%d" % number) for number in numbers])
    return [str(number) for number in numbers]


def timed(brokers: Brokers, topic: str, times: list[int], partition: int = 0) -> None:
    """Records of a partition with these times as values, too."""
    producer = Producer({"bootstrap.servers": brokers.servers})
    for time in times:
        producer.produce(topic, str(time), partition=partition, timestamp=time)
    assert producer.flush(20) == 0
