# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.common.jobs import JobID
from pyflinklike.common.pyflink_names import of_pyflink

__all__ = ["JobID"]

__getattr__ = of_pyflink(__name__)
