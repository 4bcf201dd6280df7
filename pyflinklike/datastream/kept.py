# SPDX-License-Identifier: Apache-2.0
"""Settings of an environment that no host here heeds: they are kept, and their getters tell them."""

from __future__ import annotations

from typing import Any, TypeVar

from pyflinklike.clock import DurationLike, to_milliseconds
from pyflinklike.common.options import Option, boolean, duration, named
from pyflinklike.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from pyflinklike.datastream.program import Program

__all__ = ["KeptSettings"]

E = TypeVar("E", bound="KeptSettings")

_BUFFER_TIMEOUT = duration("execution.buffer-timeout.interval", 100, "execution.buffer-timeout")
_BUFFER_TIMEOUT_ENABLED = boolean("execution.buffer-timeout.enabled", True)
_CHAINING = boolean("pipeline.operator-chaining.enabled", True, "pipeline.operator-chaining")
_CHANGELOG = boolean("state.changelog.enabled", False, "state.backend.changelog.enabled")
_SAVEPOINTS = named(
    "execution.checkpointing.savepoint-dir",
    "state.savepoints.dir",
    "savepoints.state.backend.fs.dir",
)


class KeptSettings:
    """What is said to an environment, and asked of it, without effect on a job."""

    _program: Program

    def get_checkpoint_config(self) -> CheckpointConfig:
        """Settings of checkpoints."""
        raise NotImplementedError

    def get_checkpoint_interval(self) -> int:
        """The interval of checkpoints in ms; -1 if there is none."""
        return self.get_checkpoint_config().get_checkpoint_interval()

    def get_checkpointing_mode(self) -> CheckpointingMode:
        """What checkpoints promise."""
        return self.get_checkpoint_config().get_checkpointing_mode()

    get_checkpointing_consistency_mode = get_checkpointing_mode

    def is_unaligned_checkpoints_enabled(self) -> bool:
        """Whether checkpoints may overtake elements, which nothing does here."""
        return bool(self.get_checkpoint_config().is_unaligned_checkpoints_enabled())

    def set_buffer_timeout(self: E, timeout_millis: DurationLike) -> E:
        """Keep it for its getter; an int is ms, and -1 is none."""
        return self._keep(_BUFFER_TIMEOUT, to_milliseconds(timeout_millis, "the buffer timeout"))

    def get_buffer_timeout(self) -> int:
        """What was set, in ms; -1 where it is switched off."""
        config = self._program.configuration
        return _BUFFER_TIMEOUT.of(config) if _BUFFER_TIMEOUT_ENABLED.of(config) else -1

    def disable_operator_chaining(self: E) -> E:
        """Keep it for its getter."""
        return self._keep(_CHAINING, False)

    def is_chaining_enabled(self) -> bool:
        """What was set."""
        return _CHAINING.of(self._program.configuration)

    def enable_changelog_state_backend(self: E, enabled: bool) -> E:
        """Keep it for its getter: state is a changelog in any case."""
        return self._keep(_CHANGELOG, bool(enabled))

    def is_changelog_state_backend_enabled(self) -> bool:
        """What was set."""
        return _CHANGELOG.of(self._program.configuration)

    def set_default_savepoint_directory(self: E, directory: str) -> E:
        """Keep it for its getter."""
        return self._keep(_SAVEPOINTS, directory)

    def get_default_savepoint_directory(self) -> str | None:
        """What was set."""
        return _SAVEPOINTS.of(self._program.configuration)

    def set_python_executable(self, python_exec: str) -> None:
        """Keep it: functions run with the Python of the host."""
        self._program.configuration.set_string("python.executable", python_exec)

    def register_slot_sharing_group(self: E, slot_sharing_group: Any) -> E:  # noqa: ARG002
        """Nothing: where steps run is the host's matter."""
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Nothing: Java's functions alone read such files."""

    def _keep(self: E, option: Option[Any], value: Any) -> E:
        option.set(self._program.configuration, value)
        return self
