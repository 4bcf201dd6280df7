# SPDX-License-Identifier: Apache-2.0
"""Storages of checkpoints, as `pyflink.datastream.CheckpointStorage`.

`CheckpointConfig.set_checkpoint_storage` takes the folder of a `FileSystemCheckpointStorage` for the
checkpoints of a program's jobs.  All other settings of storages have no effect.
"""

from __future__ import annotations

from pyflinklike._deprecation import WithoutJava
from pyflinklike.errors import DeclarationValueError
from pyflinklike.pyflink._foreign_names import without_effect
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.options import attribute

__all__ = [
    "CheckpointStorage",
    "CustomCheckpointStorage",
    "FileSystemCheckpointStorage",
    "JobManagerCheckpointStorage",
]

__getattr__ = of_pyflink(__name__)

# Flink's defaults, which programs may read.
_MANY_BYTES = 5 * 1024 * 1024
_MOST_IN_METADATA = 1024 * 1024


class CheckpointStorage(WithoutJava):
    """The base of all storages."""

    checkpoint_path: str | None = None

    def get_checkpoint_path(self) -> str | None:
        """Return the folder; None for a storage without a folder."""
        return self.checkpoint_path

    def get_savepoint_path(self) -> None:
        """Return None: the caller of a savepoint names its folder."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.checkpoint_path!r})"


@without_effect("checkpoints are files; give execution.checkpointing.dir a folder to go on from it")
class JobManagerCheckpointStorage(CheckpointStorage):
    """The memory of Flink's job manager, which does not exist here.

    Args:
        checkpoint_path: The path of a folder; it has no effect.
        max_state_size: A size in bytes, only for the getter.
    """

    DEFAULT_MAX_STATE_SIZE = _MANY_BYTES

    def __init__(
        self, checkpoint_path: str | None = None, max_state_size: int | None = None
    ) -> None:
        self.checkpoint_path = checkpoint_path
        self._max_state_size = _MANY_BYTES if max_state_size is None else max_state_size

    get_max_state_size = attribute("_max_state_size")


class FileSystemCheckpointStorage(CheckpointStorage):
    """A folder for checkpoints.

    Args:
        checkpoint_path: The path of the folder, or its address.
        file_state_size_threshold: A size in bytes, only for the getter, which returns -1 for None.
        write_buffer_size: A size in bytes, only for the getter.

    Raises:
        DeclarationValueError: The path is None.
    """

    MAX_FILE_STATE_THRESHOLD = _MOST_IN_METADATA

    def __init__(
        self,
        checkpoint_path: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int = -1,
    ) -> None:
        if checkpoint_path is None:
            msg = "checkpoint_path must not be None, got None; give the path of a folder"
            raise DeclarationValueError(msg)
        self.checkpoint_path = str(checkpoint_path)
        self._threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        self._buffer_size = write_buffer_size

    get_min_file_size_threshold = attribute("_threshold")
    get_write_buffer_size = attribute("_buffer_size")


@without_effect("its storage is written in Java; give execution.checkpointing.dir a folder")
class CustomCheckpointStorage(CheckpointStorage):
    """A storage in Java, which has no effect here."""

    def __init__(self, *_: object) -> None:
        """Accept any arguments, and ignore them."""
