# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.graph.job import RuntimeExecutionMode

__all__ = ["RuntimeExecutionMode"]

__getattr__ = of_pyflink(__name__)
