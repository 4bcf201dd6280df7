# SPDX-License-Identifier: Apache-2.0
"""Watermarks, at PyFlink's path."""

from pyflinklike.pyflink._graph.watermarks import TimestampAssigner, WatermarkStrategy
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["TimestampAssigner", "WatermarkStrategy"]

__getattr__ = of_pyflink(__name__)
