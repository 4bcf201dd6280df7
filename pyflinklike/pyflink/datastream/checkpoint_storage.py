# SPDX-License-Identifier: Apache-2.0
"""Where Flink writes checkpoints, as `pyflink.datastream.CheckpointStorage`.

Here the folder of `FileSystemCheckpointStorage` is where the jobs of a program have theirs: it is
given to `CheckpointConfig.set_checkpoint_storage`.  All other settings have no effect.
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

_MANY_BYTES = 5 * 1024 * 1024
_MOST_IN_METADATA = 1024 * 1024


class CheckpointStorage(WithoutJava):
    """A place for checkpoints."""

    checkpoint_path: str | None = None

    def get_checkpoint_path(self) -> str | None:
        """Return the folder; None where there is none."""
        return self.checkpoint_path

    def get_savepoint_path(self) -> None:
        """Return None: the caller of a savepoint names its folder."""

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.checkpoint_path!r})"


@without_effect("checkpoints are files; give execution.checkpointing.dir a folder to go on from it")
class JobManagerCheckpointStorage(CheckpointStorage):
    """The memory of Flink's job manager, which is not here.

    Args:
        checkpoint_path: Has no effect.
        max_state_size: The result of its getter.
    """

    DEFAULT_MAX_STATE_SIZE = _MANY_BYTES

    def __init__(
        self, checkpoint_path: str | None = None, max_state_size: int | None = None
    ) -> None:
        self.checkpoint_path = checkpoint_path
        self._max_state_size = _MANY_BYTES if max_state_size is None else max_state_size

    get_max_state_size = attribute("_max_state_size")


class FileSystemCheckpointStorage(CheckpointStorage):
    """A folder.

    Args:
        checkpoint_path: The path of the folder.
        file_state_size_threshold: The result of its getter; None for none.
        write_buffer_size: The result of its getter.

    Raises:
        DeclarationValueError: There is no path.
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


@without_effect("its storage is Java's; give execution.checkpointing.dir a folder")
class CustomCheckpointStorage(CheckpointStorage):
    """A storage in Java, which is not here."""

    def __init__(self, *_: object) -> None:
        """Take anything."""
