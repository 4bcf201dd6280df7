# SPDX-License-Identifier: Apache-2.0
"""State backends, at PyFlink's path, with the backends of Flink 1.x.

Flink 1.x named a backend after the place of its checkpoints.  Here Spark writes the checkpoints to its
`checkpointLocation`, so a backend only decides where working state lives: in memory, or in RocksDB.
Paths and sizes are stored for their getters and have no effect.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import attrs

from pyflinklike._changelog.key_group_state import KeyedStateBackend
from pyflinklike._messages import short_repr
from pyflinklike.backends.heap.heap_backend import HashMapStateBackend
from pyflinklike.backends.rocksdb.local_database import PredefinedOptions
from pyflinklike.backends.rocksdb.rocksdb_backend import EmbeddedRocksDBStateBackend
from pyflinklike.backends.state_backend import StateBackend
from pyflinklike.errors import DeclarationError, DeclarationTypeError, DeclarationValueError
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.options import attribute, unused
from pyflinklike.state.current_key import CurrentKey

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "FsStateBackend",
    "HashMapStateBackend",
    "MemoryStateBackend",
    "PredefinedOptions",
    "RocksDBStateBackend",
    "StateBackend",
]

__getattr__ = of_pyflink(__name__)

_FILE_SIZE_THRESHOLD = 20 * 1024
_WARM_BYTES = HashMapStateBackend().max_warm_bytes


def _warn_deprecated(name: str, now: str, stacklevel: int = 4) -> None:
    warnings.warn(
        f"{name} is of Flink 1.x; use {now}(). Its paths and sizes have no effect: "
        "Spark writes state to its checkpointLocation",
        DeprecationWarning,
        stacklevel=stacklevel,
    )


def _require_path(name: str, path: str | None, now: str) -> None:
    if path is None:
        msg = f"The parameter {name!r} is required, got None; give a path, or use {now}(), which needs no path"
        raise DeclarationValueError(msg)


def _refuse_java(_: Any, __: Any, java: Any) -> None:
    if java is not None:
        msg = f"no Flink runs here, got a state backend in Java {short_repr(java)}; leave it out"
        raise DeclarationError(msg)


@attrs.frozen
class MemoryStateBackend(HashMapStateBackend):
    """Flink 1.x's name for `HashMapStateBackend`.  Deprecated."""

    DEFAULT_MAX_STATE_SIZE: ClassVar[int] = 5 * 1024 * 1024

    max_warm_bytes: int = attrs.field(init=False, default=_WARM_BYTES)
    checkpoint_path: str | None = unused()
    savepoint_path: str | None = unused()
    max_state_size: int | None = unused(DEFAULT_MAX_STATE_SIZE)
    using_asynchronous_snapshots: bool | None = unused(True)
    j_memory_state_backend: None = attrs.field(default=None, validator=_refuse_java)

    get_max_state_size = attribute("max_state_size", "the size, or 5 MiB")
    is_using_asynchronous_snapshots = attribute("using_asynchronous_snapshots")

    def __attrs_post_init__(self) -> None:
        """Warn that Flink 2 does not have the class."""
        _warn_deprecated("MemoryStateBackend", "HashMapStateBackend")

    def __str__(self) -> str:
        return "MemoryStateBackend"


@attrs.frozen
class FsStateBackend(HashMapStateBackend):
    """Flink 1.x's name for `HashMapStateBackend` with a directory for checkpoints.  Deprecated.

    Raises:
        DeclarationValueError: `checkpoint_directory_uri` is None.
    """

    max_warm_bytes: int = attrs.field(init=False, default=_WARM_BYTES)
    checkpoint_directory_uri: str | None = None
    default_savepoint_directory_uri: str | None = unused()
    file_state_size_threshold: int | None = unused(_FILE_SIZE_THRESHOLD)
    write_buffer_size: int | None = None
    using_asynchronous_snapshots: bool | None = unused(True)
    j_fs_state_backend: None = attrs.field(default=None, validator=_refuse_java)

    get_checkpoint_path = attribute("checkpoint_directory_uri")
    get_min_file_size_threshold = attribute("file_state_size_threshold", "the size, or 20480")
    is_using_asynchronous_snapshots = attribute("using_asynchronous_snapshots")

    def __attrs_post_init__(self) -> None:
        """Refuse a missing directory, and warn that Flink 2 does not have the class."""
        path = self.checkpoint_directory_uri
        _require_path("checkpoint_directory_uri", path, "HashMapStateBackend")
        _warn_deprecated("FsStateBackend", "HashMapStateBackend")

    def get_write_buffer_size(self) -> int:
        """Return the size that was set in bytes, or else the threshold; it has no effect."""
        threshold = self.file_state_size_threshold or 0
        given = self.write_buffer_size
        # Flink's rule: the threshold, but at least the default size of a buffer.
        return max(threshold, 4096) if given is None else given

    def __str__(self) -> str:
        return "FsStateBackend"


@attrs.define(init=False, unsafe_hash=True)
class RocksDBStateBackend(EmbeddedRocksDBStateBackend):  # type: ignore[override]
    """Flink 1.x's name for `EmbeddedRocksDBStateBackend`.  Deprecated.

    Raises:
        DeclarationValueError: Both `checkpoint_data_uri` and `checkpoint_stream_backend` are None.
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
            _require_path("checkpoint_data_uri", checkpoint_data_uri, "EmbeddedRocksDBStateBackend")
            # The user did not name this class, so its warning would mislead.
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                checkpoint_stream_backend = FsStateBackend(checkpoint_data_uri)
        self._checkpoint_backend = checkpoint_stream_backend
        _warn_deprecated("RocksDBStateBackend", "EmbeddedRocksDBStateBackend", 3)

    get_checkpoint_backend = attribute("_checkpoint_backend", "the backend for checkpoints")

    def set_number_of_transfering_threads(self, number_of_transfering_threads: int) -> None:
        """Refuse a number, as `set_number_of_transfer_threads` does.

        Raises:
            DeclarationError: Always.
        """
        self.set_number_of_transfer_threads(number_of_transfering_threads)

    def get_number_of_transfering_threads(self) -> int:
        """Return Flink's default, 4; it has no effect."""
        return self.get_number_of_transfer_threads()

    def __str__(self) -> str:
        return "RocksDBStateBackend"


@attrs.frozen
class CustomStateBackend(StateBackend):
    """A state backend of your own, wrapped as PyFlink wraps a Java one.

    You do not need the wrapper: a subclass of `StateBackend` can be used as it is.

    Raises:
        DeclarationTypeError: The wrapped object is no `StateBackend`.
    """

    j_custom_state_backend: StateBackend = attrs.field()

    @j_custom_state_backend.validator
    def _check(self, _: attrs.Attribute[StateBackend], value: StateBackend) -> None:
        if not isinstance(value, StateBackend):
            msg = (
                "CustomStateBackend takes a StateBackend written in Python, "
                f"got {short_repr(value)}; subclass pyflinklike.StateBackend"
            )
            raise DeclarationTypeError(msg)

    def create_keyed_state_backend(self, current: CurrentKey, owner: str) -> KeyedStateBackend:
        """Create the working state of the wrapped backend."""
        return self.j_custom_state_backend.create_keyed_state_backend(current, owner)

    def shared_by(self, processes: int) -> StateBackend:
        """Return the wrapped backend of each of some processes that share its memory."""
        return self.j_custom_state_backend.shared_by(processes)

    def __str__(self) -> str:
        return f"CustomStateBackend({self.j_custom_state_backend})"
