# SPDX-License-Identifier: Apache-2.0
"""Generated elements, for trials; Flink has them in Java, and PyFlink in its Table API only."""

from pyflinklike.pyflink._graph.generated_source import DataGeneratorSource, RateLimiterStrategy

__all__ = ["DataGeneratorSource", "RateLimiterStrategy"]
