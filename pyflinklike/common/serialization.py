# SPDX-License-Identifier: Apache-2.0
"""What makes bytes of elements, under the path that PyFlink has for it."""

from pyflinklike.graph.file_sink import Encoder

__all__ = ["Encoder"]
