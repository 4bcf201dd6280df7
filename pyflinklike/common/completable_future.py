# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.common.jobs import CompletableFuture
from pyflinklike.common.pyflink_names import of_pyflink

__all__ = ["CompletableFuture"]

__getattr__ = of_pyflink(__name__)
