# SPDX-License-Identifier: Apache-2.0
"""Side outputs, at PyFlink's path."""

from pyflinklike.functions.output_tag import OutputTag
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["OutputTag"]

__getattr__ = of_pyflink(__name__)
