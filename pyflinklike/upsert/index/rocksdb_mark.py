# SPDX-License-Identifier: Apache-2.0
"""A file beside a RocksDB that records the number of its last change.

RocksDB cannot distinguish a log that a crash cut short from a damaged log: it silently continues
from before the first record that it cannot read.  The number of its last change, recorded after the
change is in the log, distinguishes them: a change that a crash cuts off was never recorded.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path

from pyflinklike.errors import CorruptStateError

__all__ = ["WrittenMark"]

_NAME = "WRITTEN"
_MARK = struct.Struct(">8sQ")
_CHECKSUM = struct.Struct(">I")
_MAGIC = b"pflwrit1"


class WrittenMark:
    """The number of the last change that a RocksDB must have.

    Args:
        directory: The directory of the RocksDB.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None

    def check_files(self) -> None:
        """Check that an existing RocksDB has the file without which it would begin empty.

        Raises:
            CorruptStateError: The file is missing.
        """
        directory = self._directory
        if (directory / "CURRENT").exists():
            return
        if self._noted() or any(directory.glob("*.sst")):
            raise self._short("no file CURRENT")

    def check(self, last: int) -> None:
        """Check that an opened RocksDB has all changes that were written to it.

        Args:
            last: The number of its last change.

        Raises:
            CorruptStateError: It lacks changes, or this file is damaged.
        """
        noted = self._noted()
        if last < noted:
            raise self._short(f"{last} changes of {noted}")

    def note(self, last: int) -> None:
        """Record the number of the last change."""
        if self._file is None:
            self._file = os.open(self._directory / _NAME, os.O_RDWR | os.O_CREAT, 0o600)
        data = _MARK.pack(_MAGIC, last)
        # In place, within one page: a killed process leaves the old number or the new one.
        os.lseek(self._file, 0, os.SEEK_SET)
        os.write(self._file, data + _CHECKSUM.pack(zlib.crc32(data)))

    def close(self) -> None:
        """Release the file."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _noted(self) -> int:
        """Read the number; 0 if there is none, in a new directory or one of an older version."""
        try:
            data = (self._directory / _NAME).read_bytes()
        except FileNotFoundError:
            return 0
        body, checksum = data[: _MARK.size], data[_MARK.size :]
        if not data:  # killed between its creation and its first number
            return 0
        if len(body) < _MARK.size or checksum != _CHECKSUM.pack(zlib.crc32(body)):
            raise self._short(f"{data[:40]!r} in its file {_NAME}")
        number: int = _MARK.unpack(body)[1]
        return number

    def _short(self, got: str) -> CorruptStateError:
        return CorruptStateError(
            f"the RocksDB in {str(self._directory)!r} must hold all that was written to it, got "
            f"{got}; go back to a copy or read the source again, or delete the file {_NAME} there "
            "to go on with what is left"
        )
