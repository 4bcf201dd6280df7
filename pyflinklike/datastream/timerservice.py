# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.api.context import TimerService

__all__ = ["TimerService"]
