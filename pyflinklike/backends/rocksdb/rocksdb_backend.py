# SPDX-License-Identifier: Apache-2.0
"""The backend for state larger than memory: working state in RocksDB on the local disk.

Each task of a query opens its own RocksDB, with all its key groups.  While a batch works on a key group,
everything that it reads and writes is in memory.  When the batch is done with the group, a single write
takes the disk from the former committed state to the new one, with the nonce.  So if a batch fails, the
group is on disk as it was before, and its nonce says so.

Data that cannot be read from the disk is rebuilt from the log while the batch runs.  The directory is
deleted, the current key group goes on in memory, and the other groups are rebuilt when they are needed.

Memory holds the entries of one key group that a batch touches, and the times of the group's timers.  If
the batch before touched most of the group, memory also holds up to 16 MiB of each of its tables.  A
group that has to be rebuilt from its log is in memory as a whole while that happens, so choose enough
key groups.
"""

from __future__ import annotations

import attrs

from pyflinklike.backends.rocksdb.keyed_rocksdb import RocksDBKeyedStateBackend
from pyflinklike.backends.rocksdb.local_database import PredefinedOptions, require_rocksdict
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.state.current_key import CurrentKey

__all__ = ["EmbeddedRocksDBStateBackend", "PredefinedOptions"]

_TRANSFER_THREADS = 4  # Flink's default


@attrs.define(init=False, unsafe_hash=True)
class EmbeddedRocksDBStateBackend(StateBackend):
    """Working state in RocksDB, as in Flink's backend of that name.

    The setters change the object and return None, as PyFlink's do.  A query keeps the settings that
    the object has when the query starts.

    Args:
        enable_incremental_checkpointing: Accepted and remembered without effect, because a commit
            always writes only the changes.
        j_embedded_rocks_db_state_backend: A Java object in PyFlink; here it must be None.

    Raises:
        DeclarationTypeError: `enable_incremental_checkpointing` is not None, True or False.
        DeclarationError: A Java object is given.
    """

    _incremental: bool
    _paths: tuple[str, ...]
    _predefined: PredefinedOptions

    def __init__(
        self,
        enable_incremental_checkpointing: bool | None = None,
        j_embedded_rocks_db_state_backend: None = None,
    ) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            msg = (
                "enable_incremental_checkpointing must be None, True or False, "
                f"got {enable_incremental_checkpointing!r}; it makes no difference here"
            )
            raise DeclarationTypeError(msg)
        if j_embedded_rocks_db_state_backend is not None:
            msg = (
                "there is no Flink in this JVM, got a Java state backend "
                f"{j_embedded_rocks_db_state_backend!r}; leave it out"
            )
            raise DeclarationError(msg)
        self._incremental = bool(enable_incremental_checkpointing)
        self._paths = ()
        self._predefined = PredefinedOptions.DEFAULT

    def create_keyed_state_backend(
        self, current: CurrentKey, owner: str
    ) -> RocksDBKeyedStateBackend:
        """Create the tables of one operator instance, with the present settings.

        Raises:
            SparkSetupError: rocksdict is not installed.
        """
        require_rocksdict("EmbeddedRocksDBStateBackend")
        return RocksDBKeyedStateBackend(current, owner, self._paths, self._predefined)

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the directories for RocksDB's files on every worker; a task takes one of them.

        Without any path, a task takes Spark's local directories, or the one for temporary files.

        Args:
            paths: Absolute paths, which may begin with file://.

        Raises:
            DeclarationTypeError, DeclarationValueError: A path is not an absolute path.
        """
        for path in paths:
            if not isinstance(path, str):
                msg = f"a storage path must be a str, got {path!r}; write it as a text"
                raise DeclarationTypeError(msg)
            if not path.removeprefix("file://").startswith("/"):
                msg = f"a storage path must be absolute and local, got {path!r}; begin it with /"
                raise DeclarationValueError(msg)
        self._paths = tuple(path.removeprefix("file://") for path in paths)

    def get_db_storage_paths(self) -> list[str]:
        """Return the paths that were set."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return the argument of the constructor as a bool; it has no effect."""
        return self._incremental

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Tune RocksDB for a kind of disk.

        Raises:
            DeclarationTypeError: The options are none of `PredefinedOptions`.
        """
        if not isinstance(options, PredefinedOptions):
            msg = (
                "set_predefined_options takes one of PredefinedOptions, "
                f"got {options!r}; for example PredefinedOptions.FLASH_SSD_OPTIMIZED"
            )
            raise DeclarationTypeError(msg)
        self._predefined = options

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the kind of disk that RocksDB is tuned for."""
        return self._predefined

    def set_options(self, options_factory_class_name: str) -> None:
        """Raise an error, because a factory of options is a Java class.

        Raises:
            DeclarationValueError: Always.
        """
        msg = (
            "RocksDB runs in the Python worker, where no Java class can be loaded, got the "
            f"options factory {options_factory_class_name!r}; use set_predefined_options()"
        )
        raise DeclarationValueError(msg)

    def get_options(self) -> str | None:
        """Return None: there is no factory of options here."""
        return None

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Raise an error, because no file is transferred to or from a checkpoint.

        Raises:
            DeclarationError: Always.
        """
        msg = (
            "state is made durable by Spark's state store and no file of RocksDB is transferred, "
            f"got {number_of_transfering_threads!r} transfer threads; leave this call out"
        )
        raise DeclarationError(msg)

    def get_number_of_transfer_threads(self) -> int:
        """Return Flink's default, 4; it has no effect."""
        return _TRANSFER_THREADS

    def __str__(self) -> str:
        return "EmbeddedRocksDBStateBackend"
