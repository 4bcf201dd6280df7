# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.functions.contexts import TimerService
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["TimerService"]

__getattr__ = of_pyflink(__name__)
