# SPDX-License-Identifier: Apache-2.0
"""Side outputs, under the path that PyFlink has for them."""

from pyflinklike.engine.api.output_tag import OutputTag

__all__ = ["OutputTag"]
