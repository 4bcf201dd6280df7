# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.jobs import JobClient

__all__ = ["JobClient"]

__getattr__ = of_pyflink(__name__)
