# SPDX-License-Identifier: Apache-2.0
"""Files of a program that travel to the workers, which import from them."""

from __future__ import annotations

import atexit
import io
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from pyflinklike.errors import DeclarationValueError
from pyflinklike.state_processor._folders.folder_paths import local_path

if TYPE_CHECKING:
    pass  # which the client of Spark Connect comes without


__all__ = ["ship_files"]


def ship_files(spark: SparkSession, paths: Iterable[str]) -> None:
    """Let workers import from files and folders of the program.

    Args:
        spark: The session; it must be a classic one.
        paths: Modules, archives and folders of modules.  A folder is shipped as an archive, because
            Spark puts no folder on a path.

    Raises:
        DeclarationValueError: There is no file at a path, or a folder for a cluster has compiled
            modules, which cannot be imported from an archive.
    """
    for path in paths:
        local = Path(local_path(path))
        if local.is_dir():
            compiled = next((each for each in local.rglob("*") if each.suffix in _COMPILED), None)
            if compiled is not None and not str(spark.sparkContext.master).startswith("local"):
                msg = (
                    "the nodes of a cluster import only modules in Python from an archive, got the "
                    f"compiled {compiled.relative_to(local).as_posix()!r} in {str(local)!r}; "
                    "install its package on the nodes, or ship an environment with spark.archives"
                )
                raise DeclarationValueError(msg)
            spark.sparkContext.addPyFile(_archive_of(local))
        elif local.exists() or "://" in path:
            spark.sparkContext.addPyFile(path)
        else:
            msg = (
                f"add_python_file takes a file or folder that exists, got {path!r}; a relative path "
                f"begins at {str(Path.cwd())!r}"
            )
            raise DeclarationValueError(msg)


_COMPILED = frozenset({".so", ".pyd"})


def _archive_of(folder: Path) -> str:
    """Zip a folder's modules; a checksum in the name lets Spark take a changed folder again."""
    files = [each for each in sorted(folder.rglob("*")) if each.is_file()]
    kept = [each for each in files if "__pycache__" not in each.parts]
    contents = io.BytesIO()
    with zipfile.ZipFile(contents, "w") as archive:
        for each in kept:
            member = zipfile.ZipInfo(each.relative_to(folder).as_posix())
            archive.writestr(member, each.read_bytes())
    place = Path(tempfile.mkdtemp(prefix="pyflinklike-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    path = place / f"{folder.resolve().name}-{zlib.crc32(contents.getvalue()):08x}.zip"
    path.write_bytes(contents.getvalue())
    return str(path)
