# SPDX-License-Identifier: Apache-2.0
"""Settings of checkpoints, as `pyflink.datastream.CheckpointConfig`.

On Spark each micro-batch is a checkpoint.  The interval says how long one lasts at least, the
directory where it is, and the retention whether a cancelled job can go on from it; all other settings
are kept for their getters.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.common.configuration import Configuration
from pyflinklike.errors import DeclarationValueError

__all__ = ["CheckpointConfig", "CheckpointingMode", "ExternalizedCheckpointRetention"]

INTERVAL = "execution.checkpointing.interval"
DIRECTORY = "execution.checkpointing.dir"
_MODE = "execution.checkpointing.mode"
_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"


class CheckpointingMode(Enum):
    """What checkpoints promise, as `pyflink.datastream.CheckpointingMode`."""

    EXACTLY_ONCE = 0
    AT_LEAST_ONCE = 1


class ExternalizedCheckpointRetention(Enum):
    """What becomes of a checkpoint when a job is cancelled; it stays if nothing is said."""

    DELETE_ON_CANCELLATION = 0
    RETAIN_ON_CANCELLATION = 1
    NO_EXTERNALIZED_CHECKPOINTS = 2


class CheckpointConfig:
    """Settings of checkpoints.

    Args:
        configuration: Holds them.
    """

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def is_checkpointing_enabled(self) -> bool:
        """Whether an interval was set."""
        return self.get_checkpoint_interval() > 0

    def get_checkpoint_interval(self) -> int:
        """The interval in ms; -1 if there is none."""
        return int(self._configuration.get_string(INTERVAL, "-1").removesuffix("ms"))

    def set_checkpoint_interval(self, checkpoint_interval: DurationLike) -> CheckpointConfig:
        """Say how long a micro-batch lasts at least, in ms."""
        milliseconds = to_milliseconds(checkpoint_interval, "checkpoint_interval")
        self._configuration.set_string(INTERVAL, f"{milliseconds}ms")
        return self

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What checkpoints promise."""
        return CheckpointingMode[self._configuration.get_string(_MODE, "EXACTLY_ONCE")]

    def set_checkpointing_mode(self, checkpointing_mode: CheckpointingMode) -> CheckpointConfig:
        """Kept: state is exactly once."""
        self._configuration.set_string(_MODE, checkpointing_mode.name)
        return self

    def set_checkpoint_storage_dir(self, checkpoint_path: str) -> CheckpointConfig:
        """Say where checkpoints are: each job has a folder there, by its name, and goes on from it."""
        self._configuration.set_string(DIRECTORY, checkpoint_path)
        return self

    def get_externalized_checkpoint_retention(self) -> ExternalizedCheckpointRetention:
        """What becomes of the checkpoint when the job is cancelled.

        Raises:
            DeclarationValueError: The configuration names none of them.
        """
        known = ExternalizedCheckpointRetention.__members__
        name = self._configuration.get_string(_RETENTION, "NO_EXTERNALIZED_CHECKPOINTS")
        if name not in known:
            msg = f"{_RETENTION} is one of {', '.join(known)}, got {name!r}"
            raise DeclarationValueError(msg)
        return known[name]

    def set_externalized_checkpoint_retention(
        self, retention: ExternalizedCheckpointRetention
    ) -> CheckpointConfig:
        """Say what becomes of the checkpoint when the job is cancelled."""
        self._configuration.set_string(_RETENTION, retention.name)
        return self

    def __getattr__(self, name: str) -> Any:
        """Setters and getters of the rest: PyFlink's, with its defaults."""
        verb, _, what = name.partition("_")
        if verb == "set" and what in _DEFAULTS:
            return lambda value: self._kept(what, value)
        if verb in ("get", "is") and what in _DEFAULTS:
            kept = vars(self._configuration).setdefault("_checkpoints", {})
            return lambda: kept.get(what, _DEFAULTS[what])
        if verb in ("enable", "disable"):
            return lambda enabled=True: self._kept(f"{what}_enabled", enabled and verb == "enable")
        msg = f"CheckpointConfig has no {name!r}; it has those of PyFlink 2.3"
        raise AttributeError(msg)

    def _kept(self, what: str, value: Any) -> CheckpointConfig:
        vars(self._configuration).setdefault("_checkpoints", {})[what] = value
        return self


_DEFAULTS: dict[str, Any] = {
    "checkpoint_timeout": 600_000,
    "min_pause_between_checkpoints": 0,
    "tolerable_checkpoint_failure_number": 0,
    "max_concurrent_checkpoints": 1,
    "alignment_timeout": 0,
    "unaligned_checkpoints_enabled": False,
    "force_unaligned_checkpoints": False,
    "fail_on_checkpointing_errors": True,
}
