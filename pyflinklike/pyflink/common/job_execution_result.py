# SPDX-License-Identifier: Apache-2.0
"""`JobExecutionResult`, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.jobs import JobExecutionResult

__all__ = ["JobExecutionResult"]

__getattr__ = of_pyflink(__name__)
