# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.common.jobs import JobExecutionResult

__all__ = ["JobExecutionResult"]
