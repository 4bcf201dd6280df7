# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.common.jobs import JobClient
from pyflinklike.common.pyflink_names import of_pyflink

__all__ = ["JobClient"]

__getattr__ = of_pyflink(__name__)
