# SPDX-License-Identifier: Apache-2.0
"""Numbers, under the path that PyFlink has for them."""

from pyflinklike.engine.graph.sources import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
