# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.engine.clock import TimeDomain

__all__ = ["TimeDomain"]
