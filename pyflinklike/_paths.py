# SPDX-License-Identifier: Apache-2.0
"""The path of a file on this machine, of a path or a `file:` address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyflinklike.errors import SparkSetupError

__all__ = ["local_path"]


def local_path(path: str) -> Path:
    """Return the path of a file on this machine.

    Raises:
        SparkSetupError: The address names another machine or a remote file system.
    """
    if "://" not in path and not path.startswith("file:"):
        return Path(path)
    parts = urlsplit(path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        msg = (
            f"the files of a job must be on a file system that this machine has mounted, got {path!r}; "
            "mount it, or read and write such addresses with Spark's DataFrames"
        )
        raise SparkSetupError(msg)
    return Path(unquote(parts.path))
