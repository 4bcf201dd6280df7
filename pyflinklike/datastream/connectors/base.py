# SPDX-License-Identifier: Apache-2.0
"""What sources and sinks have in common, under the path that PyFlink has for it."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.graph.sinks import DeliveryGuarantee, Sink
from pyflinklike.engine.graph.sources import Source

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

__getattr__ = of_pyflink(__name__)
