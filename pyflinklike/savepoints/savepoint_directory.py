# SPDX-License-Identifier: Apache-2.0
"""The directory of a savepoint: a path, or an address that Arrow knows, such as s3://."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from pyflinklike.errors import CorruptStateError, DeclarationTypeError, DeclarationValueError
from pyflinklike.savepoints.manifest import MANIFEST, Manifest, SavedFile
from pyflinklike.shown import shown

__all__ = ["Place", "place_of"]

_CHUNK = 1 << 20
_READERS = 4
"""Number of files read at a time: from an object store, waiting takes most of the time."""


@attrs.frozen
class Place:
    """A directory that is a savepoint, or becomes one.

    Args:
        address: The address as it was given.
        filesystem: Arrow's filesystem.
        root: The path in it, without a slash at its end.
        location: The absolute path or address at which Spark finds it, without a slash at its end.
    """

    address: str
    filesystem: Any
    root: str
    location: str

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

    def manifest(self) -> Manifest:
        """Read the savepoint's description of itself.

        Raises:
            CorruptStateError: There is no manifest, or it is damaged.
        """
        if not self.exists(MANIFEST):
            msg = f"{self.where}: a savepoint has a {MANIFEST}, which is written last, got none"
            raise CorruptStateError(f"{msg}; give the directory of one that was finished")
        with self.filesystem.open_input_file(self.path(MANIFEST)) as file:
            text = bytes(file.read()).decode(errors="replace")
        return Manifest.from_json(text, self.where)

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, which makes the directory a savepoint."""
        # Written beside and moved: a half-written manifest must not look like a damaged savepoint.
        hidden = self.path(f"{MANIFEST}.new")
        self.filesystem.create_dir(self.root)
        with self.filesystem.open_output_stream(hidden) as file:
            file.write(manifest.to_json().encode())
        self.filesystem.move(hidden, self.path(MANIFEST))

    def saved_file(self, name: str) -> SavedFile:
        """Return a file of the directory with its size and checksum."""
        digest, size = hashlib.sha256(), 0
        with self.filesystem.open_input_stream(self.path(name), compression=None) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        return SavedFile(name, size, digest.hexdigest())

    def saved_files(self, names: Iterable[str]) -> tuple[SavedFile, ...]:
        """Return files of the directory with their sizes and checksums."""
        with ThreadPoolExecutor(_READERS) as readers:
            return tuple(readers.map(self.saved_file, names))

    def verify(self, files: Iterable[SavedFile]) -> None:
        """Check that files are those that were written.

        Raises:
            CorruptStateError: A file is missing or was changed.
        """
        with ThreadPoolExecutor(_READERS) as readers:
            for misfit in readers.map(self.misfit, files):
                if misfit is not None:
                    raise damaged(self, misfit)

    def misfit(self, saved: SavedFile) -> str | None:
        """Say how a file differs from the one that was written; None if it does not."""
        if not self.exists(saved.path):
            return f"a file is missing, got no {saved.path}"
        found = self.saved_file(saved.path)
        if found == saved:
            return None
        rule = f"{saved.path} must have {saved.bytes} bytes with the checksum {saved.sha256}"
        return f"{rule}, got {found.bytes} with {found.sha256}"

    def rows_in(self, name: str) -> int:
        """Count the rows of a Parquet file by its own metadata."""
        metadata = pq.read_metadata(self.path(name), filesystem=self.filesystem)
        return int(metadata.num_rows)

    def count_by(
        self, files: Iterable[SavedFile], column: str, values: Iterable[str]
    ) -> dict[str, int]:
        """Count the rows of Parquet files that have each of these values in a column."""
        from pyarrow import dataset  # it imports pandas where that is installed

        paths = [self.path(each.path) for each in files]
        if not paths:
            return {}
        rows = dataset.dataset(paths, format="parquet", filesystem=self.filesystem)
        counts = {each: rows.count_rows(filter=pc.field(column) == each) for each in values}
        return {each: number for each, number in counts.items() if number}

    def files_in(self, folder: str) -> list[str]:
        """Return the names of the Parquet files in a folder, sorted."""
        selector = fs.FileSelector(self.path(folder), allow_not_found=True)
        names = [info.base_name for info in self.filesystem.get_file_info(selector)]
        return sorted(f"{folder}/{name}" for name in names if name.endswith(".parquet"))

    def begin(self, mode: str) -> Place:
        """Return where to write a savepoint meant for here: here, or beside the one that is here.

        Raises:
            DeclarationValueError: There is something here that must stay, or that is no savepoint;
                or this is within a checkpoint.
        """
        if mode not in ("error", "overwrite"):
            msg = f'mode must be "error" or "overwrite", got {shown(mode)}; choose one'
            raise DeclarationValueError(msg)
        self._refuse_checkpoint()
        if not self.exists():
            return self
        if mode == "error":
            msg = f"{self.where}: nothing is there before it is written, got a directory"
            raise DeclarationValueError(f'{msg}; give another path, or mode="overwrite"')
        if not self.exists(MANIFEST):
            msg = f"{self.where}: only a savepoint is overwritten, got a directory that is none"
            raise DeclarationValueError(f"{msg}; give another path")
        # Written beside it: until the new savepoint is whole, the old one must stay.
        names = {each: f"{getattr(self, each)}.new" for each in ("address", "root", "location")}
        beside = attrs.evolve(self, **names)
        if beside.exists():
            self.filesystem.delete_dir(beside.root)
        return beside

    def _refuse_checkpoint(self) -> None:
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

    def replace(self, written: Place) -> None:
        """Move a savepoint that was written beside this place to this place."""
        if written.root != self.root:
            # A break between the two leaves the new savepoint whole beside this place.
            self.filesystem.delete_dir(self.root)
            self.filesystem.move(written.root, self.root)


def place_of(path: str | os.PathLike[str]) -> Place:
    """Return the directory that a path or an address leads to.

    Raises:
        DeclarationTypeError, DeclarationValueError: It is neither.
    """
    try:
        address = os.fspath(path)
    except TypeError:
        address = b""  # type: ignore[assignment]
    if not isinstance(address, str) or not address:
        msg = f"a savepoint is at a path or an address, got {shown(path)}; give a str"
        raise DeclarationTypeError(msg)
    try:
        if ":" not in address:
            # Made absolute here, since Java may have another working directory than Python.
            path = os.path.abspath(address)
            return Place(address, fs.LocalFileSystem(), path, path)
        plain = address.replace("file:/", "file:///") if address.startswith("file:/") else address
        filesystem, root = fs.FileSystem.from_uri(plain.replace("file://///", "file:///"))
        return Place(address, filesystem, root.rstrip("/"), address.rstrip("/"))
    except (pa.ArrowException, ValueError, OSError) as error:
        msg = f"a savepoint is at a path or an address that Arrow knows, got {address!r}: {error}"
        raise DeclarationValueError(msg) from error


def damaged(place: Place, what: str) -> CorruptStateError:
    """Build the error for a file that differs from the manifest."""
    return CorruptStateError(f"{place.where}: {what}; take the savepoint again")
