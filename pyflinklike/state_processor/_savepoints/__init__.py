# SPDX-License-Identifier: Apache-2.0
"""Savepoints as directories of Parquet files, which any tool reads without Spark or Java."""

from pyflinklike._exports import pin
from pyflinklike.state_processor._savepoints.savepoint_directory import (
    SavepointDirectory,
    is_savepoint,
    open_savepoint,
)

__all__ = ["SavepointDirectory", "is_savepoint", "open_savepoint"]

pin(globals())
