# SPDX-License-Identifier: Apache-2.0
"""`FlinkKafkaConsumer` and `FlinkKafkaProducer`, the clients of Flink 1, as sources and sinks of Flink 2.

Each collects the settings of its program.  `add_source` or `add_sink` then makes a `KafkaSource` or a
`KafkaSink` of them, so setters may be called until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

import attrs

from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError, DeclarationValueError
from pyflinklike.kafka.kafka_sink import (
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSinkBuilder,
)
from pyflinklike.kafka.kafka_source import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
)
from pyflinklike.pyflink._foreign_names import deprecated_alias, without_effect
from pyflinklike.pyflink._graph.serialization import (
    DeserializationSchema,
    SerializationSchema,
    check_schema,
)
from pyflinklike.pyflink._graph.sinks import DeliveryGuarantee, SinkMaker
from pyflinklike.pyflink._graph.sources import SourceMaker
from pyflinklike.types import TypeInformation

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "Semantic",
]

C = TypeVar("C", bound="FlinkKafkaConsumerBase")
P = TypeVar("P", bound="FlinkKafkaProducerBase")

_RESETS = {
    "earliest": KafkaOffsetResetStrategy.EARLIEST,
    "latest": KafkaOffsetResetStrategy.LATEST,
    "none": KafkaOffsetResetStrategy.NONE,
}


class FlinkKafkaConsumerBase(SourceMaker):
    """The base of `FlinkKafkaConsumer`; without a call of `set_start_from_...` it starts at its group's offsets.

    Args:
        builder: The builder of the source, with the settings made so far.
        reset: The start of a partition if the group has no offset for it.
        schema: Makes an element of each record's value.
    """

    def __init__(
        self,
        builder: KafkaSourceBuilder,
        reset: KafkaOffsetResetStrategy,
        schema: DeserializationSchema,
    ) -> None:
        self._builder, self._reset, self._schema = builder, reset, schema
        self.set_start_from_group_offsets()

    def source(self) -> KafkaSource:
        """Make the source, with the settings made so far."""
        return self._builder.build()

    def set_start_from_earliest(self: C) -> C:
        """Start at the first offset that each partition still has."""
        return self._start(KafkaOffsetsInitializer.earliest())

    def set_start_from_latest(self: C) -> C:
        """Start at the end of each partition."""
        return self._start(KafkaOffsetsInitializer.latest())

    def set_start_from_timestamp(self: C, startup_offsets_timestamp: int) -> C:
        """Start at each partition's first record at this time or later; at the end if there is no such record.

        Args:
            startup_offsets_timestamp: The time in ms since the epoch.
        """
        return self._start(KafkaOffsetsInitializer.timestamp(startup_offsets_timestamp))

    def set_start_from_group_offsets(self: C) -> C:
        """Start at the offsets that the group has committed; without one, as `auto.offset.reset` says."""
        return self._start(KafkaOffsetsInitializer.committed_offsets(self._reset))

    @without_effect("no offsets are committed: they are in the job's checkpoint")
    def set_commit_offsets_on_checkpoints(self: C, commit_on_checkpoints: bool) -> C:  # noqa: ARG002
        """Accept the setting; a job never commits offsets to Kafka.

        Args:
            commit_on_checkpoints: True or False; it is ignored.
        """
        return self

    @without_effect("a job goes on with the partitions of its topics")
    def disable_filter_restored_partitions_with_subscribed_topics(self: C) -> C:
        """Accept the setting; a job reads no partitions of topics that it does not name."""
        return self

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the elements that the schema makes."""
        return self._schema.get_produced_type()

    def _start(self: C, offsets: KafkaOffsetsInitializer) -> C:
        self._builder.set_starting_offsets(offsets)
        return self


class FlinkKafkaConsumer(FlinkKafkaConsumerBase):
    """A consumer of topics, as in PyFlink, which deprecates it.

    Args:
        topics: The name of a topic, or a list of names.
        deserialization_schema: Makes an element of each record's value.
        properties: Settings of the client by name, as `KafkaSourceBuilder.set_property` takes them.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
        DeclarationValueError: A property is wrong.
    """

    @deprecated_alias("KafkaSource.builder() and env.from_source")
    def __init__(
        self,
        topics: str | list[str],
        deserialization_schema: DeserializationSchema,
        properties: Mapping[str, str],
    ) -> None:
        builder = KafkaSource.builder().set_properties(_check(properties))
        builder.set_topics(*([topics] if isinstance(topics, str) else topics))
        builder.set_value_only_deserializer(deserialization_schema)
        given = properties.get("auto.offset.reset", "latest")
        if given not in _RESETS:
            msg = f"auto.offset.reset is one of {', '.join(_RESETS)}, got {short_repr(given)}; set it to one"
            raise DeclarationValueError(msg)
        super().__init__(builder, _RESETS[given], deserialization_schema)


class Semantic(Enum):
    """The guarantee that a program asks of a `FlinkKafkaProducer`, which writes at least once."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1
    NONE = 2


class FlinkKafkaProducerBase(SinkMaker):
    """The base of `FlinkKafkaProducer`.

    Args:
        builder: The builder of the sink, with the settings made so far.
        serializer: Makes a record of each element.
    """

    def __init__(
        self, builder: KafkaSinkBuilder, serializer: KafkaRecordSerializationSchema
    ) -> None:
        self._builder, self._serializer = builder, serializer

    def sink(self) -> KafkaSink:
        """Make the sink, with the settings made so far."""
        return self._builder.set_record_serializer(self._serializer).build()

    def set_write_timestamp_to_kafka(self: P, write_timestamp_to_kafka: bool) -> P:
        """Set whether a record has the event time of its element; by default it has the time of writing.

        Args:
            write_timestamp_to_kafka: True writes event times, False leaves the time to the client.
        """
        self._serializer = attrs.evolve(self._serializer, is_timed=bool(write_timestamp_to_kafka))
        return self

    @without_effect("a record that is not acknowledged fails the job")
    def set_log_failures_only(self: P, log_failures_only: bool) -> P:  # noqa: ARG002
        """Accept the setting; here a failed write always fails the job.

        Args:
            log_failures_only: True or False; it is ignored.
        """
        return self

    def set_flush_on_checkpoint(self: P, flush_on_checkpoint: bool) -> P:  # noqa: ARG002
        """Accept the setting; here a checkpoint always waits for the brokers.

        Args:
            flush_on_checkpoint: True or False; it is ignored.
        """
        return self


class FlinkKafkaProducer(FlinkKafkaProducerBase):
    """A producer to one topic, as in PyFlink.

    Args:
        topic: The name of the topic.
        serialization_schema: Makes the value of a record; records have no keys.
        producer_config: Settings of the client by name, as `KafkaSinkBuilder.set_property` takes them.
        kafka_producer_pool_size: A number of producers; it is ignored.
        semantic: With `EXACTLY_ONCE` a job runs only if the setting
            `pyflinklike.kafka.delivery-guarantee` is `at-least-once`.

    Raises:
        DeclarationTypeError: An argument is of the wrong kind.
    """

    @deprecated_alias("KafkaSink.builder() and stream.sink_to")
    def __init__(
        self,
        topic: str,
        serialization_schema: SerializationSchema,
        producer_config: Mapping[str, str],
        kafka_producer_pool_size: int = 5,  # noqa: ARG002
        semantic: Semantic = Semantic.AT_LEAST_ONCE,
    ) -> None:
        if not isinstance(semantic, Semantic):
            msg = f"FlinkKafkaProducer takes a Semantic, got {short_repr(semantic)}; give for example Semantic.AT_LEAST_ONCE"
            raise DeclarationTypeError(msg)
        check_schema(serialization_schema, SerializationSchema)
        records = KafkaRecordSerializationSchema.builder().set_topic(topic)
        records.set_value_serialization_schema(serialization_schema)
        builder = KafkaSink.builder().set_delivery_guarantee(DeliveryGuarantee[semantic.name])
        for name, value in _check(producer_config).items():
            builder.set_property(name, value)
        # A producer of Flink 1 leaves the time of a record to the client; a `KafkaSink` writes event times.
        super().__init__(builder, attrs.evolve(records.build(), is_timed=False))

    @without_effect("there are no transactions")
    def ignore_failures_after_transaction_timeout(self) -> FlinkKafkaProducer:
        """Accept the setting; the producer writes without transactions."""
        return self


def _check(properties: Mapping[str, str]) -> Mapping[str, str]:
    if not isinstance(properties, Mapping):
        msg = f"properties are a dict, got {short_repr(properties)}; give for example {{'bootstrap.servers': 'localhost:9092'}}"
        raise DeclarationTypeError(msg)
    return properties
