# SPDX-License-Identifier: Apache-2.0
"""Paths of files on this machine, or on a file system that a host reaches: HDFS, an object store.

A host asks little of a remote file system, so that the rules of HDFS and of object stores are enough:

- `create` makes a new file appear only when it is whole, and never replaces one;
- each process that lists or reads after that finds the file.

The file system need not rename a folder, replace a file, lock one or set its time.  So a record that
changes has one file for each of its versions: `watermark.json`, `watermark.json.1` and so on.  The
greatest version counts.  If the next version is there already, another process writes the same record,
and the write is refused.

A folder is removed file by file.  Before that, a mark is written beside it, and the mark goes last.  So
a half-removed folder is never taken for a damaged one.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from pyflinklike.errors import CorruptStateError, SparkSetupError


class Listed(NamedTuple):
    """An entry of a folder.

    Args:
        name: The name of the entry in the folder.
        time: When it was written, in ms since 1970 by the clock of the file system.
        is_folder: Whether the entry is a folder.
        size: The number of bytes of a file; 0 for a folder.
    """

    name: str
    time: int
    is_folder: bool
    size: int = 0


class FileSystem(Protocol):
    """The file system under a job's folder, as the host needs it; paths are whole addresses."""

    def whole(self, address: str) -> str:
        """Return an address in its full form, without a slash at its end."""

    def create(self, path: str, contents: bytes, newer_than: int) -> int | None:
        """Create a file that appears when it is whole, and the folders above it.

        Args:
            path: The address of the file.
            contents: The bytes of the whole file.
            newer_than: A time in ms.  If the file system can set times, the file gets a later one.

        Returns:
            The time of the file in ms; None if there is a file already, which does not change.
        """

    def read(self, path: str) -> bytes | None:
        """Return the bytes of a file; None if there is no file."""

    def entries(self, path: str) -> list[Listed]:
        """Return the entries of a folder; an empty list if there is no folder."""

    def make_folder(self, path: str) -> None:
        """Make a folder and those above it, if they are not there."""

    def delete(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it, if it is there."""


class RemotePath:
    """The address of a file or folder, with the methods of `pathlib.Path` that a job's folder needs.

    Args:
        system: The file system that the address belongs to.
        address: The whole address, without a slash at its end.
    """

    def __init__(self, system: FileSystem, address: str) -> None:
        self._system, self._address = system, address
        self._version: int | None = None
        """The version that this object has read or written last; -1 if there was no file."""

    def __str__(self) -> str:
        return self._address

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._address!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(other) == self._address

    def __hash__(self) -> int:
        return hash(self._address)

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self._system, f"{self._address}/{name}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self._address.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last dot and what follows it."""
        return self.name.rpartition(".")[0] or self.name

    @property
    def parent(self) -> RemotePath:
        """The folder that it is in."""
        return RemotePath(self._system, self._address.rpartition("/")[0])

    def with_name(self, name: str) -> RemotePath:
        """Return the address of another name in the same folder."""
        return self.parent / name

    def absolute(self) -> RemotePath:
        """Return the address itself: it is whole."""
        return self

    def is_at(self, address: str) -> bool:
        """Return whether an address leads here, in whatever form it is written."""
        return self._system.whole(address) == self._address

    def exists(self) -> bool:
        """Return whether a file, one of its versions, or a folder is there."""
        return any(_version_of(each.name, self.name) is not None for each in self._beside())

    def is_dir(self) -> bool:
        """Return whether a folder is there."""
        return any(each.name == self.name and each.is_folder for each in self._beside())

    def _beside(self) -> list[Listed]:
        return self._system.entries(str(self.parent))

    def iterdir(self) -> Iterator[RemotePath]:
        """Yield what is in the folder."""
        for each in self._system.entries(self._address):
            yield self / each.name

    def mkdir(self, *, parents: bool = True, exist_ok: bool = True) -> None:  # noqa: ARG002
        """Make the folder, with those above it, if it is not there."""
        self._system.make_folder(self._address)

    def touch(self) -> None:
        """Create an empty file, unless one is there."""
        self.create(b"")

    def unlink(self, missing_ok: bool = True) -> None:  # noqa: ARG002
        """Delete the file and all its versions, if it is there."""
        for version in self._versions():
            self._system.delete(self._of_version(version))
        self._version = None

    def create(self, contents: bytes, newer_than: int = 0) -> int | None:
        """Create the file whole, as `FileSystem.create` does, and return its time in ms or None."""
        return self._system.create(self._address, contents, newer_than)

    def times(self) -> dict[str, int]:
        """Return when each entry of the folder was written, by its name, in ms."""
        return {each.name: each.time for each in self._system.entries(self._address)}

    def read_bytes(self) -> bytes:
        """Read the file, or its last version.

        Raises:
            FileNotFoundError: There is no version of the file.
        """
        # Try again if a newer version has replaced the listed one before it was read.
        for _ in range(3):
            versions = self._versions()
            self._version = max(versions, default=-1)
            if not versions:
                break
            contents = self._system.read(self._of_version(self._version))
            if contents is not None:
                return contents
        raise FileNotFoundError(self._address)

    def read_once(self) -> bytes:
        """Read a file that has no versions, without listing its folder.

        Raises:
            FileNotFoundError: There is no such file.
        """
        contents = self._system.read(self._address)
        if contents is None:
            raise FileNotFoundError(self._address)
        return contents

    def put(self, contents: bytes) -> None:
        """Write another version of the file; readers see it only when it is whole.

        Raises:
            SparkSetupError: Another process has written since this object has read or written it.
        """
        if self._version is None:
            self._version = max(self._versions(), default=-1)
        version = self._version + 1
        if self._system.create(self._of_version(version), contents, 0) is None:
            raise self._conflict(version)
        self._version = version
        there = self._versions()
        # Another run may have written the same version, replaced it by a newer one, and deleted it.
        # Then the file could be created here, although it was late.
        if max(there, default=version) > version:
            raise self._conflict(max(there))
        for former in there - {version}:
            self._system.delete(self._of_version(former))

    def _conflict(self, version: int) -> SparkSetupError:
        return SparkSetupError(
            "a job's folder is written by one run at a time, got another run that has written "
            f"{self._of_version(version)!r} meanwhile; cancel one of them, and start the other again"
        )

    def remove_folder(self) -> None:
        """Remove the folder with all that is in it; after a crash, `finish_removal` does the rest."""
        self._removal.touch()
        self.finish_removal()

    def finish_removal(self) -> None:
        """Remove the rest of a folder, if its removal was begun and did not finish."""
        if self._removal.exists():
            self._system.delete(self._address)
            self._removal.unlink()

    @property
    def _removal(self) -> RemotePath:
        return self.with_name(f".{self.name}.removed")

    def _versions(self) -> set[int]:
        found = (_version_of(each.name, self.name) for each in self._beside() if not each.is_folder)
        return {each for each in found if each is not None}

    def _of_version(self, version: int) -> str:
        return f"{self._address}.{version}" if version else self._address


def _version_of(found: str, name: str) -> int | None:
    """Return the version of the file `name` that an entry of its folder is, or None."""
    if found == name:
        return 0
    behind = found.removeprefix(f"{name}.")
    return int(behind) if behind != found and behind.isdecimal() else None


FolderPath = Path | RemotePath
"""A path of a file or folder, on this machine or on a remote file system."""


# Small files, which readers find whole or not at all
#
# On this machine a rename replaces a file.  Elsewhere another version of the file replaces it.


def write_json(path: FolderPath, contents: dict[str, Any]) -> None:
    """Replace a file in one step: readers find the former contents or the new ones.

    Args:
        path: The path of the file.
        contents: Values that JSON can write.

    Raises:
        SparkSetupError: Another run writes the file, too.
    """
    text = seal(contents)
    if isinstance(path, RemotePath):
        path.put(text.encode())
        return
    hidden = path.with_name(f".{path.name}.new")
    hidden.write_text(text, encoding="utf-8")
    rename_durably(hidden, path)


def rename_durably(hidden: Path, path: Path) -> None:
    """Rename a written file when its contents are on the disk.

    Args:
        hidden: The path to which the file was written.
        path: The final path of the file.
    """
    # Contents first, then the name: a power cut in between must not leave a name without contents.
    _sync(hidden, os.O_RDWR)
    hidden.replace(path)
    _sync(path.parent, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_folder(path: FolderPath) -> None:
    """Remove a folder; if the process is killed meanwhile, the rest does not look like a folder.

    Args:
        path: The path of the folder, which may be gone.
    """
    if isinstance(path, RemotePath):
        path.remove_folder()
        return
    # A rename is one step, so other processes see the whole folder or no folder.
    gone = path.with_name(f".removed-{uuid.uuid4()}")
    if path.exists():
        path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def read_file(path: FolderPath) -> bytes:
    """Read a file that was written once, and not by `write_json`.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    return path.read_once() if isinstance(path, RemotePath) else path.read_bytes()


def read_json(path: FolderPath) -> dict[str, Any] | None:
    """Read the contents that `write_json` wrote, or return None if the file does not exist.

    Raises:
        CorruptStateError: The file is damaged.
    """
    try:
        contents = unseal(path.read_bytes())
    except FileNotFoundError:
        return None
    if contents is None:
        raise CorruptStateError(
            "a job's folder must have its files as they were written, got a damaged one, "
            f"{str(path)!r}; restore the folder from a copy, or begin anew with another "
            "execution.checkpointing.dir"
        )
    return contents


def seal(fields: Mapping[str, Any]) -> str:
    """Return an object as JSON, with a checksum of itself."""
    whole = {**fields, "checksum": zlib.crc32(compact(fields))}
    # Pure ASCII, since a path may hold a byte that is no UTF-8: Python has a lone surrogate for it.
    return json.dumps(whole, indent=1) + "\n"


def unseal(text: str | bytes) -> dict[str, Any] | None:
    """Return the object that `seal` wrote, or None for any other text."""
    try:
        fields: dict[str, Any] = json.loads(text)
        checksum = fields.pop("checksum", None)
    except (ValueError, AttributeError, TypeError):
        return None
    return fields if checksum == zlib.crc32(compact(fields)) else None


def compact(fields: Mapping[str, Any]) -> bytes:
    """Write an object in the one form that its checksum is computed from."""
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return text.encode(errors="surrogatepass")


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
