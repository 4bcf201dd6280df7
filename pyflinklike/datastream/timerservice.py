# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.engine.api.contexts import TimerService

__all__ = ["TimerService"]
