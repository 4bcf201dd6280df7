# SPDX-License-Identifier: Apache-2.0
"""Small files of a job's folder that are there as a whole or not at all: JSON with a checksum."""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

from pyflinklike.errors import CorruptStateError

__all__ = ["read_json", "rename_durably", "write_json"]


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
