# SPDX-License-Identifier: Apache-2.0
"""A driver of a job between two topics, to be killed: the running sums of `job_driver`, by records' times.

python kafka_job_driver.py '{"servers": ..., "folder": ..., "settings": {...}}'
"""

from __future__ import annotations

import json
import sys
from typing import Any

from job_driver import Sums, begin_session, parsed

from pyflinklike.pyflink.common import (
    Configuration,
    Duration,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from pyflinklike.pyflink.datastream import StreamExecutionEnvironment
from pyflinklike.pyflink.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)

__all__ = ["declared"]


def declared(described: dict[str, Any]) -> StreamExecutionEnvironment:
    """The job."""
    values = {
        "execution.target": "spark",
        "pipeline.name": "sums of topics",
        "execution.checkpointing.dir": f"{described['folder']}/checkpoints",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(values))
    source = (
        KafkaSource.builder()
        .set_bootstrap_servers(described["servers"])
        .set_topics("amounts")
        .set_group_id("sums")
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .set_value_only_deserializer(SimpleStringSchema())
        .set_property("pyflinklike.maxOffsetsPerTrigger", "200")
        .build()
    )
    serializer = (
        KafkaRecordSerializationSchema.builder()
        .set_topic("sums")
        .set_key_serialization_schema(SimpleStringSchema())
        .set_value_serialization_schema(SimpleStringSchema())
        .build()
    )
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(described["servers"])
        .set_record_serializer(serializer)
        .set_delivery_guarantee(DeliveryGuarantee.AT_LEAST_ONCE)
        .set_property("pyflinklike.recordIds", "true")
        # So that the end of the topic can be asked for: see `Brokers.write`.
        .set_property("batch.num.messages", "1")
        .build()
    )
    # A lot of the test spans 40 ms, and its partitions are written one after the other.
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(60))
    lines = env.from_source(source, strategy, "amounts")
    sums = lines.map(parsed).key_by(lambda value: value[0]).process(Sums(), Types.STRING())
    sums.sink_to(sink)
    return env


def main() -> None:
    """Run the job until it is killed."""
    described = json.loads(sys.argv[1])
    begin_session(described["settings"])
    declared(described).execute()


if __name__ == "__main__":
    main()
