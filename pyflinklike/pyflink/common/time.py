# SPDX-License-Identifier: Apache-2.0
"""Lengths and points of time, at PyFlink's path."""

from pyflinklike._clock import Duration, Time
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.types import Instant

__all__ = ["Duration", "Instant", "Time"]

__getattr__ = of_pyflink(__name__)
