# SPDX-License-Identifier: Apache-2.0
"""Files of a checkpoint, by the rules of a local disk, of HDFS, or of an object store.

Spark writes a file of state or of its logs under another name and renames it
(`CheckpointFileManager`): whoever dies in between leaves a temporary file, and nobody reads half a
file.  What a rename does to a file that is there already is what the systems differ in:

| system       | how a file appears                               | over a file that is there |
|--------------|--------------------------------------------------|---------------------------|
| local disk   | rename (`FileContextBasedCheckpointFileManager`) | takes its place           |
| HDFS         | rename, with overwrite asked for                 | takes its place           |
| object store | when its upload is complete                      | takes its place           |
| refusing     | rename (`FileSystemBasedCheckpointFileManager`)  | is left, and nobody told  |

The last one is no system to run on: its `rename` returns False, which Spark ignores for a file that
may be overwritten.  `check_file_manager` refuses it, and the simulation shows why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["KINDS", "FileSystem", "MissingFileError"]

KINDS = ("local disk", "HDFS", "object store")


class MissingFileError(Exception):
    """A file is read that is not there."""


class FileSystem:
    """Files by path; a path is a tuple of names.

    Args:
        kind: One of `KINDS`, or "refusing".
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._files: dict[tuple[Any, ...], Any] = {}
        self.left_temporary = 0
        """Temporary files of attempts that died."""

    def read(self, path: tuple[Any, ...]) -> Any:
        """Return the content of a file.

        Raises:
            MissingFileError: There is none.
        """
        if path not in self._files:
            raise MissingFileError("/".join(map(str, path)))
        return self._files[path]

    def exists(self, path: tuple[Any, ...]) -> bool:
        """Return whether there is a file."""
        return path in self._files

    def replace(self, path: tuple[Any, ...], content: Any) -> bool:
        """Create a file at once, in place of one that is there; return whether it is the new one."""
        if self.kind == "refusing" and path in self._files:
            return False
        self._files[path] = content
        return True

    def create(self, path: tuple[Any, ...], content: Any) -> bool:
        """Create a file at once, as Spark's logs do; return False if there is one already."""
        if path in self._files:
            return False
        self._files[path] = content
        return True

    def delete(self, path: tuple[Any, ...]) -> None:
        """Delete a file that may be gone."""
        self._files.pop(path, None)

    def under(self, *folder: Any) -> Iterator[tuple[Any, ...]]:
        """Yield the paths below a folder, in order of creation."""
        size = len(folder)
        for path in list(self._files):
            if path[:size] == folder:
                yield path
