# SPDX-License-Identifier: Apache-2.0
"""The directory of a savepoint on a file system that Hadoop knows and Arrow does not.

Spark's executors write and read the Parquet files of a savepoint by themselves.  The driver reads and
writes the manifest, and computes checksums and numbers of rows, through a filesystem of Arrow.  Here
the driver's JVM does the work behind that filesystem.  A file is copied to a local disk before it is
read, since bytes come slowly through py4j.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote

from pyflinklike.errors import DeclarationValueError, SparkSetupError
from pyflinklike.state_processor._folders.hadoop_files import HadoopFiles, is_remote_address
from pyflinklike.state_processor._savepoints.savepoint_location import (
    SavepointLocation,
    savepoint_location_of,
)

__all__ = ["savepoint_location_in"]


def savepoint_location_in(spark: SparkSession, path: str | os.PathLike[str]) -> SavepointLocation:
    """Return the directory of a savepoint as `savepoint_location_of` does, or as Hadoop knows it.

    Args:
        spark: A session; through Spark Connect only Arrow's own filesystems can be reached.
        path: The path or address of the directory.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is neither a path nor an address, or neither
            Arrow nor Hadoop knows its file system.
    """
    try:
        return savepoint_location_of(path)
    except DeclarationValueError:
        address = os.fspath(path)
        if is_remote() or not is_remote_address(address):
            raise
        try:
            files = HadoopFiles(spark, address)
        except SparkSetupError as error:
            raise DeclarationValueError(str(error)) from error
    filesystem = fs.PyFileSystem(_HadoopHandler(files))
    return SavepointLocation(address, filesystem, files.plain(files.address), files.address)


class _HadoopHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """The methods that Arrow calls on a filesystem; savepoints do not need the others."""

    def __init__(self, files: HadoopFiles) -> None:
        self._files = files

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _HadoopHandler) and other._files is self._files

    def __hash__(self) -> int:
        return hash(id(self._files))

    def get_type_name(self) -> str:
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        return [self._info(path, self._files.status(path)) for path in paths]

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        return [
            self._info(f"{selector.base_dir}/{each.name}", each)
            for each in self._files.entries(selector.base_dir)
        ]

    @staticmethod
    def _info(path: str, found: Any) -> Any:
        if found is None:
            return fs.FileInfo(path, fs.FileType.NotFound)
        if found.is_folder:
            return fs.FileInfo(path, fs.FileType.Directory)
        return fs.FileInfo(path, fs.FileType.File, size=found.size)

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: ARG002 - Arrow's
        self._files.make_folder(path)

    def delete_dir(self, path: str) -> None:
        self._files.delete(path)

    def delete_file(self, path: str) -> None:
        self._files.delete(path)

    def move(self, src: str, dest: str) -> None:
        self._files.rename(src, dest)

    def open_input_file(self, path: str) -> Any:
        descriptor, local = tempfile.mkstemp(prefix="pyflinklike-")
        os.close(descriptor)
        try:
            self._files.copy_here(path, local)
            return pa.OSFile(local)
        finally:
            os.unlink(local)  # the open file stays until it is closed

    def open_input_stream(self, path: str) -> Any:
        return self.open_input_file(path)

    def open_output_stream(self, path: str, metadata: Any) -> Any:  # noqa: ARG002 - Arrow's
        return pa.PythonFile(_Written(self._files, path), mode="w")

    def _refuse(self, *_: Any) -> Any:
        raise NotImplementedError

    delete_dir_contents = delete_root_dir_contents = copy_file = open_append_stream = _refuse


class _Written:
    """A file that is written to a local disk, and is copied to Hadoop when it is closed."""

    def __init__(self, files: HadoopFiles, path: str) -> None:
        self._files, self._path = files, path
        descriptor, name = tempfile.mkstemp(prefix="pyflinklike-")
        self._local, self._file = Path(name), os.fdopen(descriptor, "wb")

    @property
    def closed(self) -> bool:
        return self._file.closed

    def write(self, data: Any) -> int:
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._file.closed:
            return
        self._file.close()
        try:
            self._files.copy_there(str(self._local), self._path)
        finally:
            self._local.unlink()
