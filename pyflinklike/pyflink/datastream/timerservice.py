# SPDX-License-Identifier: Apache-2.0
"""`TimerService`, at PyFlink's path."""

from pyflinklike.functions.contexts import TimerService
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["TimerService"]

__getattr__ = of_pyflink(__name__)
