# SPDX-License-Identifier: Apache-2.0
"""Sources one after the other, at PyFlink's path."""

from pyflinklike.pyflink._graph.sources import HybridSource, HybridSourceBuilder
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["HybridSource", "HybridSourceBuilder"]

__getattr__ = of_pyflink(__name__)
