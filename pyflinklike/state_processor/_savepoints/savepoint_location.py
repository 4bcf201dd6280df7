# SPDX-License-Identifier: Apache-2.0
"""The directory of a savepoint, at a path or at an address that Arrow knows.

A savepoint is written file by file, the manifest last, so a broken write leaves no savepoint.  To replace
one, a new savepoint is written beside it; two renames exchange them when the new one is whole.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from pyflinklike._messages import short_repr
from pyflinklike.errors import CorruptStateError, DeclarationTypeError, DeclarationValueError
from pyflinklike.state_processor._savepoints.manifest import HISTORY, MANIFEST, Manifest, SavedFile

_CHUNK = 1 << 20
_READERS = 4
"""How many files are read at a time; an object store answers slowly, so waiting takes the most time."""


@attrs.frozen
class SavepointLocation:
    """A directory that is a savepoint, or becomes one.

    Args:
        address: The path or address as the user gave it.
        filesystem: The Arrow filesystem that has the directory.
        root: The path in the filesystem, without a slash at its end.
        uri: The absolute path or address at which Spark finds it, without a slash at its end.
    """

    address: str
    filesystem: Any
    root: str
    uri: str

    @property
    def where(self) -> str:
        """The name of the savepoint in messages."""
        return f"savepoint {self.address!r}"

    def path(self, name: str) -> str:
        """Return the path of a file in the filesystem."""
        return f"{self.root}/{name}"

    def exists(self, name: str = "") -> bool:
        """Return whether the directory is there, or a file in it."""
        info = self.filesystem.get_file_info(self.path(name) if name else self.root)
        return bool(info.type != fs.FileType.NotFound)

    def is_savepoint(self) -> bool:
        """Return whether the directory is a savepoint, or becomes one when its batch is read."""
        return self.exists(MANIFEST) or self.exists(HISTORY)

    def manifest(self) -> Manifest:
        """Read the savepoint's description of itself.

        Raises:
            CorruptStateError: There is no manifest, or it is damaged.
        """
        if not self.exists(MANIFEST):
            msg = f"{self.where}: a savepoint has a {MANIFEST}, which is written last, got no such file"
            remedy = "give the directory of a finished savepoint"
            written = self._beside("new")
            if not self.exists() and written.exists(MANIFEST):
                remedy = f"its replacement was interrupted when the new one was whole: move {written.address!r} here"
            raise CorruptStateError(f"{msg}; {remedy}")
        return Manifest.from_json(self.read_text(MANIFEST), self.where)

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, which makes the directory a savepoint."""
        self.write_text(MANIFEST, manifest.to_json())

    def read_text(self, name: str) -> str:
        """Return the text of a file."""
        with self.filesystem.open_input_file(self.path(name)) as file:
            return bytes(file.read()).decode(errors="replace")

    def write_text(self, name: str, text: str) -> None:
        """Write a file as a whole; its folder is made if it does not exist."""
        # Written under another name first: half a manifest must not look like a damaged savepoint.
        path = self.path(name)
        hidden = f"{path}.new"
        self.filesystem.create_dir(path.rpartition("/")[0])
        with self.filesystem.open_output_stream(hidden) as file:
            file.write(text.encode())
        self.filesystem.move(hidden, path)

    def measure_file(self, name: str) -> SavedFile:
        """Return a file of the directory with its size and checksum."""
        digest, size = hashlib.sha256(), 0
        with self.filesystem.open_input_stream(self.path(name), compression=None) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return SavedFile(name, size, digest.hexdigest())

    def measure_files(self, names: Iterable[str]) -> tuple[SavedFile, ...]:
        """Return files of the directory with their sizes and checksums."""
        with ThreadPoolExecutor(_READERS) as readers:
            return tuple(readers.map(self.measure_file, names))

    def verify(self, files: Iterable[SavedFile]) -> None:
        """Check that files are those that were written.

        Raises:
            CorruptStateError: A file is missing or was changed.
        """
        with ThreadPoolExecutor(_READERS) as readers:
            for misfit in readers.map(self.misfit, files):
                if misfit is not None:
                    raise damage_error(self, misfit)

    def misfit(self, saved: SavedFile) -> str | None:
        """Return how a file differs from the one that was written, or None."""
        if not self.exists(saved.path):
            return _report_missing(saved)
        return _report_difference(saved, self.measure_file(saved.path))

    def read_file(self, saved: SavedFile) -> pa.Buffer | str:
        """Read a file once, and return its bytes, or how it differs from the file that was written.

        The checksum is computed from these very bytes, so no change between two reads can be missed.
        """
        if not self.exists(saved.path):
            return _report_missing(saved)
        with self.filesystem.open_input_stream(self.path(saved.path), compression=None) as file:
            read = copy_to_arrow(iter(lambda: file.read(_CHUNK), b""))
        found = SavedFile(saved.path, read.size, hashlib.sha256(read).hexdigest())
        return _report_difference(saved, found) or read

    def tables(self, files: Iterable[SavedFile], schema: pa.Schema) -> Iterator[pa.Table]:
        """Read files as tables; each is read once.

        Raises:
            CorruptStateError: A file is missing or was changed.
        """
        for saved in files:
            read = self.read_file(saved)
            if isinstance(read, str):
                raise damage_error(self, read)
            yield decode_file(read, schema)

    def rows_in(self, name: str) -> int:
        """Count the rows of a Parquet file by its own metadata."""
        metadata = pq.read_metadata(self.path(name), filesystem=self.filesystem)
        return int(metadata.num_rows)

    def files_in(self, folder: str) -> list[str]:
        """Return the names of the Parquet files in a folder, sorted."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        names = [info.base_name for info in self.filesystem.get_file_info(selector)]
        return sorted(f"{folder}/{name}" for name in names if name.endswith(".parquet"))

    def begin(self, mode: str) -> SavepointLocation:
        """Return the directory to write to: this one, or one beside it if a savepoint is here.

        Raises:
            DeclarationValueError: The directory exists and `mode` is "error", or it is not a
                savepoint, or it is within a checkpoint.
        """
        if mode not in ("error", "overwrite"):
            msg = f'mode must be "error" or "overwrite", got {short_repr(mode)}; choose one'
            raise DeclarationValueError(msg)
        self.refuse_checkpoint()
        if not self.exists():
            return self
        if mode == "error":
            msg = f"{self.where}: must not exist before it is written, got a directory"
            raise DeclarationValueError(f'{msg}; give another path, or mode="overwrite"')
        if not self.exists(MANIFEST):
            msg = f"{self.where}: only a savepoint is overwritten, got another directory"
            raise DeclarationValueError(f"{msg}; give another path")
        # The old savepoint must stay until the new one is whole.
        beside = self._beside("new")
        beside.delete()
        return beside

    def _beside(self, what: str) -> SavepointLocation:
        """Return the directory beside this one that has its name and an extension."""
        names = {each: f"{getattr(self, each)}.{what}" for each in ("address", "root", "uri")}
        return attrs.evolve(self, **names)

    def delete(self) -> None:
        """Delete the directory if it is there."""
        if self.exists():
            self.filesystem.delete_dir(self.root)

    def refuse_checkpoint(self) -> None:
        """Check that the directory is not within a checkpoint.

        Raises:
            DeclarationValueError: It is within a checkpoint.
        """
        parts = self.root.split("/")
        above = ["/".join(parts[:at]) for at in range(len(parts), 1, -1)]
        paths = [f"{each}/{log}" for each in above for log in ("offsets", "commits")]
        found = [
            info.type == fs.FileType.Directory for info in self.filesystem.get_file_info(paths)
        ]
        for at, each in enumerate(above):
            if all(found[2 * at : 2 * at + 2]):
                msg = f"{self.where}: a savepoint is not written into a checkpoint, got a path in "
                raise DeclarationValueError(f"{msg}{each!r}; give one outside of it")

    def replace(self, written: SavepointLocation) -> None:
        """Move a savepoint that was written beside this directory to its place."""
        if written.root == self.root:
            return
        # Deleting takes long, so the old directory is renamed first.  After an interruption between
        # the two renames both savepoints are whole, and `manifest` says what to do.
        replaced = self._beside("replaced")
        replaced.delete()
        self.filesystem.move(self.root, replaced.root)
        self.filesystem.move(written.root, self.root)
        replaced.delete()


def savepoint_location_of(path: str | os.PathLike[str]) -> SavepointLocation:
    """Return the directory that a path or an address leads to.

    Raises:
        DeclarationTypeError, DeclarationValueError: The argument is neither.
    """
    try:
        address = os.fspath(path)
    except TypeError:
        address = b""  # type: ignore[assignment]
    if not isinstance(address, str) or not address:
        msg = f"a savepoint is at a path or an address, got {short_repr(path)}; give a str"
        raise DeclarationTypeError(msg)
    try:
        if ":" not in address:
            # The path becomes absolute, since Java may have another working directory than Python.
            path = os.path.abspath(address)
            return SavepointLocation(address, fs.LocalFileSystem(), path, path)
        plain = address.replace("file:/", "file:///") if address.startswith("file:/") else address
        filesystem, root = fs.FileSystem.from_uri(plain.replace("file://///", "file:///"))
        return SavepointLocation(address, filesystem, root.rstrip("/"), address.rstrip("/"))
    except (pa.ArrowException, ValueError, OSError) as error:
        msg = f"a savepoint is at a path or an address that Arrow knows, got {address!r}: {error}"
        raise DeclarationValueError(msg) from error


def copy_to_arrow(chunks: Iterable[bytes]) -> pa.Buffer:
    """Copy bytes into Arrow's memory, so that Arrow's threads read no memory of Python.

    A thread of Arrow may release a file shortly after the call that reads it.  If Python ends
    meanwhile and the bytes are Python's, the process aborts.
    """
    copied = pa.BufferOutputStream()
    for chunk in chunks:
        copied.write(chunk)
    return copied.getvalue()


def decode_file(read: pa.Buffer, schema: pa.Schema) -> pa.Table:
    """Decode the bytes of a Parquet file, which are in Arrow's memory, in the columns of a schema."""
    # `partitioning=None`: a folder named "a=b" would become a column.
    return pq.read_table(
        pa.BufferReader(read), schema=schema, page_checksum_verification=True, partitioning=None
    )


def _report_missing(saved: SavedFile) -> str:
    return f"a file is missing, got no {saved.path}"


def _report_difference(saved: SavedFile, found: SavedFile) -> str | None:
    if found == saved:
        return None
    rule = f"{saved.path} must have {saved.bytes} bytes with the checksum {saved.sha256}"
    return f"{rule}, got {found.bytes} with {found.sha256}"


def damage_error(location: SavepointLocation, what: str) -> CorruptStateError:
    """Build the error for a file that differs from the manifest."""
    return CorruptStateError(f"{location.where}: {what}; take the savepoint again")
