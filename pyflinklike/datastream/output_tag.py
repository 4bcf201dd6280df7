# SPDX-License-Identifier: Apache-2.0
"""Side outputs, under the path that PyFlink has for them."""

from pyflinklike.common.pyflink_names import of_pyflink
from pyflinklike.engine.api.output_tag import OutputTag

__all__ = ["OutputTag"]

__getattr__ = of_pyflink(__name__)
