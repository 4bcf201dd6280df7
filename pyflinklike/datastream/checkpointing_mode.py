# SPDX-License-Identifier: Apache-2.0
"""Under the path that PyFlink has for it."""

from pyflinklike.datastream.checkpoint_config import CheckpointingMode

__all__ = ["CheckpointingMode"]
