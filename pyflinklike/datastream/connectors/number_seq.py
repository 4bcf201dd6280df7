# SPDX-License-Identifier: Apache-2.0
"""Numbers, under the path that PyFlink has for them."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.graph.sources import NumberSequenceSource

__all__ = ["NumberSequenceSource"]

__getattr__ = of_pyflink(__name__)
