# SPDX-License-Identifier: Apache-2.0
"""`JobClient`, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.jobs import JobClient

__all__ = ["JobClient"]

__getattr__ = of_pyflink(__name__)
