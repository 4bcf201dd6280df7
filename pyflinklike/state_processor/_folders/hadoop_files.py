# SPDX-License-Identifier: Apache-2.0
"""Reads and writes files on any file system that Hadoop knows, through the driver's JVM.

Spark keeps its checkpoint there with the same classes, configuration and credentials.  A new file must
appear whole, and must not replace another.  The abilities of the file system decide how that is done:

| file system                                 | a new file                                              |
|---------------------------------------------|---------------------------------------------------------|
| one whose uploads can be aborted (`s3a`)    | is uploaded, and is visible when the upload is complete |
| all others (HDFS, viewfs, `abfss`)          | is written under a hidden name, then renamed without replacing a file |

A program of Spark Connect has no JVM, so it reaches no such files.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import SparkSession

from pyflinklike.errors import SparkSetupError
from pyflinklike.state_processor._folders.folder_paths import (
    FolderPath,
    Listed,
    RemotePath,
    local_path,
)

_UPLOADS = "fs.capability.outputstream.abortable"
"""Hadoop's name for the ability to abort an upload: a new file appears only when it is closed."""
_KINDS: dict[str, type[OSError]] = {
    "org.apache.hadoop.fs.FileAlreadyExistsException": FileExistsError,
    "java.io.FileNotFoundException": FileNotFoundError,
}
_PACKAGES = {
    "s3a": "org.apache.hadoop:hadoop-aws",
    "abfs": "org.apache.hadoop:hadoop-azure",
    "abfss": "org.apache.hadoop:hadoop-azure",
    "gs": "com.google.cloud.bigdataoss:gcs-connector",
}


_SCHEME = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:/")


def is_remote_address(path: str) -> bool:
    """Return whether a path has a scheme other than `file:`."""
    return _SCHEME.match(path) is not None


def folder_path(spark: SparkSession | None, path: str) -> FolderPath:
    """Return the path of a folder on this machine, or on a file system of Hadoop if it has a scheme.

    Args:
        spark: A session that has a JVM; a path on this machine needs none.
        path: The path or address of the folder.

    Raises:
        SparkSetupError: Hadoop does not know the file system, or cannot use it.
    """
    if not is_remote_address(path):
        return local_path(path).absolute()
    assert spark is not None
    files = HadoopFiles(spark, path)
    return RemotePath(files, files.address)


def temporary_folder(spark: SparkSession, parent: str) -> RemotePath:
    """Make a folder that Hadoop deletes when the driver's JVM ends.

    Args:
        spark: A session that has a JVM.
        parent: The address of the folder in which it is made.

    Raises:
        SparkSetupError: As for `folder_path`.
    """
    files = HadoopFiles(spark, parent)
    folder = RemotePath(files, f"{files.address}/job-{uuid.uuid4()}")
    folder.mkdir()
    files.delete_at_exit(str(folder))
    return folder


def for_spark(path: FolderPath) -> str:
    """Return the address at which Spark finds a path, with any default file system."""
    return f"file://{path}" if isinstance(path, Path) else str(path)


class HadoopFiles(fs.FileSystemHandler):  # type: ignore[misc]
    """A file system of Hadoop.  Arrow can use it, too, but only for what savepoints need.

    Args:
        spark: A session that has a JVM.
        address: An address in the file system.

    Raises:
        SparkSetupError: Hadoop does not know the file system, or cannot use it.
    """

    def __init__(self, spark: SparkSession, address: str) -> None:
        jvm: Any = spark._jvm
        gateway: Any = spark._sc._gateway
        self._hadoop = jvm.org.apache.hadoop.fs
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        try:
            path = self._path(address)
            self._files = path.getFileSystem(configuration)
            self.address = self.whole(address)
            self._takes_uploads = self._files.hasPathCapability(path, _UPLOADS)
            self._context = self._hadoop.FileContext.getFileContext(path.toUri(), configuration)
        except Exception as error:
            raise _refusal(address, error) from error
        # The "$" in the name of Java's nested enum is no letter of a Python name.
        kinds = getattr(self._hadoop, "Options$Rename")
        self._replace_nothing = gateway.new_array(kinds, 1)
        self._replace_nothing[0] = kinds.NONE

    def whole(self, address: str) -> str:
        """Return an address with its authority, which may come from the configuration."""
        files = self._files
        whole = self._path(address).makeQualified(files.getUri(), files.getWorkingDirectory())
        return str(whole.toString()).rstrip("/")

    def create(self, path: str, contents: bytes, newer_than: int) -> int | None:
        """Create a file that appears when it is whole; return its time, or None if it exists already."""
        try:
            if self._takes_uploads:
                self.write(path, contents, replaces=False)
            else:
                self._write_and_rename(path, contents, newer_than)
        except FileExistsError:
            return None
        return self._time_of(path)

    def _write_and_rename(self, path: str, contents: bytes, newer_than: int) -> None:
        folder, _, name = path.rpartition("/")
        hidden = f"{folder}/.{name}.{uuid.uuid4()}.tmp"
        try:
            self.write(hidden, contents, replaces=True)
            # Spark's file source takes files in the order of their times.
            if self._time_of(hidden) <= newer_than:
                with _errors_of(path):
                    self._files.setTimes(self._path(hidden), newer_than + 1, -1)
            with _errors_of(path):
                self._context.rename(self._path(hidden), self._path(path), self._replace_nothing)
        except BaseException:
            self.delete(hidden)
            raise

    def _time_of(self, path: str) -> int:
        with _errors_of(path):
            return int(self._files.getFileStatus(self._path(path)).getModificationTime())

    def write(self, path: str, contents: bytes, *, replaces: bool) -> None:
        """Write a file.

        Raises:
            FileExistsError: There is a file already, and it must not be replaced.
        """
        # If a write fails, the stream stays open: closing it would complete the upload of a part.
        with _errors_of(path):
            stream = self._files.create(self._path(path), replaces)
            stream.write(contents)
            stream.close()

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file, or None if it does not exist."""
        try:
            with _errors_of(path):
                stream = self._files.open(self._path(path))
                try:
                    return bytes(stream.readAllBytes())
                finally:
                    stream.close()
        except FileNotFoundError:
            return None

    def entries(self, path: str) -> list[Listed]:
        """Return the entries of a folder; an empty list if it does not exist."""
        try:
            with _errors_of(path):
                return [_entry_of(each) for each in self._files.listStatus(self._path(path))]
        except FileNotFoundError:
            return []

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, if they are not there."""
        with _errors_of(path):
            self._files.mkdirs(self._path(path))

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""
        with _errors_of(path):
            self._files.delete(self._path(path), True)

    def delete_at_exit(self, path: str) -> None:
        """Have a folder deleted when the JVM ends."""
        with _errors_of(path):
            self._files.deleteOnExit(self._path(path))

    def plain(self, address: str) -> str:
        """Return an address without its scheme and authority."""
        return str(self._path(address).toUri().getPath())

    def _path(self, path: str) -> Any:
        return self._hadoop.Path(path)

    # What Arrow calls.  It refuses a handler without one of these methods.

    def get_type_name(self) -> str:
        """Return the name of the kind of file system."""
        return "hadoop"

    def normalize_path(self, path: str) -> str:
        """Return the path itself."""
        return path

    def get_file_info(self, paths: list[str]) -> list[Any]:
        """Describe files and folders, also those that do not exist."""
        return [self._info_of(path) for path in paths]

    def _info_of(self, path: str) -> Any:
        try:
            with _errors_of(path):
                return _info(path, _entry_of(self._files.getFileStatus(self._path(path))))
        except FileNotFoundError:
            return fs.FileInfo(path, fs.FileType.NotFound)

    def get_file_info_selector(self, selector: Any) -> list[Any]:
        """Describe the entries of a folder."""
        folder = selector.base_dir
        return [_info(f"{folder}/{each.name}", each) for each in self.entries(folder)]

    def create_dir(self, path: str, recursive: bool) -> None:  # noqa: ARG002 - Arrow's
        """Make a folder and those above it, if they are not there."""
        self.make_folder(path)

    delete_dir = delete_file = delete

    def move(self, src: str, dest: str) -> None:
        """Rename a file or folder to a path that does not exist.

        Raises:
            OSError: The file system did not rename it.
        """
        with _errors_of(src):
            is_done = self._files.rename(self._path(src), self._path(dest))
        if not is_done:
            msg = f"{src}: it was not renamed to {dest}"
            raise OSError(msg)

    def open_input_file(self, path: str) -> Any:
        """Open a file to read it."""
        descriptor, local = tempfile.mkstemp(prefix="pyflinklike-")
        os.close(descriptor)
        try:
            # Bytes come slowly through py4j, so Java copies the file to a local disk.
            with _errors_of(path):
                here = self._path(f"file://{local}")
                self._files.copyToLocalFile(False, self._path(path), here, True)
            return pa.OSFile(local)
        finally:
            os.unlink(local)  # the open file stays until it is closed

    open_input_stream = open_input_file

    def open_output_stream(self, path: str, metadata: Any) -> Any:  # noqa: ARG002 - Arrow's
        """Open a small file to write it."""
        return pa.PythonFile(_Written(self, path), mode="w")

    def _refuse(self, *_: Any) -> Any:
        raise NotImplementedError

    delete_dir_contents = delete_root_dir_contents = copy_file = open_append_stream = _refuse


class _Written(io.BytesIO):
    """A small file, which Hadoop gets when it is closed."""

    def __init__(self, files: HadoopFiles, path: str) -> None:
        super().__init__()
        self._files, self._path = files, path

    def close(self) -> None:
        if not self.closed:
            self._files.write(self._path, self.getvalue(), replaces=True)
        super().close()


def _info(path: str, entry: Listed) -> Any:
    kind = fs.FileType.Directory if entry.is_folder else fs.FileType.File
    return fs.FileInfo(path, kind, size=None if entry.is_folder else entry.size)


def _entry_of(found: Any) -> Listed:
    is_folder = bool(found.isDirectory())
    size = 0 if is_folder else int(found.getLen())
    return Listed(str(found.getPath().getName()), int(found.getModificationTime()), is_folder, size)


@contextmanager
def _errors_of(path: str) -> Iterator[None]:
    """Raise Java's errors as Python's `OSError` and its subclasses."""
    try:
        yield
    except Exception as error:
        # py4j's error class cannot be imported here: the client of Spark Connect comes without py4j.
        thrown = getattr(error, "java_exception", None)
        if thrown is None:
            raise
        kind = _KINDS.get(str(thrown.getClass().getName()), OSError)
        raise kind(f"{path}: {thrown.getMessage() or thrown}") from error


def _refusal(address: str, error: Exception) -> SparkSetupError:
    """Return the error for a file system that cannot be used, with Java's reason."""
    scheme = urlsplit(address).scheme
    thrown = getattr(error, "java_exception", None)
    reason = str(error if thrown is None else thrown.getMessage() or thrown)
    package = _PACKAGES.get(scheme)
    if "No AbstractFileSystem" in reason or "fs.AbstractFileSystem" in reason:
        # Without this setting Spark falls back to a rename that does not replace a file, silently.
        remedy = (
            f"set spark.hadoop.fs.AbstractFileSystem.{scheme}.impl to the class that its maker names, "
            "which Spark's checkpoints need, too"
        )
    elif package is not None and "not found" in reason:
        remedy = (
            f"start the driver with --packages {package}:<the version of Hadoop that Spark has>, or put the "
            "jar into Spark's folder of jars"
        )
    else:
        remedy = (
            f"give an address as Spark takes it, with the jar and the setting (spark.hadoop.fs.{scheme}.impl) "
            "of its file system, or a path on this machine"
        )
    return SparkSetupError(
        "folders of jobs and savepoints are on file systems that Spark's Hadoop knows, got "
        f"{address!r}: {reason}; {remedy}"
    )
