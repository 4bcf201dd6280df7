# SPDX-License-Identifier: Apache-2.0
"""`ExternalizedCheckpointRetention`, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.checkpoint_config import ExternalizedCheckpointRetention

__all__ = ["ExternalizedCheckpointRetention"]

__getattr__ = of_pyflink(__name__)
