# SPDX-License-Identifier: Apache-2.0
"""Base classes of sources and sinks, at PyFlink's path."""

from pyflinklike.pyflink._graph.sinks import DeliveryGuarantee, Sink
from pyflinklike.pyflink._graph.sources import Source
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["DeliveryGuarantee", "Sink", "Source"]

__getattr__ = of_pyflink(__name__)
