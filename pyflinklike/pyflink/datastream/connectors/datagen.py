# SPDX-License-Identifier: Apache-2.0
"""Generated elements, for trials; Flink has this source in Java, and PyFlink only in its Table API."""

from pyflinklike.pyflink._graph.sources import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
