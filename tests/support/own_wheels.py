# SPDX-License-Identifier: Apache-2.0
"""Wheels of a test's own, written without a build."""

from __future__ import annotations

import zipfile
from pathlib import Path

__all__ = ["write_wheel"]


def write_wheel(folder: Path, name: str, code: str) -> Path:
    """A wheel of version 1.0 of a package that is one file.

    Args:
        folder: Where it is put.
        name: Of the package.
        code: Of the file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path, about = folder / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
    files = {
        f"{name}/__init__.py": code,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in files.items():
            wheel.writestr(member, text)
        record = "".join(f"{member},,\n" for member in (*files, f"{about}/RECORD"))
        wheel.writestr(f"{about}/RECORD", record)
    return path
