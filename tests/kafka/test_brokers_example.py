# SPDX-License-Identifier: Apache-2.0
"""The data source on Spark: the example, from topic to topic, in two runs."""

from __future__ import annotations

from example_support import example
from kafka_support import empty_mock_brokers

from pyflinklike.kafka import register

MINUTE = 60_000


def test_the_example_goes_on_where_it_stopped(spark, tmp_path):
    """Sessions end by the clicks of others; the second run finds those that were open."""
    kafka_sessions = example("kafka_sessions")
    register(spark)
    with empty_mock_brokers() as brokers:
        servers = brokers.servers
        producer = kafka_sessions.brokers_of(["", servers])

        kafka_sessions.write(producer, [("ann", 0), ("ann", 5 * MINUTE), ("bob", 200 * MINUTE)])
        kafka_sessions.run(spark, servers, tmp_path)
        first = kafka_sessions.found(spark, servers)
        kafka_sessions.write(producer, [("bob", 201 * MINUTE), ("eve", 400 * MINUTE)])
        kafka_sessions.run(spark, servers, tmp_path)

        ann, bob = ("ann", "1970-01-01T00:00:00.000Z", 2), ("bob", "1970-01-01T03:20:00.000Z", 2)
        assert (first, kafka_sessions.found(spark, servers)) == ([ann], [ann, bob])
