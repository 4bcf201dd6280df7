# SPDX-License-Identifier: Apache-2.0
"""Metrics, under the path that PyFlink has for them."""

from pyflinklike.api.metrics import Counter, Distribution, Meter, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "MetricGroup"]
