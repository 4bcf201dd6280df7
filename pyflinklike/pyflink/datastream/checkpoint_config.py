# SPDX-License-Identifier: Apache-2.0
"""Settings of checkpoints, as `pyflink.datastream.CheckpointConfig`.

On Spark each micro-batch is a checkpoint.  Three settings have an effect: the interval is the least time of
a micro-batch, the directory holds the checkpoints, and the retention decides whether a cancelled job keeps
its checkpoint.  All other settings are stored for their getters, so a program for PyFlink runs unchanged.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from pyflinklike._clock import Duration, DurationLike, to_milliseconds
from pyflinklike._deprecation import WithoutJava
from pyflinklike._messages import short_repr
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.pyflink._foreign_names import deprecated_alias
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.options import (
    Option,
    boolean,
    duration,
    enum_member,
    integer,
    text,
)
from pyflinklike.pyflink.common.stored_settings import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
)

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]

__getattr__ = of_pyflink(__name__)


class CheckpointingMode(Enum):
    """The guarantee for state, as `pyflink.datastream.CheckpointingMode`; here it is always exactly once."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """The fate of a checkpoint when its job is cancelled: only `DELETE_ON_CANCELLATION` removes it."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


INTERVAL = duration("execution.checkpointing.interval", -1)
DIRECTORY = text(
    "execution.checkpointing.dir", "state.checkpoints.dir", "state.backend.fs.checkpointdir"
)
RETENTION = enum_member(
    "execution.checkpointing.externalized-checkpoint-retention",
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
)
_MODE = enum_member("execution.checkpointing.mode", CheckpointingMode.EXACTLY_ONCE)
_TIMEOUT = duration("execution.checkpointing.timeout", 600_000)
_PAUSE = duration("execution.checkpointing.min-pause", 0)
_CONCURRENT = integer("execution.checkpointing.max-concurrent-checkpoints", 1)
_FORCED = boolean("execution.checkpointing.unaligned.forced", False)
_FAILURES = integer("execution.checkpointing.tolerable-failed-checkpoints", 0)
_ALIGNMENT = duration(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0,
    "execution.checkpointing.alignment-timeout",
)
_UNALIGNED = boolean(
    "execution.checkpointing.unaligned.enabled", False, "execution.checkpointing.unaligned"
)
_UNLIMITED = 2**31 - 1


class CheckpointConfig(WithoutJava):
    """Settings of checkpoints.

    Args:
        configuration: The configuration that holds the settings.
    """

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 600_000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether an interval is set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Return the interval in ms; -1 if it is not set.

        Raises:
            DeclarationValueError: The text in the configuration is no length of time.
        """
        return INTERVAL.of(self._configuration)

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Set the least time of a micro-batch.

        Args:
            checkpoint_interval: The time, an int in ms; a negative time means no interval.
        """
        milliseconds = to_milliseconds(checkpoint_interval, "checkpoint_interval")
        return self._set(INTERVAL, f"{milliseconds} ms" if milliseconds >= 0 else milliseconds)

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set the directory of checkpoints: each job has a folder in it, by its name, and goes on from there.

        Args:
            checkpoint_path: The path of a directory.
        """
        return self._set(DIRECTORY, checkpoint_path)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return the fate of the checkpoint when the job is cancelled.

        Raises:
            DeclarationValueError: The text in the configuration is no retention.
        """
        return RETENTION.of(self._configuration)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the fate of the checkpoint when the job is cancelled.

        Args:
            retention_mode: `DELETE_ON_CANCELLATION` removes it; any other keeps it.

        Raises:
            DeclarationTypeError: `retention_mode` is no `ExternalizedCheckpointRetention`.
        """
        return self._set(RETENTION, RETENTION.check(retention_mode, "retention_mode"))

    # Methods of Flink 1

    @deprecated_alias("get_externalized_checkpoint_retention()")
    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """Return the fate of the checkpoint when the job is cancelled."""
        return self.get_externalized_checkpoint_retention()

    @deprecated_alias("set_externalized_checkpoint_retention(retention_mode)")
    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the fate of the checkpoint when the job is cancelled.

        Args:
            cleanup_mode: The mode, as for `set_externalized_checkpoint_retention`.
        """
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    @deprecated_alias("set_externalized_checkpoint_retention(retention_mode)")
    def enable_externalized_checkpoints(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set the fate of the checkpoint when the job is cancelled.

        Args:
            cleanup_mode: The mode, as for `set_externalized_checkpoint_retention`.
        """
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    @deprecated_alias("set_checkpoint_storage_dir(path), or the key execution.checkpointing.dir")
    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set the directory of checkpoints to the folder of a storage.

        Args:
            storage: A `FileSystemCheckpointStorage`; any other storage has no folder, and no effect.

        Raises:
            DeclarationTypeError: `storage` is no `CheckpointStorage`.
        """
        if not isinstance(storage, CheckpointStorage):
            msg = (
                f"set_checkpoint_storage takes a CheckpointStorage, got {short_repr(storage)}; give for example "
                "FileSystemCheckpointStorage('/checkpoints')"
            )
            raise DeclarationTypeError(msg)
        if isinstance(storage, FileSystemCheckpointStorage):
            self.set_checkpoint_storage_dir(str(storage.get_checkpoint_path()))
        return self

    @deprecated_alias("the key execution.checkpointing.dir")
    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return the directory of checkpoints as a storage; None if no directory is set."""
        path = DIRECTORY.of(self._configuration)
        return None if path is None else FileSystemCheckpointStorage(path)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether a retention is set; without one, checkpoints stay."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    # Settings without effect here; some have two names, as in PyFlink

    get_checkpointing_mode, set_checkpointing_mode = _MODE.kept("checkpointing_mode")
    get_checkpointing_consistency_mode = get_checkpointing_mode
    set_checkpointing_consistency_mode = set_checkpointing_mode
    get_checkpoint_timeout, set_checkpoint_timeout = _TIMEOUT.kept("checkpoint_timeout")
    get_min_pause_between_checkpoints, set_min_pause_between_checkpoints = _PAUSE.kept(
        "min_pause_between_checkpoints"
    )
    get_max_concurrent_checkpoints, set_max_concurrent_checkpoints = _CONCURRENT.kept(
        "max_concurrent_checkpoints"
    )
    get_tolerable_checkpoint_failure_number, set_tolerable_checkpoint_failure_number = (
        _FAILURES.kept("tolerable_checkpoint_failure_number")
    )
    is_force_unaligned_checkpoints, set_force_unaligned_checkpoints = _FORCED.kept(
        "force_unaligned_checkpoints", True
    )
    is_unaligned_checkpoints_enabled, enable_unaligned_checkpoints = _UNALIGNED.kept(
        "enabled", True
    )
    disable_unaligned_checkpoints = _UNALIGNED.switch()[1]
    set_alignment_timeout = _ALIGNMENT.kept("alignment_timeout")[1]
    set_aligned_checkpoint_timeout = set_alignment_timeout

    def get_alignment_timeout(self) -> Duration:
        """Return the time after which a checkpoint overtakes elements in Flink; it has no effect here."""
        return Duration.of_millis(_ALIGNMENT.of(self._configuration))

    get_aligned_checkpoint_timeout = get_alignment_timeout

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether a failed checkpoint fails the job in Flink; here it always does."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(
        self, fail_on_checkpointing_errors: bool
    ) -> CheckpointConfig:
        """Store for the getter whether a failed checkpoint fails the job.

        Args:
            fail_on_checkpointing_errors: True allows no failed checkpoint, False any number of them.
        """
        return self._set(_FAILURES, 0 if fail_on_checkpointing_errors else _UNLIMITED)

    def _set(self, option: Option[Any], value: Any) -> CheckpointConfig:
        option.set(self._configuration, value)
        return self
