# SPDX-License-Identifier: Apache-2.0
"""Metrics of queries for Prometheus and OpenTelemetry, by listeners of Spark."""

from pyflinklike.engine.doors import pin
from pyflinklike.spark.plan.requirements import pyspark_checked

with pyspark_checked():
    from pyflinklike.observe.open_telemetry import OpenTelemetryListener
    from pyflinklike.observe.prometheus import PrometheusListener

__all__ = ["OpenTelemetryListener", "PrometheusListener"]

pin(globals())
