# SPDX-License-Identifier: Apache-2.0
"""The state backends of Flink 1.x, as other names for the two backends of today.

Flink 1.x named a backend after the place of its checkpoints.  Here checkpoints are Spark's business
(`checkpointLocation`), so each name only says where working state lives: in memory, or in RocksDB.
What was set can be read back and has no effect.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import attrs

from pyflinklike._changelog.working_state import KeyedStateBackend
from pyflinklike._messages import shown
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.state.current_key import CurrentKey

__all__ = ["CustomStateBackend", "FsStateBackend", "MemoryStateBackend", "RocksDBStateBackend"]

_FILE_SIZE_THRESHOLD = 20 * 1024


def _warn_deprecated(name: str, now: str) -> None:
    warnings.warn(
        f"{name} is of Flink 1.x; use {now}(). Its paths and sizes have no effect: "
        "Spark's checkpointLocation says where state is made durable",
        DeprecationWarning,
        stacklevel=3,
    )


def _refuse_java(java: Any) -> None:
    if java is not None:
        msg = f"there is no Flink in this JVM, got a Java state backend {shown(java)}; leave it out"
        raise DeclarationError(msg)


@attrs.frozen(init=False)
class MemoryStateBackend(HashMapStateBackend):
    """Flink 1.x's name for `HashMapStateBackend`.  Deprecated."""

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = 5 * 1024 * 1024

    _max_state_size: int = attrs.field(kw_only=True)
    _asynchronous: bool = attrs.field(kw_only=True)

    def __init__(
        self,
        checkpoint_path: str | None = None,
        savepoint_path: str | None = None,
        max_state_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
        j_memory_state_backend: None = None,
    ) -> None:
        del checkpoint_path, savepoint_path
        _refuse_java(j_memory_state_backend)
        _warn_deprecated("MemoryStateBackend", "HashMapStateBackend")
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self.__attrs_init__(
            max_state_size=size, asynchronous=using_asynchronous_snapshots is not False
        )

    def get_max_state_size(self) -> int:
        """Return what was set, or 5 MiB; it has no effect."""
        return self._max_state_size

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return what was set, or True; it has no effect."""
        return self._asynchronous

    def __str__(self) -> str:
        return "MemoryStateBackend"


@attrs.frozen(init=False)
class FsStateBackend(HashMapStateBackend):
    """Flink 1.x's name for `HashMapStateBackend` with a place for checkpoints.  Deprecated.

    Raises:
        DeclarationValueError: There is no `checkpoint_directory_uri`.
    """

    _checkpoint_path: str = attrs.field(kw_only=True)
    _threshold: int = attrs.field(kw_only=True)
    _buffer: int = attrs.field(kw_only=True)
    _asynchronous: bool = attrs.field(kw_only=True)

    def __init__(
        self,
        checkpoint_directory_uri: str | None = None,
        default_savepoint_directory_uri: str | None = None,
        file_state_size_threshold: int | None = None,
        write_buffer_size: int | None = None,
        using_asynchronous_snapshots: bool | None = None,
        j_fs_state_backend: None = None,
    ) -> None:
        del default_savepoint_directory_uri
        _refuse_java(j_fs_state_backend)
        if checkpoint_directory_uri is None:
            msg = (
                "The parameter 'checkpoint_directory_uri' is required, got None; "
                "or use HashMapStateBackend(), which needs none"
            )
            raise DeclarationValueError(msg)
        _warn_deprecated("FsStateBackend", "HashMapStateBackend")
        small = file_state_size_threshold
        threshold = _FILE_SIZE_THRESHOLD if small is None else small
        self.__attrs_init__(
            checkpoint_path=checkpoint_directory_uri,
            threshold=threshold,
            buffer=max(threshold, 4096) if write_buffer_size is None else write_buffer_size,
            asynchronous=using_asynchronous_snapshots is not False,
        )

    def get_checkpoint_path(self) -> str:
        """Return what was set; it has no effect."""
        return self._checkpoint_path

    def get_min_file_size_threshold(self) -> int:
        """Return what was set, or 20480 bytes; it has no effect."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Return what was set, or the threshold, in bytes; it has no effect."""
        return self._buffer

    def is_using_asynchronous_snapshots(self) -> bool:
        """Return what was set, or True; it has no effect."""
        return self._asynchronous

    def __str__(self) -> str:
        return "FsStateBackend"


@attrs.define(init=False, unsafe_hash=True)
class RocksDBStateBackend(EmbeddedRocksDBStateBackend):  # type: ignore[override]
    """Flink 1.x's name for `EmbeddedRocksDBStateBackend`.  Deprecated.

    Raises:
        DeclarationValueError: There is neither a uri nor a backend for checkpoints.
    """

    _checkpoint_backend: StateBackend

    def __init__(
        self,
        checkpoint_data_uri: str | None = None,
        enable_incremental_checkpointing: bool | None = None,
        checkpoint_stream_backend: StateBackend | None = None,
        j_rocks_db_state_backend: None = None,
    ) -> None:
        super().__init__(enable_incremental_checkpointing, j_rocks_db_state_backend)
        if checkpoint_stream_backend is None:
            if checkpoint_data_uri is None:
                msg = (
                    "The parameter 'checkpoint_data_uri' is required, got None; "
                    "or use EmbeddedRocksDBStateBackend(), which needs none"
                )
                raise DeclarationValueError(msg)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        _warn_deprecated("RocksDBStateBackend", "EmbeddedRocksDBStateBackend")
        self._checkpoint_backend = checkpoint_stream_backend

    def get_checkpoint_backend(self) -> StateBackend:
        """Return the backend that was given for checkpoints; it has no effect."""
        return self._checkpoint_backend

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Raise, as `set_number_of_transfer_threads` does.

        Raises:
            DeclarationError: Always.
        """
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def get_number_of_transfering_threads(self) -> int:
        """Return Flink's default, 4; it has no effect."""
        return self.get_number_of_transfer_threads()

    def __str__(self) -> str:
        return "RocksDBStateBackend"


@attrs.frozen(init=False)
class CustomStateBackend(StateBackend):
    """A state backend of your own, wrapped as PyFlink wraps a Java one.

    Nothing here needs it: a subclass of `StateBackend` can be used as it is.

    Raises:
        DeclarationTypeError: The wrapped object is no `StateBackend`.
    """

    _backend: StateBackend

    def __init__(self, j_custom_state_backend: StateBackend) -> None:
        if not isinstance(j_custom_state_backend, StateBackend):
            msg = (
                "CustomStateBackend takes a StateBackend written in Python, "
                f"got {shown(j_custom_state_backend)}; subclass pyflinklike.StateBackend"
            )
            raise DeclarationTypeError(msg)
        self.__attrs_init__(backend=j_custom_state_backend)

    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> KeyedStateBackend:
        """Create the tables of the wrapped backend."""
        return self._backend.create_keyed_state_backend(current, owner)

    def __str__(self) -> str:
        return f"CustomStateBackend({self._backend})"
