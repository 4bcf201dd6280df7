# SPDX-License-Identifier: Apache-2.0
"""`JobStatus`, at PyFlink's path."""

from pyflinklike.pyflink._graph.job_run import JobStatus
from pyflinklike.pyflink._names import of_pyflink

__all__ = ["JobStatus"]

__getattr__ = of_pyflink(__name__)
