# SPDX-License-Identifier: Apache-2.0
"""Numbers, at PyFlink's path."""

from pyflinklike.pyflink._graph.sources import NumberSequenceSource
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["NumberSequenceSource"]

__getattr__ = of_pyflink(__name__)
