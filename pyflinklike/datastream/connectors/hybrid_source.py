# SPDX-License-Identifier: Apache-2.0
"""Sources one after the other, under the path that PyFlink has for them."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.graph.hybrid_source import HybridSource, HybridSourceBuilder

__all__ = ["HybridSource", "HybridSourceBuilder"]

__getattr__ = of_pyflink(__name__)
