# SPDX-License-Identifier: Apache-2.0
"""Kafka, under the path that PyFlink has for it; needs the extra `kafka` and no jar."""

from pyflinklike.common.missing_names import refuse_names
from pyflinklike.engine.doors import pin
from pyflinklike.engine.graph.sinks import DeliveryGuarantee
from pyflinklike.kafka.kafka_sink import (
    KafkaRecordSerializationSchema,
    KafkaRecordSerializationSchemaBuilder,
    KafkaSink,
    KafkaSinkBuilder,
    KafkaTopicSelector,
)
from pyflinklike.kafka.kafka_source import (
    KafkaOffsetResetStrategy,
    KafkaOffsetsInitializer,
    KafkaSource,
    KafkaSourceBuilder,
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

__getattr__ = refuse_names(
    __name__,
    {
        "FlinkKafkaConsumer": "PyFlink itself calls it deprecated: use KafkaSource and from_source",
        "FlinkKafkaProducer": "PyFlink itself calls it deprecated: use KafkaSink and sink_to",
        "Semantic": "it is of FlinkKafkaProducer: use KafkaSink with DeliveryGuarantee",
    },
)

pin(globals())
