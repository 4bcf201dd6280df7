# SPDX-License-Identifier: Apache-2.0
"""The directory below another one that only this user can enter.

Its files and sockets hold pickles, so another user who could write there could run code in our
processes.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from pyflinklike.errors import SparkSetupError


def private_directory(path: Path) -> Path:
    """Return the directory of this user below another directory, and create it if needed.

    Raises:
        OSError: It cannot be created.
        SparkSetupError: Other users can enter it.
    """
    user = os.getuid() if hasattr(os, "getuid") else os.getlogin()
    root = path / f"pyflinklike-{user}"
    path.mkdir(parents=True, exist_ok=True)
    if not root.is_symlink() and not root.exists():
        root.mkdir(mode=0o700, exist_ok=True)
    found = root.lstat()
    if hasattr(os, "getuid") and (
        not stat.S_ISDIR(found.st_mode) or found.st_uid != user or found.st_mode & 0o077
    ):
        msg = (
            f"{str(root)!r} must be a directory that only this user can read and write, got mode "
            f"{stat.filemode(found.st_mode)} and owner {found.st_uid}; remove it, or choose "
            "another place with set_db_storage_paths()"
        )
        raise SparkSetupError(msg)
    return root
