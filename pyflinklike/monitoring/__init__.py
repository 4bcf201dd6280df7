# SPDX-License-Identifier: Apache-2.0
"""Metrics of queries for Prometheus and OpenTelemetry, by listeners of Spark."""

from pyflinklike._exports import export_public
from pyflinklike.spark._plan.requirements import pyspark_checked

with pyspark_checked():
    from pyflinklike.monitoring.exporters import OpenTelemetryListener, PrometheusListener

__all__ = ["OpenTelemetryListener", "PrometheusListener"]

export_public(globals())
