# SPDX-License-Identifier: Apache-2.0
"""Savepoints as directories of Parquet files, which any tool reads without Spark or Java."""

from pyflinklike.doors import pin
from pyflinklike.savepoints.directory import SavepointDirectory, open_savepoint

__all__ = ["SavepointDirectory", "open_savepoint"]

pin(globals())
