# SPDX-License-Identifier: Apache-2.0
"""Metrics, at PyFlink's path."""

from pyflinklike.functions.metric_group import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
