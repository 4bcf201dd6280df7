# SPDX-License-Identifier: Apache-2.0
"""Settings of an environment that no host here heeds: they are kept, and their getters tell them."""

from __future__ import annotations

from typing import Any, TypeVar

from pyflinklike.datastream.checkpoint_config import CheckpointConfig, CheckpointingMode
from pyflinklike.datastream.program import Program

__all__ = ["KeptSettings"]

E = TypeVar("E", bound="KeptSettings")


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

    def set_buffer_timeout(self: E, timeout_millis: int) -> E:
        """Kept."""
        return self._keep("execution.buffer-timeout.interval", timeout_millis)

    def get_buffer_timeout(self) -> int:
        """What was set."""
        return self._program.configuration.get_integer("execution.buffer-timeout.interval", 100)

    def disable_operator_chaining(self: E) -> E:
        """Kept."""
        return self._keep("pipeline.operator-chaining.enabled", False)

    def is_chaining_enabled(self) -> bool:
        """What was set."""
        key = "pipeline.operator-chaining.enabled"
        return self._program.configuration.get_boolean(key, True)

    def enable_changelog_state_backend(self: E, enabled: bool) -> E:
        """Kept: state is a changelog in any case."""
        return self._keep("state.changelog.enabled", enabled)

    def is_changelog_state_backend_enabled(self) -> bool:
        """What was set."""
        return self._program.configuration.get_boolean("state.changelog.enabled", False)

    def set_default_savepoint_directory(self: E, directory: str) -> E:
        """Kept."""
        return self._keep("execution.checkpointing.savepoint-dir", directory)

    def get_default_savepoint_directory(self) -> str | None:
        """What was set."""
        key = "execution.checkpointing.savepoint-dir"
        return self._program.configuration.to_dict().get(key)

    def set_python_executable(self, python_exec: str) -> None:
        """Kept: functions run with the Python of the host."""
        self._keep("python.executable", python_exec)

    def register_slot_sharing_group(self: E, slot_sharing_group: Any) -> E:  # noqa: ARG002
        """Nothing: where steps run is the host's matter."""
        return self

    def register_cached_file(self, file_path: str, name: str, executable: bool = False) -> None:
        """Nothing: Java's functions alone read such files."""

    def _keep(self: E, key: str, value: Any) -> E:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        self._program.configuration.set_string(key, text)
        return self
