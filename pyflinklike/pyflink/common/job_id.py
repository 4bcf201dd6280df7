# SPDX-License-Identifier: Apache-2.0
"""`JobID`, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.jobs import JobID

__all__ = ["JobID"]

__getattr__ = of_pyflink(__name__)
