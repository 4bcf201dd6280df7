# SPDX-License-Identifier: Apache-2.0
"""`CheckpointingMode`, at PyFlink's path."""

from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.datastream.checkpoint_config import CheckpointingMode

__all__ = ["CheckpointingMode"]

__getattr__ = of_pyflink(__name__)
