# SPDX-License-Identifier: Apache-2.0
"""Installs the packages of a requirements file for the functions of a job.

If this Python has all packages of the file, nothing is installed: the workers must have them, as they must
have pyflinklike.  Otherwise pip installs the missing packages into a folder of this process.  Spark sends the
folder to the workers, like the modules of a program.
"""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.state_processor._folders.folder_paths import local_path

__all__ = ["install_requirements"]


def install_requirements(path: str, cache_dir: str | None) -> str | None:
    """Install the packages of a requirements file.

    Args:
        path: The path of the file, in pip's format.
        cache_dir: The path of a folder with all packages; None for the index of pip.

    Returns:
        The path of the folder with the packages; None if this Python has all of them.

    Raises:
        DeclarationValueError: The file or folder does not exist.
        SparkSetupError: pip cannot install them.
    """
    file = _find(path, "file", Path.is_file)
    cache = None if cache_dir is None else _find(cache_dir, "folder", Path.is_dir)
    of_cache = [] if cache is None else ["--no-index", "--find-links", str(cache)]
    # pip's report of a dry run lists exactly the packages that are missing.
    report = _pip(path, "--dry-run", "--report", "-", *of_cache, "--requirement", str(file))
    missing = [_pin(each) for each in json.loads(report)["install"]]
    if not missing:
        return None
    folder = tempfile.mkdtemp(prefix="pyflinklike-requirements-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    # With `--target` pip would install all packages, so it gets only the missing ones, by exact version.
    _pip(path, "--target", folder, "--no-compile", "--no-deps", *of_cache, *missing)
    return folder


def _pin(found: dict[str, Any]) -> str:
    """Return the requirement for exactly the package that pip's report names."""
    about = found["metadata"]
    if found["is_direct"]:
        return f"{about['name']} @ {found['download_info']['url']}"
    return f"{about['name']}=={about['version']}"


def _find(path: str, kind: str, is_there: Callable[[Path], bool]) -> Path:
    found = Path(local_path(path)).absolute()
    if not is_there(found):
        msg = f"set_python_requirements found no {kind} at {str(found)!r}, got {path!r}"
        raise DeclarationValueError(f"{msg}; give the path of a {kind}")
    return found


def _pip(path: str, *arguments: str) -> str:
    """Run `pip install` for the requirements file at a path, and return what it writes.

    Raises:
        SparkSetupError: It fails.
    """
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    command = [sys.executable, "-m", "pip", "install", *quiet, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # this Python
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        said = "; ".join(errors) or done.stderr.strip()[-300:]
        msg = (
            f"set_python_requirements installs packages by pip, got {path!r}, and pip failed: {said}; "
            "install them for this Python, or give a requirements_cache_dir that has all of them"
        )
        raise SparkSetupError(msg)
    return done.stdout
