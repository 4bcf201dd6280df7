# SPDX-License-Identifier: Apache-2.0
"""Watermarks, under the path that PyFlink has for them."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.graph.watermarks import TimestampAssigner, WatermarkStrategy

__all__ = ["TimestampAssigner", "WatermarkStrategy"]

__getattr__ = of_pyflink(__name__)
