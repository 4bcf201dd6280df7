# SPDX-License-Identifier: Apache-2.0
"""`TimeDomain`, at PyFlink's path."""

from pyflinklike._clock import TimeDomain
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["TimeDomain"]

__getattr__ = of_pyflink(__name__)
