# SPDX-License-Identifier: Apache-2.0
"""Kafka, at PyFlink's path; needs the extra `kafka` and no jar."""

from pyflinklike._exports import export_public
from pyflinklike.kafka.kafka_sink import *
from pyflinklike.kafka.kafka_source import *
from pyflinklike.pyflink._former_clients import *
from pyflinklike.pyflink._graph.sinks import DeliveryGuarantee
from pyflinklike.pyflink._names import of_pyflink

__all__ = [
    "DeliveryGuarantee",
    "FlinkKafkaConsumer",
    "FlinkKafkaConsumerBase",
    "FlinkKafkaProducer",
    "FlinkKafkaProducerBase",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]

__getattr__ = of_pyflink(__name__)

export_public(globals())
