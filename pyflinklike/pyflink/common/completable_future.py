# SPDX-License-Identifier: Apache-2.0
"""`CompletableFuture`, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.jobs import CompletableFuture

__all__ = ["CompletableFuture"]

__getattr__ = of_pyflink(__name__)
