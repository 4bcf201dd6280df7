# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.graph.running import JobStatus

__all__ = ["JobStatus"]
