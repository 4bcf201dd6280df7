# SPDX-License-Identifier: Apache-2.0
"""`RuntimeExecutionMode`, at PyFlink's path."""

from pyflinklike.pyflink._graph.job import RuntimeExecutionMode
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["RuntimeExecutionMode"]

__getattr__ = of_pyflink(__name__)
