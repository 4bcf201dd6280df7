# SPDX-License-Identifier: Apache-2.0
"""Small files of a job's folder, whole or absent: JSON with a checksum.

The folder is on this machine or elsewhere (`_paths`).  Here a file is replaced by a renaming, and
there by another version of it.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pyflinklike._paths import FolderPath, RemotePath
from pyflinklike.errors import CorruptStateError
from pyflinklike.pyflink._graph.sinks import Renaming

__all__ = [
    "Ledger",
    "read_file",
    "read_json",
    "remove_folder",
    "rename_durably",
    "write_json",
]


def write_json(path: FolderPath, contents: dict[str, Any]) -> None:
    """Replace a file in one step: readers find the former contents or the new ones.

    Args:
        path: The path of the file.
        contents: Values that JSON can write.

    Raises:
        HostError: Another run writes the file, too.
    """
    text = _text(contents)
    checked = _text({**contents, "checksum": zlib.crc32(text.encode())})
    if isinstance(path, RemotePath):
        path.put(checked.encode())
        return
    hidden = path.with_name(f".{path.name}.new")
    hidden.write_text(checked, encoding="utf-8")
    rename_durably(hidden, path)


def rename_durably(hidden: Path, path: Path) -> None:
    """Rename a written file when its contents are on the disk.

    Args:
        hidden: The path to which it was written.
        path: Its final path.
    """
    # Before the renaming: after a power cut a name without contents could be there.
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
    """Remove a folder; who is killed meanwhile leaves none that looks like a damaged one.

    Args:
        path: The path of the folder, which may be gone.
    """
    if isinstance(path, RemotePath):
        path.remove_folder()
        return
    # Renamed in one step first.
    gone = path.with_name(f".removed-{uuid.uuid4()}")
    if path.exists():
        path.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def read_file(path: FolderPath) -> bytes:
    """Read a file that was written once, and not by `write_json`.

    Raises:
        FileNotFoundError: There is none.
    """
    return path.read_once() if isinstance(path, RemotePath) else path.read_bytes()


def read_json(path: FolderPath) -> dict[str, Any] | None:
    """Read what `write_json` wrote; None if there is no such file.

    Raises:
        CorruptStateError: The file is damaged.
    """
    try:
        contents = json.loads(path.read_bytes())
        checksum = contents.pop("checksum")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damage_error(path) from error
    if checksum != zlib.crc32(_text(contents).encode()):
        raise _damage_error(path)
    found: dict[str, Any] = contents
    return found


def _damage_error(path: FolderPath) -> CorruptStateError:
    return CorruptStateError(
        f"a job's folder has files as they were written, got a damaged one, {str(path)!r}; "
        "restore the folder from a copy, or begin anew with another execution.checkpointing.dir"
    )


def _text(contents: dict[str, Any]) -> str:
    return json.dumps(contents, sort_keys=True)


class Ledger:
    """The record of the micro-batch that was written last, so that sinks write none twice.

    Tasks and sinks write a micro-batch under hidden names.  Then its number is recorded here with the
    final names of its files, then the files get these names.  The micro-batch counts from the moment of
    the record: a later run that finds the record finishes the renaming and does not write again, and a
    run that does not find it writes the whole micro-batch anew.

    Args:
        path: The path of the file; a renaming that it records is finished at once.
        check_lock: Raises if another run has taken the folder.

    Raises:
        CorruptStateError: The file is damaged.
    """

    def __init__(self, path: FolderPath, check_lock: Callable[[], None] | None = None) -> None:
        self._path, self._check_lock = path, check_lock
        found = read_json(path)
        self._last = -1 if found is None else int(found["batch"])
        for hidden, name in [] if found is None else found["files"]:
            Renaming(Path(hidden), Path(name)).perform()

    @staticmethod
    def last_of(path: FolderPath) -> int:
        """Read the recorded number without finishing the micro-batch; -1 if there is none.

        Raises:
            CorruptStateError: The file is damaged.
        """
        found = read_json(path)
        return -1 if found is None else int(found["batch"])

    def has(self, batch: int) -> bool:
        """Return whether the micro-batch of this number was written already."""
        return batch <= self._last

    def note(self, batch: int, renamings: Iterable[Renaming]) -> None:
        """Record that a micro-batch is written, and make its files visible.

        Args:
            batch: The number of the micro-batch.
            renamings: The hidden and final names of its files.

        Raises:
            HostError: Another run has taken the folder, and writes the micro-batch itself.
        """
        if self._check_lock is not None:
            self._check_lock()
        files = list(renamings)
        names = [[str(each.hidden), str(each.path)] for each in files]
        write_json(self._path, {"batch": batch, "files": names})
        self._last = batch
        for each in files:
            each.perform()
