# SPDX-License-Identifier: Apache-2.0
"""Kafka in jobs of the DataStream API: PyFlink's `KafkaSource` and `KafkaSink`."""
