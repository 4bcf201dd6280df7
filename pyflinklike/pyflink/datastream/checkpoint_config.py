# SPDX-License-Identifier: Apache-2.0
"""Settings of checkpoints, as `pyflink.datastream.CheckpointConfig`.

On Spark each micro-batch is a checkpoint.  Three settings count: the interval is the least time of a
micro-batch, the directory is where checkpoints are, and the retention decides whether a cancelled job can
go on from its own.  All others are stored for their getters, so a program for PyFlink runs unchanged.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from pyflinklike._checks import is_int
from pyflinklike._clock import Duration, DurationLike, to_milliseconds
from pyflinklike._deprecation import WithoutJava, former
from pyflinklike._messages import shown
from pyflinklike.errors import DeclarationTypeError
from pyflinklike.pyflink._names import of_pyflink
from pyflinklike.pyflink.common.configuration import Configuration
from pyflinklike.pyflink.common.options import Option, boolean, duration, enum_member, integer, text
from pyflinklike.pyflink.datastream.checkpoint_storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
)

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]

__getattr__ = of_pyflink(__name__)


class CheckpointingMode(Enum):
    """The guarantee of checkpoints, as `pyflink.datastream.CheckpointingMode`; here exactly once."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """What happens to a checkpoint when its job is cancelled; it stays unless it is to be deleted."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


INTERVAL = duration("execution.checkpointing.interval", -1)
DIRECTORY = text(
    "execution.checkpointing.dir", "state.checkpoints.dir", "state.backend.fs.checkpointdir"
)
_MODE = enum_member("execution.checkpointing.mode", CheckpointingMode.EXACTLY_ONCE)
RETENTION = enum_member(
    "execution.checkpointing.externalized-checkpoint-retention",
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS,
)
_TIMEOUT = duration("execution.checkpointing.timeout", 600_000)
_PAUSE = duration("execution.checkpointing.min-pause", 0)
_CONCURRENT = integer("execution.checkpointing.max-concurrent-checkpoints", 1)
_FAILURES = integer("execution.checkpointing.tolerable-failed-checkpoints", 0)
_ALIGNMENT = duration(
    "execution.checkpointing.aligned-checkpoint-timeout",
    0,
    "execution.checkpointing.alignment-timeout",
)
_UNALIGNED = boolean(
    "execution.checkpointing.unaligned.enabled", False, "execution.checkpointing.unaligned"
)
_FORCED = boolean("execution.checkpointing.unaligned.forced", False)
_UNLIMITED = 2**31 - 1


class CheckpointConfig(WithoutJava):
    """Settings of checkpoints.

    Args:
        configuration: The configuration that holds them.
    """

    DEFAULT_MODE = CheckpointingMode.EXACTLY_ONCE
    DEFAULT_TIMEOUT = 600_000
    DEFAULT_MIN_PAUSE_BETWEEN_CHECKPOINTS = 0
    DEFAULT_MAX_CONCURRENT_CHECKPOINTS = 1

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Return whether an interval was set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """Return the interval in ms; -1 if it is not set.

        Raises:
            DeclarationValueError: The configuration has a text that is no length of time.
        """
        return INTERVAL.of(self._configuration)

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Set the least time of a micro-batch.

        Args:
            checkpoint_interval: An int is in ms; a negative one is not set.
        """
        milliseconds = to_milliseconds(checkpoint_interval, "checkpoint_interval")
        return self._set(INTERVAL, f"{milliseconds} ms" if milliseconds >= 0 else milliseconds)

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """Return the mode that was set; state is exactly once with any.

        Raises:
            DeclarationValueError: The configuration has a text that is no mode.
        """
        return _MODE.of(self._configuration)

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Store a mode for its getter: state is exactly once with any.

        Args:
            checkpointing_mode: The mode.

        Raises:
            DeclarationTypeError: It is no `CheckpointingMode`.
        """
        return self._set(_MODE, _member(checkpointing_mode, CheckpointingMode))

    get_checkpointing_consistency_mode = get_checkpointing_mode
    set_checkpointing_consistency_mode = set_checkpointing_mode

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Set where checkpoints are: each job has a folder there, by its name, and goes on from it.

        Args:
            checkpoint_path: The path of a directory.
        """
        return self._set(DIRECTORY, checkpoint_path)

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """Return what happens to the checkpoint when the job is cancelled.

        Raises:
            DeclarationValueError: The configuration has a text that is no retention.
        """
        return RETENTION.of(self._configuration)

    def set_externalized_checkpoint_retention(
        self, retention_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what happens to the checkpoint when the job is cancelled.

        Args:
            retention_mode: `DELETE_ON_CANCELLATION` removes it; any other keeps it.

        Raises:
            DeclarationTypeError: It is no `ExternalizedCheckpointRetention`.
        """
        return self._set(RETENTION, _member(retention_mode, ExternalizedCheckpointRetention))

    # Of Flink 1

    @former("get_externalized_checkpoint_retention()")
    def get_externalized_checkpoint_cleanup(self) -> ExternalizedCheckpointRetention:
        """Return what happens to the checkpoint when the job is cancelled."""
        return self.get_externalized_checkpoint_retention()

    @former("set_externalized_checkpoint_retention(retention_mode)")
    def set_externalized_checkpoint_cleanup(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what happens to the checkpoint when the job is cancelled.

        Args:
            cleanup_mode: As for `set_externalized_checkpoint_retention`.
        """
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    @former("set_externalized_checkpoint_retention(retention_mode)")
    def enable_externalized_checkpoints(
        self, cleanup_mode: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Set what happens to the checkpoint when the job is cancelled.

        Args:
            cleanup_mode: As for `set_externalized_checkpoint_retention`.
        """
        return self.set_externalized_checkpoint_retention(cleanup_mode)

    @former("set_checkpoint_storage_dir(path), or the key execution.checkpointing.dir")
    def set_checkpoint_storage(self, storage: CheckpointStorage) -> CheckpointConfig:
        """Set where checkpoints are, by the folder of a storage.

        Args:
            storage: A `FileSystemCheckpointStorage`; any other has no folder, and no effect.

        Raises:
            DeclarationTypeError: It is no `CheckpointStorage`.
        """
        if not isinstance(storage, CheckpointStorage):
            msg = (
                f"it takes a CheckpointStorage, got {shown(storage)}; give for example "
                "FileSystemCheckpointStorage('/checkpoints')"
            )
            raise DeclarationTypeError(msg)
        if isinstance(storage, FileSystemCheckpointStorage):
            self.set_checkpoint_storage_dir(str(storage.get_checkpoint_path()))
        return self

    @former("the key execution.checkpointing.dir")
    def get_checkpoint_storage(self) -> CheckpointStorage | None:
        """Return the folder of checkpoints as a storage; None where there is none."""
        path = DIRECTORY.of(self._configuration)
        return None if path is None else FileSystemCheckpointStorage(path)

    def is_externalized_checkpoints_enabled(self) -> bool:
        """Return whether a retention was set; here checkpoints stay unless they are to be deleted."""
        none = ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS
        return self.get_externalized_checkpoint_retention() is not none

    # Settings without effect here

    def get_checkpoint_timeout(self) -> int:
        """Return the most time of a checkpoint in Flink, in ms; here Spark has no such limit."""
        return _TIMEOUT.of(self._configuration)

    def set_checkpoint_timeout(self, checkpoint_timeout: DurationLike) -> CheckpointConfig:
        """Store the most time of a checkpoint for its getter.

        Args:
            checkpoint_timeout: An int is in ms.
        """
        return self._set(_TIMEOUT, to_milliseconds(checkpoint_timeout, "checkpoint_timeout"))

    def get_min_pause_between_checkpoints(self) -> int:
        """Return the least pause between checkpoints in Flink, in ms; here there is none."""
        return _PAUSE.of(self._configuration)

    def set_min_pause_between_checkpoints(
        self, min_pause_between_checkpoints: DurationLike
    ) -> CheckpointConfig:
        """Store the least pause between checkpoints for its getter.

        Args:
            min_pause_between_checkpoints: An int is in ms.
        """
        pause = to_milliseconds(min_pause_between_checkpoints, "min_pause_between_checkpoints")
        return self._set(_PAUSE, pause)

    def get_max_concurrent_checkpoints(self) -> int:
        """Return how many checkpoints Flink makes at one time; here it is always one."""
        return _CONCURRENT.of(self._configuration)

    def set_max_concurrent_checkpoints(self, max_concurrent_checkpoints: int) -> CheckpointConfig:
        """Store the most checkpoints at one time for its getter.

        Args:
            max_concurrent_checkpoints: A number.

        Raises:
            DeclarationTypeError: It is no int.
        """
        return self._set(_CONCURRENT, _number(max_concurrent_checkpoints, _CONCURRENT))

    def get_tolerable_checkpoint_failure_number(self) -> int:
        """Return how many checkpoints may fail in a row in Flink; here none may."""
        return _FAILURES.of(self._configuration)

    def set_tolerable_checkpoint_failure_number(
        self, tolerable_checkpoint_failure_number: int
    ) -> CheckpointConfig:
        """Store how many checkpoints may fail in a row for its getter.

        Args:
            tolerable_checkpoint_failure_number: A number.

        Raises:
            DeclarationTypeError: It is no int.
        """
        return self._set(_FAILURES, _number(tolerable_checkpoint_failure_number, _FAILURES))

    def is_fail_on_checkpointing_errors(self) -> bool:
        """Return whether a job fails with a checkpoint in Flink; here it always does."""
        return self.get_tolerable_checkpoint_failure_number() == 0

    def set_fail_on_checkpointing_errors(
        self, fail_on_checkpointing_errors: bool
    ) -> CheckpointConfig:
        """Store whether a job fails with a checkpoint for its getter.

        Args:
            fail_on_checkpointing_errors: True tolerates no failed checkpoint, False any number.
        """
        return self._set(_FAILURES, 0 if fail_on_checkpointing_errors else _UNLIMITED)

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Return whether checkpoints that overtake elements were enabled; here none does."""
        return _UNALIGNED.of(self._configuration)

    def enable_unaligned_checkpoints(self, enabled: bool = True) -> CheckpointConfig:
        """Store for its getter whether checkpoints may overtake elements.

        Args:
            enabled: True or False.
        """
        return self._set(_UNALIGNED, bool(enabled))

    def disable_unaligned_checkpoints(self) -> CheckpointConfig:
        """Store for its getter that checkpoints do not overtake elements."""
        return self.enable_unaligned_checkpoints(False)

    def get_alignment_timeout(self) -> Duration:
        """Return how long a checkpoint waits in Flink before it overtakes elements."""
        return Duration.of_millis(_ALIGNMENT.of(self._configuration))

    def set_alignment_timeout(self, alignment_timeout: DurationLike) -> CheckpointConfig:
        """Store for its getter how long a checkpoint waits before it overtakes elements.

        Args:
            alignment_timeout: An int is in ms.
        """
        return self._set(_ALIGNMENT, to_milliseconds(alignment_timeout, "alignment_timeout"))

    get_aligned_checkpoint_timeout = get_alignment_timeout

    def set_aligned_checkpoint_timeout(self, alignment_timeout: DurationLike) -> CheckpointConfig:
        """Store for its getter how long a checkpoint waits before it overtakes elements.

        Args:
            alignment_timeout: An int is in ms.
        """
        return self.set_alignment_timeout(alignment_timeout)

    def is_force_unaligned_checkpoints(self) -> bool:
        """Return what `set_force_unaligned_checkpoints` was given last; False before."""
        return _FORCED.of(self._configuration)

    def set_force_unaligned_checkpoints(
        self, force_unaligned_checkpoints: bool = True
    ) -> CheckpointConfig:
        """Store for its getter whether checkpoints overtake elements in any case.

        Args:
            force_unaligned_checkpoints: True or False.
        """
        return self._set(_FORCED, bool(force_unaligned_checkpoints))

    def _set(self, option: Option[Any], value: Any) -> CheckpointConfig:
        option.set(self._configuration, value)
        return self


def _number(given: Any, option: Option[int]) -> int:
    if not is_int(given):
        msg = f"{option.key} is an int, got {shown(given)}; give for example {option.default}"
        raise DeclarationTypeError(msg)
    return given


def _member(given: Any, kind: type[Enum]) -> Enum:
    if not isinstance(given, kind):
        first = next(iter(kind.__members__))
        msg = f"it takes a member of {kind.__name__}, got {shown(given)}; give for example {kind.__name__}.{first}"
        raise DeclarationTypeError(msg)
    return given
