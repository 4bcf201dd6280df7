# SPDX-License-Identifier: Apache-2.0
"""Kafka, under the path that PyFlink has for it; needs the extra `kafka` and no jar."""

from pyflinklike.common.missing import refusing
from pyflinklike.doors import pin
from pyflinklike.graph.sinks import DeliveryGuarantee
from pyflinklike.kafka.jobs.serializer import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaTopicSelector,
)
from pyflinklike.kafka.jobs.sink import KafkaSink, KafkaSinkBuilder
from pyflinklike.kafka.jobs.source import KafkaSource, KafkaSourceBuilder
from pyflinklike.kafka.jobs.starting import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaTopicPartition,
)

__all__ = [
    "DeliveryGuarantee",
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
]

__getattr__ = refusing(
    __name__,
    {
        "FlinkKafkaConsumer": "PyFlink itself calls it deprecated: use KafkaSource and from_source",
        "FlinkKafkaProducer": "PyFlink itself calls it deprecated: use KafkaSink and sink_to",
        "Semantic": "it is of FlinkKafkaProducer: use KafkaSink with DeliveryGuarantee",
    },
)

pin(globals())
