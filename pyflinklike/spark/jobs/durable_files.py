# SPDX-License-Identifier: Apache-2.0
"""Small files of a job's folder that are there as a whole or not at all: JSON with a checksum.

Which micro-batch of a job was written last: what keeps sinks from writing one twice.

A micro-batch is written under hidden names, then noted here with the names that its files are to
have, then the files get them.  The note is the moment at which it counts: whoever finds it finishes
the renaming and does not write again; whoever does not find it writes all of it anew.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyflinklike.engine.graph.sinks import Renaming
from pyflinklike.errors import CorruptStateError

__all__ = ["Ledger", "read_json", "rename_durably", "write_json"]


def write_json(path: Path, contents: dict[str, Any]) -> None:
    """Write a file in one step: whoever reads it finds the former contents or these.

    Args:
        path: Of the file.
        contents: What JSON can say.
    """
    text = _text(contents)
    hidden = path.with_name(f".{path.name}.new")
    hidden.write_text(_text({**contents, "checksum": zlib.crc32(text.encode())}), encoding="utf-8")
    rename_durably(hidden, path)


def rename_durably(hidden: Path, path: Path) -> None:
    """Give a written file its name, when its contents are on the disk.

    Args:
        hidden: The path that it was written to.
        path: The path that it is to have.
    """
    _sync(hidden, os.O_RDWR)
    hidden.replace(path)
    _sync(path.parent, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_json(path: Path) -> dict[str, Any] | None:
    """What `write_json` wrote; None where there is no such file.

    Args:
        path: Of the file.

    Raises:
        CorruptStateError: It is damaged.
    """
    try:
        contents = json.loads(path.read_bytes())
        checksum = contents.pop("checksum")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(path) from error
    if checksum != zlib.crc32(_text(contents).encode()):
        raise _damaged(path)
    found: dict[str, Any] = contents
    return found


def _damaged(path: Path) -> CorruptStateError:
    return CorruptStateError(
        f"a job's folder has files as they were written, got a damaged one, {str(path)!r}; "
        "restore the folder from a copy, or begin anew with another execution.checkpointing.dir"
    )


def _text(contents: dict[str, Any]) -> str:
    return json.dumps(contents, sort_keys=True)


class Ledger:
    """The note of the micro-batch that was written last.

    Args:
        path: Of the file.

    Raises:
        CorruptStateError: The file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        found = read_json(path)
        self._last = -1 if found is None else int(found["batch"])
        for hidden, name in [] if found is None else found["files"]:
            Renaming(Path(hidden), Path(name)).perform()

    @staticmethod
    def last_of(path: Path) -> int:
        """The micro-batch that is noted in a file, without finishing it; -1 for none.

        Args:
            path: Of the file.

        Raises:
            CorruptStateError: The file is damaged.
        """
        found = read_json(path)
        return -1 if found is None else int(found["batch"])

    def has(self, batch: int) -> bool:
        """Whether a micro-batch was written already.

        Args:
            batch: Its number.
        """
        return batch <= self._last

    def note(self, batch: int, renamings: Iterable[Renaming]) -> None:
        """A micro-batch is written: make it visible, once and for all.

        Args:
            batch: Its number.
            renamings: Of its files.
        """
        files = list(renamings)
        names = [[str(each.hidden), str(each.path)] for each in files]
        write_json(self._path, {"batch": batch, "files": names})
        self._last = batch
        for each in files:
            each.perform()
